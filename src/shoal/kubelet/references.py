"""Values that a pod refers to: config maps and secrets, the downward API, and variables in `$(NAME)` form."""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from shoal.api.quantity import NANO, Quantity
from shoal.cluster.errors import NotFoundError
from shoal.cluster.node_status import HOST_IP
from shoal.cluster.port import Cluster
from shoal.cluster.resources import CONFIG_MAPS, SECRETS, Object, Resource
from shoal.kubelet.nodes import LocalNode

CONFIG_MAP: Final = "ConfigMap"
SECRET: Final = "Secret"  # noqa: S105 - a kind
REFERENCED: Final[Mapping[str, Resource[Object]]] = {CONFIG_MAP: CONFIG_MAPS, SECRET: SECRETS}
"""The resources that pods refer to, by kind."""
_KINDS: Final = {
    "configMapKeyRef": CONFIG_MAP,
    "secretKeyRef": SECRET,
    "configMapRef": CONFIG_MAP,
    "secretRef": SECRET,
    "configMap": CONFIG_MAP,
    "secret": SECRET,
}
"""The kind that each referring field refers to."""
_KEYED_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
SUPPORTED_RESOURCES: Final = frozenset(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_REFERENCE: Final = re.compile(r"\$(\$|\(([^()]*)\))")


class ConfigError(Exception):
    """Raised when a container cannot be created because something it refers to does not exist."""


class LocalReference(NamedTuple):
    """A reference to a config map or secret of the pod's namespace."""

    kind: str
    name: str


ReferencedObjects = Mapping[LocalReference, Object | None]
"""The objects behind references; None where an object does not exist."""


def collect_references(spec: Object) -> set[LocalReference]:
    """All config maps and secrets that a pod spec refers to."""
    return set(_container_references(spec)) | volume_references(spec)


def parse_reference(source: Object) -> LocalReference | None:
    """The reference in a part of a pod spec, if there is one."""
    for field, kind in _KINDS.items():
        if field in source:
            target = source[field]
            return LocalReference(kind, target.get("name") or target.get("secretName", ""))
    return None


async def fetch_references(
    cluster: Cluster, namespace: str, references: set[LocalReference]
) -> ReferencedObjects:
    """Fetch the objects behind references."""
    return {reference: await _fetch_one(cluster, namespace, reference) for reference in sorted(references)}


async def _fetch_one(cluster: Cluster, namespace: str, reference: LocalReference) -> Object | None:
    try:
        return await cluster.get(REFERENCED[reference.kind], reference.name, namespace)
    except NotFoundError:
        return None


def decode_data(obj: Object) -> dict[str, bytes]:
    """The decoded data of a config map or secret."""
    if obj["kind"] == SECRET:
        return {key: base64.b64decode(value) for key, value in obj.get("data", {}).items()}
    text = {key: value.encode() for key, value in obj.get("data", {}).items()}
    return text | {key: base64.b64decode(value) for key, value in obj.get("binaryData", {}).items()}


def resolve_data(
    sources: ReferencedObjects, source: Object, target: Mapping[str, Any]
) -> dict[str, bytes] | None:
    """The data that a part of a pod spec refers to; None if an optional object does not exist."""
    reference = parse_reference(source)
    found = sources.get(reference) if reference else None
    if found is not None:
        return decode_data(found)
    if target.get("optional") or reference is None:
        return None
    raise ConfigError(f'{reference.kind.lower()} "{reference.name}" not found')


def _container_references(spec: Object) -> Iterator[LocalReference]:
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        sources = [
            *container.get("envFrom", ()),
            *(one.get("valueFrom", {}) for one in container.get("env", ())),
        ]
        yield from filter(None, map(parse_reference, sources))


def volume_references(spec: Object) -> set[LocalReference]:
    """All config maps and secrets that the volumes of a pod spec refer to."""
    volumes = spec.get("volumes", ())
    sources = (one for volume in volumes for one in (volume, *volume.get("projected", {}).get("sources", ())))
    return set(filter(None, map(parse_reference, sources)))


class PodLocation(msgspec.Struct, frozen=True, kw_only=True):
    """The node of a pod, and its address there."""

    node: LocalNode
    ip: str


_FIELDS: Final[Mapping[str, Callable[[Object, PodLocation], str]]] = {
    "metadata.name": lambda pod, _: str(pod["metadata"]["name"]),
    "metadata.namespace": lambda pod, _: str(pod["metadata"]["namespace"]),
    "metadata.uid": lambda pod, _: str(pod["metadata"]["uid"]),
    "metadata.labels": lambda pod, _: _format_pairs(pod["metadata"].get("labels", {})),
    "metadata.annotations": lambda pod, _: _format_pairs(pod["metadata"].get("annotations", {})),
    "spec.nodeName": lambda _, location: location.node.name,
    "spec.serviceAccountName": lambda pod, _: str(pod["spec"].get("serviceAccountName", "")),
    "status.hostIP": lambda _pod, _place: HOST_IP,
    "status.hostIPs": lambda _pod, _place: HOST_IP,
    "status.podIP": lambda _, location: location.ip,
    "status.podIPs": lambda _, location: location.ip,
}
FIELDS: Final = frozenset(_FIELDS)


def is_supported_field(path: str) -> bool:
    """Whether the downward API offers a field."""
    return path in FIELDS or _KEYED_FIELD.fullmatch(path) is not None


def field_value(pod: Object, path: str, location: PodLocation) -> str:
    """The value of a pod field; empty for a missing label or annotation."""
    keyed = _KEYED_FIELD.fullmatch(path)
    if keyed:
        return str(pod["metadata"].get(keyed[1], {}).get(keyed[2], ""))
    return _FIELDS[path](pod, location)


def containers_by_name(pod: Object) -> dict[str, Object]:
    """All containers to which a resource reference may refer."""
    spec = pod["spec"]
    return {one["name"]: one for one in (*spec.get("initContainers", ()), *spec["containers"])}


def resource_value(container: Object, reference: Object, node: LocalNode) -> str:
    """A request or limit of a container in units of the divisor; a missing limit is the node's capacity."""
    side, _, name = reference["resource"].partition(".")
    amounts = container.get("resources", {})
    amount = amounts.get(side, {}).get(name)
    if amount is None and side == "limits":
        amount = node.capacity.get(name)
    divisor = Quantity(reference.get("divisor") or "1").nano or NANO
    return str(-(-Quantity(amount or "0").nano // divisor))


def _format_pairs(pairs: Mapping[str, str]) -> str:
    """Labels or annotations as a file has them: one per line, quoted."""
    return "\n".join(f'{key}="{_escape(value)}"' for key, value in sorted(pairs.items()))


def _escape(text: str) -> str:
    return "".join(_ESCAPED.get(letter, letter) for letter in text)


def expand_variables(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable's value; `$$` is a dollar sign, and unknown names stay unchanged."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _REFERENCE.sub(value, text)
