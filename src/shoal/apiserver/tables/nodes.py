"""Nodes: whether they are ready, and what runs on them."""

from typing import Final

from shoal.apiserver.tables.printing import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    Printer,
    age_of,
    condition,
    entries,
    name_of,
    part,
)
from shoal.cluster.resources import Object
from shoal.cluster.times import UNKNOWN

_ROLE: Final = "node-role.kubernetes.io/"
_OLD_ROLE: Final = "kubernetes.io/role"


def _cells(node: Object, now: float) -> list[Cell]:
    info = part(node, "status", "nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel = f"{kernel} ({info['architecture']})"
    return [
        name_of(node),
        _status(node),
        ",".join(sorted(_roles(node))) or NONE,
        age_of(node, now),
        info.get("kubeletVersion") or "",
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _status(node: Object) -> str:
    ready = condition(node, "Ready")
    said = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{said},SchedulingDisabled" if part(node, "spec", "unschedulable") else said


def _roles(node: Object) -> set[str]:
    found = part(node, "metadata", "labels") or {}
    roles = {name.removeprefix(_ROLE) for name in found if name.startswith(_ROLE)}
    return {role for role in (*roles, found.get(_OLD_ROLE)) if role}


def _address(node: Object, kind: str) -> str:
    found = (entry for entry in entries(node, "status", "addresses") if entry.get("type") == kind)
    return str(next(found, {}).get("address", NONE))


PRINTER: Final = Printer(
    (
        NAME,
        Column("Status", about="Whether the node is ready, and open to new pods."),
        Column("Roles", about="What the node is for."),
        AGE,
        Column("Version", about="The version of what runs pods there."),
        Column("Internal-IP", wide=True, about="The address of the node within the cluster."),
        Column("External-IP", wide=True, about="The address of the node from elsewhere."),
        Column("OS-Image", wide=True, about="The operating system."),
        Column("Kernel-Version", wide=True, about="The kernel, and what it was built for."),
        Column("Container-Runtime", wide=True, about="What runs containers there."),
    ),
    _cells,
)
