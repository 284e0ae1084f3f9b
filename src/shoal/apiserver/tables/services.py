"""Services: where they are reached."""

from typing import Final

from shoal.apiserver.tables.printing import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    Printer,
    age_of,
    entries,
    labels,
    name_of,
    part,
)
from shoal.cluster.resources import Object
from shoal.cluster.times import UNKNOWN


def _cells(service: Object, now: float) -> list[Cell]:
    spec = part(service, "spec") or {}
    return [
        name_of(service),
        spec.get("type") or "",
        (spec.get("clusterIPs") or [NONE])[0],
        _external(service),
        ",".join(map(_port, entries(service, "spec", "ports"))) or NONE,
        age_of(service, now),
        labels(spec.get("selector")),
    ]


def _external(service: Object) -> str:
    spec = part(service, "spec") or {}
    given = list(spec.get("externalIPs") or [])
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            balanced = entries(service, "status", "loadBalancer", "ingress")
            found = [str(entry.get("ip") or entry.get("hostname") or "") for entry in balanced]
            return ",".join([*filter(None, found), *given]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName") or "")
    return UNKNOWN


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"


PRINTER: Final = Printer(
    (
        NAME,
        Column("Type", about="How the service is reached."),
        Column("Cluster-IP", about="The address of the service within the cluster."),
        Column("External-IP", about="Addresses of the service from elsewhere."),
        Column("Port(s)", about="The ports of the service."),
        AGE,
        Column("Selector", wide=True, about="The labels of the pods behind the service."),
    ),
    _cells,
)
