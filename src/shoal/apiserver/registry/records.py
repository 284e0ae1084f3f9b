"""What is kept of an object: its text, and what must be known of it without reading all of it."""

from typing import Any, Final, NamedTuple

import msgspec

from shoal.api.fields import shown
from shoal.cluster.errors import BadRequestError
from shoal.cluster.resources import Object

_VERSION_DIGITS: Final = 20
"""As many as 64 bits need, which is what versions have in Kubernetes."""


class Key(NamedTuple):
    """Which object: the full name of its resource, its namespace (or nothing) and its name."""

    resource: str
    namespace: str
    name: str


class Record(msgspec.Struct, frozen=True, gc=False):
    """One object as one write left it: the JSON text is handed out as it is.

    A record that is `deleted` is the object's end: its last text, with the version of its deletion.
    """

    version: int
    time: float
    key: Key
    body: bytes
    deleted: bool = False


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write: what an object became, and what it was."""

    record: Record
    before: Record | None


class Owner(msgspec.Struct, rename="camel", gc=False):
    """An owner reference, as far as garbage collection reads it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    block_owner_deletion: bool | None = None


class Meta(msgspec.Struct, rename="camel", gc=False):
    """Metadata, as far as the registry itself goes by it."""

    uid: str = ""
    finalizers: list[str] | None = None
    owner_references: list[Owner] | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None

    @property
    def owners(self) -> list[Owner]:
        return self.owner_references or []


class _Glance(msgspec.Struct, gc=False):
    metadata: Meta


_glance: Final = msgspec.json.Decoder(_Glance)
_decoder: Final = msgspec.json.Decoder()
encode: Final = msgspec.json.Encoder().encode


def meta(body: bytes) -> Meta:
    """The metadata of an object, without decoding the rest."""
    return _glance.decode(body).metadata


def decode(body: bytes) -> Object:
    """The whole object."""
    made: Object = _decoder.decode(body)
    return made


def copied(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A copy that shares nothing, and is JSON whatever the original was made of."""
    return _decoder.decode(encode(value))


def with_version(body: bytes, version: int) -> bytes:
    """The same object under another version."""
    thing = decode(body)
    thing["metadata"]["resourceVersion"] = str(version)
    return encode(thing)


def number_of(version: str) -> int:
    """A version that somebody names; BadRequestError if it is none."""
    if not version.isascii() or not version.isdigit() or len(version) > _VERSION_DIGITS:
        raise BadRequestError(f'resourceVersion: Invalid value: "{shown(version)}"')
    return int(version)
