"""Strategies of the small core kinds.

Namespaces, nodes, services, config maps, secrets, events and leases. Services are only accepted without a
virtual address (headless or ExternalName): the embedded cluster has no service proxy.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError, child, shown
from shoal.api.kinds import DEFAULT_NAMESPACE
from shoal.api.meta import View
from shoal.api.names import dns_label_errors, dns_subdomain_errors, labels_errors
from shoal.apiserver.strategies.strategy import immutable_errors
from shoal.cluster.errors import ForbiddenError
from shoal.cluster.resources import Object

BUILT_IN_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_UNDELETABLE_NAMESPACES: Final = ("default", "kube-public", "kube-system")
_NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def default_namespace(namespace: Object) -> None:
    """Set the label by which a namespace is selected by name."""
    metadata = namespace["metadata"]
    metadata["labels"] = metadata.get("labels", {}) | {_NAMESPACE_NAME_LABEL: metadata["name"]}


def prepare_namespace_create(namespace: Object) -> None:
    """Set phase Active, and the finalizer that keeps a namespace until it is empty."""
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}


def prepare_namespace_update(namespace: Object, old: Object) -> None:
    """Keep the spec: clients cannot change its finalizers."""
    namespace["spec"] = old["spec"]


def check_namespace_delete(namespace: Object) -> None:
    """Refuse the deletion of the system namespaces."""
    name = namespace["metadata"]["name"]
    if name in _UNDELETABLE_NAMESPACES:
        raise ForbiddenError(f'namespaces "{name}" is forbidden: this namespace may not be deleted')


def prepare_namespace_delete(namespace: Object) -> None:
    """Set phase Terminating."""
    namespace["status"] = namespace.get("status", {}) | {"phase": "Terminating"}
    del namespace["metadata"]["deletionGracePeriodSeconds"]


def namespace_blocks_deletion(namespace: Object) -> bool:
    """Whether the namespace still has the finalizer of its contents."""
    return bool(namespace["spec"].get("finalizers"))


_MAX_DATA_BYTES: Final = 1024 * 1024
_DATA_KEY: Final = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}", re.ASCII)
"""Keys become file names in volumes, so path components such as `..` are excluded."""
_REQUIRED_SECRET_KEYS: Final = {
    "kubernetes.io/tls": (("tls.crt",), ("tls.key",)),
    "kubernetes.io/ssh-auth": (("ssh-privatekey",),),
    "kubernetes.io/basic-auth": (("username", "password"),),
    "kubernetes.io/dockerconfigjson": ((".dockerconfigjson",),),
    "kubernetes.io/dockercfg": ((".dockercfg",),),
}
"""Required keys by secret type: at least one key of each group."""
_NODE_INFO_FIELDS: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def default_node(node: Object) -> None:
    """Set omitted fields of a node; allocatable defaults to the capacity."""
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status.setdefault("nodeInfo", dict.fromkeys(_NODE_INFO_FIELDS, ""))


def taint_errors(node: Object) -> Iterator[FieldError]:
    """Yield errors for duplicate taints."""
    taints = [(taint.get("key"), taint.get("effect")) for taint in node["spec"].get("taints", ())]
    for i, taint in enumerate(taints):
        if taint in taints[:i]:
            yield FieldError(f"metadata.taints[{i}]", "taints must be unique by key and effect")


# --- config maps and secrets -------------------------------------------------------------------------------


def config_map_errors(obj: Object) -> Iterator[FieldError]:
    """Yield the errors of a config map."""
    text, binary = obj.get("data", {}), obj.get("binaryData", {})
    yield from _key_errors(text, "data")
    yield from _key_errors(binary, "binaryData")
    yield from _base64_errors(binary, "binaryData")
    yield from _size_errors({**text, **binary}, "")
    for key in sorted(set(text) & set(binary)):
        yield FieldError(child("binaryData", key), "must not be in data too")


def secret_errors(obj: Object) -> Iterator[FieldError]:
    """Yield the errors of a secret."""
    data = obj.get("data", {})
    yield from _key_errors(data, "data")
    yield from _base64_errors(data, "data")
    yield from _size_errors(data, "data")
    for keys in _REQUIRED_SECRET_KEYS.get(obj["type"], ()):
        if not any(key in data for key in keys):
            for key in keys:
                yield FieldError(f"data[{key}]", f"is required in a secret of type {obj['type']}")


def default_secret(secret: Object) -> None:
    """Default the type, and move stringData into data, encoded as base64."""
    secret.setdefault("type", "Opaque")
    plain = secret.pop("stringData", {})
    if plain:
        kept = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        secret["data"] = secret.get("data", {}) | kept


def data_update_errors(obj: Object, old: Object) -> Iterator[FieldError]:
    """Yield errors for changes of immutable data."""
    if old.get("immutable") is True:
        yield from immutable_errors(obj, old, "immutable", "data", "binaryData")


def secret_update_errors(obj: Object, old: Object) -> Iterator[FieldError]:
    """Yield errors for changes of the type, and of immutable data."""
    yield from immutable_errors(obj, old, "type")
    yield from data_update_errors(obj, old)


def _key_errors(data: dict[str, str], path: str) -> Iterator[FieldError]:
    for key in data:
        if not _DATA_KEY.fullmatch(key):
            message = f"must be letters, digits, -, _ and . (at most 253), not '{shown(key)}'"
            yield FieldError(child(path, key), message)


def _base64_errors(data: dict[str, str], path: str) -> Iterator[FieldError]:
    for key, value in data.items():
        if not _is_base64(value):
            yield FieldError(child(path, key), "must be base64")


def _size_errors(data: dict[str, str], path: str) -> Iterator[FieldError]:
    if sum(len(value.encode()) for value in data.values()) > _MAX_DATA_BYTES:
        yield FieldError(path, f"Too long: may not be more than {_MAX_DATA_BYTES} bytes")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


# --- events and leases -------------------------------------------------------------------------------------

_EVENT_DEFAULTS: Final[dict[str, Any]] = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


def default_event(event: Object) -> None:
    """Set omitted fields of an event."""
    for field, value in _EVENT_DEFAULTS.items():
        event.setdefault(field, dict(value) if isinstance(value, dict) else value)


def event_errors(event: Object) -> Iterator[FieldError]:
    """Yield the errors of an event: it must be in the namespace of its involved object."""
    namespace = event.get("involvedObject", {}).get("namespace") or DEFAULT_NAMESPACE
    if namespace != event["metadata"]["namespace"]:
        yield FieldError("involvedObject.namespace", f"does not match event.namespace: '{shown(namespace)}'")


def default_lease(lease: Object) -> None:
    """Set omitted fields of a lease."""
    lease.setdefault("spec", {})


def lease_errors(lease: Object) -> Iterator[FieldError]:
    """Yield the errors of a lease."""
    spec = lease["spec"]
    if spec.get("leaseDurationSeconds", 1) <= 0:
        yield FieldError("spec.leaseDurationSeconds", "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        yield FieldError("spec.leaseTransitions", "must be greater than or equal to 0")


_EXTERNAL_NAME: Final = "ExternalName"
_SINGLE_STACK: Final = (("IPv4",), "SingleStack")
_DUAL_STACK: Final = (("IPv4", "IPv6"), "RequireDualStack")
"""IP families of a headless service without selector: its endpoints may have either family."""


class _Port(View, frozen=True, kw_only=True):
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str | None = None


class _Spec(View, frozen=True, kw_only=True):
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    external_name: str = ""
    selector: dict[str, str] = {}
    ports: tuple[_Port, ...] = ()


class _Service(View, frozen=True, kw_only=True):
    spec: _Spec


def default_service(service: Object) -> None:
    """Set omitted fields of a service."""
    spec = service.get("spec")
    if spec is None:
        return
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if "port" in port:
            port.setdefault("targetPort", port["port"])
    if spec.get("clusterIP") == "None":
        spec["clusterIPs"] = ["None"]
        families, policy = _SINGLE_STACK if spec.get("selector") else _DUAL_STACK
        spec.setdefault("ipFamilies", list(families))
        spec.setdefault("ipFamilyPolicy", policy)
        spec.setdefault("internalTrafficPolicy", "Cluster")


def prepare_service_create(service: Object) -> None:
    """Set the empty status of a new service."""
    service["status"] = {"loadBalancer": {}}


def service_errors(service: Object) -> list[FieldError]:
    """Return the errors of a service."""
    try:
        decode(_Service, service, check=_service_view_errors)
    except InvalidObjectError as problem:
        return problem.errors
    return []


def _service_view_errors(service: _Service) -> Iterator[FieldError]:
    spec = service.spec
    yield from labels_errors(spec.selector, "spec.selector")
    if spec.type == _EXTERNAL_NAME:
        yield from dns_subdomain_errors(spec.external_name.rstrip("."), "spec.externalName")
    elif spec.type != "ClusterIP" or spec.cluster_ip != "None":
        yield FieldError(
            "spec.clusterIP",
            "must be None (a headless service), or type ExternalName: there is no service proxy, "
            f"so a service of type {shown(spec.type)} with a virtual address cannot work",
        )
    yield from _port_errors(spec.ports)


def _port_errors(ports: tuple[_Port, ...]) -> Iterator[FieldError]:
    names: set[str] = set()
    for i, port in enumerate(ports):
        path = f"spec.ports[{i}]"
        if port.name:
            yield from dns_label_errors(port.name, f"{path}.name")
        elif len(ports) > 1:
            yield FieldError(f"{path}.name", "is required when there is more than one port")
        if port.name in names:
            yield FieldError(f"{path}.name", f"Duplicate value: '{shown(port.name)}'")
        names.add(port.name)
        if port.protocol not in ("TCP", "UDP", "SCTP"):
            yield FieldError(f"{path}.protocol", f"must be TCP, UDP or SCTP, not '{shown(port.protocol)}'")


def service_update_errors(service: Object, old: Object) -> Iterator[FieldError]:
    """Yield an error if the cluster IP changes while the type does not."""
    if service["spec"]["type"] == old["spec"]["type"]:
        yield from immutable_errors(service, old, "spec.clusterIP")
