"""The config maps and secrets that a pod refers to: which they are, and what is in them."""

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


class ConfigError(Exception):
    """Raised when a container cannot be made because something that it refers to is not there."""


class LocalReference(NamedTuple):
    """A config map or a secret, by name."""

    kind: str
    name: str


ReferencedObjects = Mapping[LocalReference, Object | None]
"""What references lead to; None where there is nothing."""

CONFIG_MAP: Final = "ConfigMap"
SECRET: Final = "Secret"  # noqa: S105 - a kind
_RESOURCES: Final[Mapping[str, Resource[Object]]] = {CONFIG_MAP: CONFIG_MAPS, SECRET: SECRETS}
_KINDS: Final = {
    "configMapKeyRef": CONFIG_MAP,
    "secretKeyRef": SECRET,
    "configMapRef": CONFIG_MAP,
    "secretRef": SECRET,
    "configMap": CONFIG_MAP,
    "secret": SECRET,
}
"""What the fields are called that refer to a kind."""


def collect_references(spec: Object) -> set[LocalReference]:
    """All that a pod refers to."""
    return set(_container_references(spec)) | set(_volume_references(spec))


def parse_reference(source: Object) -> LocalReference | None:
    """What a part of a pod refers to, if to anything."""
    for field, kind in _KINDS.items():
        if field in source:
            target = source[field]
            return LocalReference(kind, target.get("name") or target.get("secretName", ""))
    return None


async def fetch_references(
    cluster: Cluster, namespace: str, references: set[LocalReference]
) -> ReferencedObjects:
    """What is there now of what is wanted."""
    return {reference: await _fetch_one(cluster, namespace, reference) for reference in sorted(references)}


async def _fetch_one(cluster: Cluster, namespace: str, reference: LocalReference) -> Object | None:
    try:
        return await cluster.get(_RESOURCES[reference.kind], reference.name, namespace)
    except NotFoundError:
        return None


def decode_data(source: Object) -> dict[str, bytes]:
    """What is in a config map or a secret."""
    if source["kind"] == SECRET:
        return {key: base64.b64decode(value) for key, value in source.get("data", {}).items()}
    text = {key: value.encode() for key, value in source.get("data", {}).items()}
    return text | {key: base64.b64decode(value) for key, value in source.get("binaryData", {}).items()}


def resolve_data(
    sources: ReferencedObjects, source: Object, target: Mapping[str, Any]
) -> dict[str, bytes] | None:
    """The data that a part of a pod refers to; None if it is not there, and need not be."""
    reference = parse_reference(source)
    source = sources.get(reference) if reference else None
    if source is not None:
        return decode_data(source)
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


def _volume_references(spec: Object) -> Iterator[LocalReference]:
    for volume in spec.get("volumes", ()):
        sources = [volume, *volume.get("projected", {}).get("sources", ())]
        yield from filter(None, map(parse_reference, sources))


_KEYED_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class PodLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod is: its node, and its address there."""

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
SUPPORTED_RESOURCES: Final = frozenset(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)


def is_supported_field(path: str) -> bool:
    """Whether a pod can be asked for this."""
    return path in FIELDS or _KEYED_FIELD.fullmatch(path) is not None


def field_value(pod: Object, path: str, location: PodLocation) -> str:
    """A field of a pod; nothing for a label or an annotation that it has not."""
    keyed = _KEYED_FIELD.fullmatch(path)
    if keyed:
        return str(pod["metadata"].get(keyed[1], {}).get(keyed[2], ""))
    return _FIELDS[path](pod, location)


def containers_by_name(pod: Object) -> dict[str, Object]:
    """All containers whose resources a pod may be asked for, by name."""
    spec = pod["spec"]
    return {one["name"]: one for one in (*spec.get("initContainers", ()), *spec["containers"])}


def resource_value(container: Object, reference: Object, node: LocalNode) -> str:
    """What a container asks for or is limited to, in steps of the divisor; without a limit, the node's."""
    side, _, name = reference["resource"].partition(".")
    amounts = container.get("resources", {})
    amount = amounts.get(side, {}).get(name)
    if amount is None and side == "limits":
        amount = node.capacity.get(name)
    divisor = Quantity(reference.get("divisor") or "1").nano or NANO
    return str(-(-Quantity(amount or "0").nano // divisor))


def _format_pairs(pairs: Mapping[str, str]) -> str:
    """Labels or annotations as a file has them: one a line, quoted."""
    return "\n".join(f'{key}="{_escape(value)}"' for key, value in sorted(pairs.items()))


def _escape(text: str) -> str:
    return "".join(_ESCAPED.get(letter, letter) for letter in text)


_REFERENCE: Final = re.compile(r"\$(\$|\(([^()]*)\))")


def expand_variables(text: str, variables: Mapping[str, str]) -> str:
    """A text with `$(NAME)` replaced; `$$` is a dollar, and a name that nobody knows stays as it is."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _REFERENCE.sub(value, text)
