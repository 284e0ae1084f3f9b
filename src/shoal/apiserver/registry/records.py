"""Records: the stored form of objects, and the interface of the journal that makes them durable.

The journal is an append-only history: records are appended in the order of their versions, and superseded
ones are removed by compaction. The newest record of each object is its state, unless it records a deletion.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from shoal.api.fields import shown
from shoal.cluster.errors import BadRequestError
from shoal.cluster.resources import Object

_VERSION_DIGITS: Final = 20
"""Digits of the largest 64-bit number: resource versions of Kubernetes are unsigned 64-bit."""


class Key(NamedTuple):
    """Unique key of an object: full resource name, namespace (empty if cluster-scoped), name."""

    resource: str
    namespace: str
    name: str


class Record(msgspec.Struct, frozen=True, gc=False):
    """One object as one write left it; `body` is the JSON text that clients get.

    A `deleted` record marks a deletion: the object's last text, with the resource version of the deletion.
    """

    version: int
    time: float
    key: Key
    body: bytes
    deleted: bool = False


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write: the object's new record, and the one before it."""

    record: Record
    before: Record | None


class OwnerReference(msgspec.Struct, rename="camel", gc=False):
    """An owner reference: the fields that garbage collection reads."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    block_owner_deletion: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel", gc=False):
    """Object metadata: the fields that the registry itself reads."""

    uid: str = ""
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None

    @property
    def owners(self) -> list[OwnerReference]:
        return self.owner_references or []


class _MetadataOnly(msgspec.Struct, gc=False):
    metadata: ObjectMeta


_metadata_decoder: Final = msgspec.json.Decoder(_MetadataOnly)
_decoder: Final = msgspec.json.Decoder()
encode: Final = msgspec.json.Encoder().encode


def decode_metadata(body: bytes) -> ObjectMeta:
    """Decode the metadata of an object, skipping the rest."""
    return _metadata_decoder.decode(body).metadata


def decode(body: bytes) -> Object:
    """Decode a whole object."""
    obj: Object = _decoder.decode(body)
    return obj


def json_copy(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Copy a value through JSON: the copy shares nothing, and consists of plain JSON types."""
    return _decoder.decode(encode(value))


def with_resource_version(body: bytes, version: int) -> bytes:
    """Return the object's text with another resource version."""
    obj = decode(body)
    obj["metadata"]["resourceVersion"] = str(version)
    return encode(obj)


def parse_resource_version(version: str) -> int:
    """Parse a resource version from a request; BadRequestError if it is not a number."""
    if not version.isascii() or not version.isdigit() or len(version) > _VERSION_DIGITS:
        raise BadRequestError(f'resourceVersion: Invalid value: "{shown(version)}"')
    return int(version)


class Journal(Protocol):
    """Durable storage of records. A method that fails raises StorageError and has changed nothing."""

    def load(self) -> tuple[int, Iterable[Record]]:
        """Return the version up to which the history is compacted, and all records, oldest first."""

    def append_now(self, records: Sequence[Record]) -> bool:
        """Store the records synchronously if that is likely to be fast; else do nothing, return False."""

    async def append(self, records: Sequence[Record]) -> None:
        """Store all records or none; they are durable when this returns."""

    async def compact(self, version: int, superseded: Sequence[int]) -> None:
        """Delete the records with the given versions, and note that history before `version` is gone."""

    async def close(self) -> None:
        """Release files and threads."""


class MemoryJournal:
    """A journal that stores nothing: the registry's memory is the only copy."""

    def load(self) -> tuple[int, Iterable[Record]]:
        return 0, ()

    def append_now(self, records: Sequence[Record]) -> bool:  # noqa: ARG002 - nothing to store
        return False

    async def append(self, records: Sequence[Record]) -> None:
        """Do nothing."""

    async def compact(self, version: int, superseded: Sequence[int]) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""
