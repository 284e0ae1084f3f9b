"""Services: those that are names only. Nothing here carries packets to a virtual address."""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError, shown
from shoal.api.meta import View
from shoal.api.names import dns_label_errors, dns_subdomain_errors, labels_errors
from shoal.apiserver.strategies.strategy import unchanged
from shoal.cluster.resources import Object

_NAME_ONLY: Final = "ExternalName"
_ONE_FAMILY: Final = (("IPv4",), "SingleStack")
_ALL_FAMILIES: Final = (("IPv4", "IPv6"), "RequireDualStack")
"""What a name stands for that selects no pods: its user says it, with addresses of either family."""


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


def default(service: Object) -> None:
    """Fill in what a user left out of a service."""
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
        families, policy = _ONE_FAMILY if spec.get("selector") else _ALL_FAMILIES
        spec.setdefault("ipFamilies", list(families))
        spec.setdefault("ipFamilyPolicy", policy)
        spec.setdefault("internalTrafficPolicy", "Cluster")


def begin(service: Object) -> None:
    """A new service has no balancer."""
    service["status"] = {"loadBalancer": {}}


def errors(service: Object) -> list[FieldError]:
    """All that is wrong with a service."""
    try:
        decode(_Service, service, check=_errors)
    except InvalidObjectError as problem:
        return problem.errors
    return []


def _errors(service: _Service) -> Iterator[FieldError]:
    spec = service.spec
    yield from labels_errors(spec.selector, "spec.selector")
    if spec.type == _NAME_ONLY:
        yield from dns_subdomain_errors(spec.external_name.rstrip("."), "spec.externalName")
    elif spec.type != "ClusterIP" or spec.cluster_ip != "None":
        yield FieldError(
            "spec.clusterIP",
            "must be None (a headless service), or type ExternalName: nothing here carries packets to a "
            f"virtual address, so a service of type {shown(spec.type)} with an address cannot work",
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


def frozen(service: Object, old: Object) -> Iterator[FieldError]:
    """A service that stays of its type keeps its address."""
    if service["spec"]["type"] == old["spec"]["type"]:
        yield from unchanged(service, old, "spec.clusterIP")
