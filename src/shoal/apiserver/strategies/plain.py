"""Kinds with little of their own: nodes, config maps, secrets, events, leases."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, Final

from shoal.api.fields import FieldError, child, shown
from shoal.api.kinds import DEFAULT_NAMESPACE
from shoal.apiserver.strategies.strategy import unchanged
from shoal.cluster.resources import Object

_MOST_DATA: Final = 1024 * 1024
_KEY: Final = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}", re.ASCII)
"""A name of a file, and of none that leads elsewhere."""
_HAS: Final = {
    "kubernetes.io/tls": (("tls.crt",), ("tls.key",)),
    "kubernetes.io/ssh-auth": (("ssh-privatekey",),),
    "kubernetes.io/basic-auth": (("username", "password"),),
    "kubernetes.io/dockerconfigjson": ((".dockerconfigjson",),),
    "kubernetes.io/dockercfg": ((".dockercfg",),),
}
"""What secrets of some types have in them: of each group of keys at least one."""
_ABOUT_NODE: Final = (
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
    """Fill in what a user left out of a node: without a word, all that it has is for pods."""
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status.setdefault("nodeInfo", dict.fromkeys(_ABOUT_NODE, ""))


def taint_errors(node: Object) -> Iterator[FieldError]:
    """Complain about taints that say the same twice."""
    taints = [(taint.get("key"), taint.get("effect")) for taint in node["spec"].get("taints", ())]
    for i, taint in enumerate(taints):
        if taint in taints[:i]:
            yield FieldError(f"metadata.taints[{i}]", "taints must be unique by key and effect")


# --- data --------------------------------------------------------------------------------------------------


def config_map_errors(thing: Object) -> Iterator[FieldError]:
    """All that is wrong with a config map."""
    text, binary = thing.get("data", {}), thing.get("binaryData", {})
    yield from _key_errors(text, "data")
    yield from _key_errors(binary, "binaryData")
    yield from _base64_errors(binary, "binaryData")
    yield from _size_errors({**text, **binary}, "")
    for key in sorted(set(text) & set(binary)):
        yield FieldError(child("binaryData", key), "is in data too")


def secret_errors(thing: Object) -> Iterator[FieldError]:
    """All that is wrong with a secret."""
    data = thing.get("data", {})
    yield from _key_errors(data, "data")
    yield from _base64_errors(data, "data")
    yield from _size_errors(data, "data")
    for keys in _HAS.get(thing["type"], ()):
        if not any(key in data for key in keys):
            for key in keys:
                yield FieldError(f"data[{key}]", f"is required in a secret of type {thing['type']}")


def default_secret(secret: Object) -> None:
    """Plain texts are kept as all data of a secret is."""
    secret.setdefault("type", "Opaque")
    plain = secret.pop("stringData", {})
    if plain:
        kept = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        secret["data"] = secret.get("data", {}) | kept


def frozen_data(thing: Object, old: Object) -> Iterator[FieldError]:
    """Complain about changes of what was declared immutable."""
    if old.get("immutable") is True:
        yield from unchanged(thing, old, "immutable", "data", "binaryData")


def frozen_secret(thing: Object, old: Object) -> Iterator[FieldError]:
    """Complain about changes of what was declared immutable, and of the type."""
    yield from unchanged(thing, old, "type")
    yield from frozen_data(thing, old)


def _key_errors(data: dict[str, str], path: str) -> Iterator[FieldError]:
    for key in data:
        if not _KEY.fullmatch(key):
            message = f"must be letters, digits, -, _ and . (at most 253), not '{shown(key)}'"
            yield FieldError(child(path, key), message)


def _base64_errors(data: dict[str, str], path: str) -> Iterator[FieldError]:
    for key, value in data.items():
        if not _is_base64(value):
            yield FieldError(child(path, key), "must be base64")


def _size_errors(data: dict[str, str], path: str) -> Iterator[FieldError]:
    if sum(len(value.encode()) for value in data.values()) > _MOST_DATA:
        yield FieldError(path, f"Too long: may not be more than {_MOST_DATA} bytes")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


# --- events and leases -------------------------------------------------------------------------------------

_EVENT: Final[dict[str, Any]] = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


def default_event(event: Object) -> None:
    """Fill in what a user left out of an event."""
    for field, value in _EVENT.items():
        event.setdefault(field, dict(value) if isinstance(value, dict) else value)


def event_errors(event: Object) -> Iterator[FieldError]:
    """All that is wrong with an event: it is in the namespace of what it is about."""
    namespace = event.get("involvedObject", {}).get("namespace") or DEFAULT_NAMESPACE
    if namespace != event["metadata"]["namespace"]:
        yield FieldError("involvedObject.namespace", f"does not match event.namespace: '{shown(namespace)}'")


def default_lease(lease: Object) -> None:
    """Fill in what a user left out of a lease."""
    lease.setdefault("spec", {})


def lease_errors(lease: Object) -> Iterator[FieldError]:
    """All that is wrong with a lease."""
    spec = lease["spec"]
    if spec.get("leaseDurationSeconds", 1) <= 0:
        yield FieldError("spec.leaseDurationSeconds", "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        yield FieldError("spec.leaseTransitions", "must be greater than or equal to 0")
