"""What a pod may know of itself: its fields, and the resources of its containers."""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from shoal.api.quantity import NANO, Quantity
from shoal.cluster.node_status import HOST_IP
from shoal.cluster.resources import Object
from shoal.kubelet.nodes import Machine

_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod is: its node, and its address there."""

    machine: Machine
    ip: str


_FIELDS: Final[Mapping[str, Callable[[Object, Place], str]]] = {
    "metadata.name": lambda pod, _: str(pod["metadata"]["name"]),
    "metadata.namespace": lambda pod, _: str(pod["metadata"]["namespace"]),
    "metadata.uid": lambda pod, _: str(pod["metadata"]["uid"]),
    "metadata.labels": lambda pod, _: _written(pod["metadata"].get("labels", {})),
    "metadata.annotations": lambda pod, _: _written(pod["metadata"].get("annotations", {})),
    "spec.nodeName": lambda _, place: place.machine.name,
    "spec.serviceAccountName": lambda pod, _: str(pod["spec"].get("serviceAccountName", "")),
    "status.hostIP": lambda _pod, _place: HOST_IP,
    "status.hostIPs": lambda _pod, _place: HOST_IP,
    "status.podIP": lambda _, place: place.ip,
    "status.podIPs": lambda _, place: place.ip,
}
FIELDS: Final = frozenset(_FIELDS)
RESOURCES: Final = frozenset(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)


def is_field(path: str) -> bool:
    """Whether a pod can be asked for this."""
    return path in FIELDS or _KEYED.fullmatch(path) is not None


def field(pod: Object, path: str, place: Place) -> str:
    """A field of a pod; nothing for a label or an annotation that it has not."""
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str(pod["metadata"].get(keyed[1], {}).get(keyed[2], ""))
    return _FIELDS[path](pod, place)


def containers(pod: Object) -> dict[str, Object]:
    """All containers whose resources a pod may be asked for, by name."""
    spec = pod["spec"]
    return {one["name"]: one for one in (*spec.get("initContainers", ()), *spec["containers"])}


def resource(container: Object, reference: Object, machine: Machine) -> str:
    """What a container asks for or is limited to, in steps of the divisor; without a limit, the node's."""
    side, _, name = reference["resource"].partition(".")
    amounts = container.get("resources", {})
    said = amounts.get(side, {}).get(name)
    if said is None and side == "limits":
        said = machine.capacity.get(name)
    divisor = Quantity(reference.get("divisor") or "1").nano or NANO
    return str(-(-Quantity(said or "0").nano // divisor))


def _written(pairs: Mapping[str, str]) -> str:
    """Labels or annotations as a file has them: one a line, quoted."""
    return "\n".join(f'{key}="{_escape(value)}"' for key, value in sorted(pairs.items()))


def _escape(text: str) -> str:
    return "".join(_ESCAPED.get(letter, letter) for letter in text)
