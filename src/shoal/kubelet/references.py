"""The config maps and secrets that a pod refers to: which they are, and what is in them."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from shoal.cluster.errors import NotFoundError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import CONFIG_MAPS, SECRETS, Object, Resource


class ConfigError(Exception):
    """Raised when a container cannot be made because something that it refers to is not there."""


class Reference(NamedTuple):
    """A config map or a secret, by name."""

    kind: str
    name: str


Sources = Mapping[Reference, Object | None]
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


def references_of(spec: Object) -> set[Reference]:
    """All that a pod refers to."""
    return set(_of_containers(spec)) | set(_of_volumes(spec))


def referred(holder: Object) -> Reference | None:
    """What a part of a pod refers to, if to anything."""
    for field, kind in _KINDS.items():
        if field in holder:
            target = holder[field]
            return Reference(kind, target.get("name") or target.get("secretName", ""))
    return None


async def fetch(cluster: Cluster, namespace: str, wanted: set[Reference]) -> Sources:
    """What is there now of what is wanted."""
    return {reference: await _fetch_one(cluster, namespace, reference) for reference in sorted(wanted)}


async def _fetch_one(cluster: Cluster, namespace: str, reference: Reference) -> Object | None:
    try:
        return await cluster.get(_RESOURCES[reference.kind], reference.name, namespace)
    except NotFoundError:
        return None


def data_of(source: Object) -> dict[str, bytes]:
    """What is in a config map or a secret."""
    if source["kind"] == SECRET:
        return {key: base64.b64decode(value) for key, value in source.get("data", {}).items()}
    text = {key: value.encode() for key, value in source.get("data", {}).items()}
    return text | {key: base64.b64decode(value) for key, value in source.get("binaryData", {}).items()}


def found(sources: Sources, holder: Object, target: Mapping[str, Any]) -> dict[str, bytes] | None:
    """The data that a part of a pod refers to; None if it is not there, and need not be."""
    reference = referred(holder)
    source = sources.get(reference) if reference else None
    if source is not None:
        return data_of(source)
    if target.get("optional") or reference is None:
        return None
    raise ConfigError(f'{reference.kind.lower()} "{reference.name}" not found')


def _of_containers(spec: Object) -> Iterator[Reference]:
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        holders = [
            *container.get("envFrom", ()),
            *(one.get("valueFrom", {}) for one in container.get("env", ())),
        ]
        yield from filter(None, map(referred, holders))


def _of_volumes(spec: Object) -> Iterator[Reference]:
    for volume in spec.get("volumes", ()):
        holders = [volume, *volume.get("projected", {}).get("sources", ())]
        yield from filter(None, map(referred, holders))
