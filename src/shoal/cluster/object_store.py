"""The objects of a collection that are known to exist, and the changes that lists and events make to them.

No I/O. Objects are identified by uid: an object that was deleted and recreated under its name, between two
lists, is reported as deleted and then as new.

A list replaces all that is known: lists show the newest state of a cluster. If versions ever decrease,
because a cluster was restored from a backup, the list still counts.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec

from shoal.cluster.resources import Decode, Resource, Text

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace and name."""


class Put(msgspec.Struct, Generic[T], frozen=True):
    """An object was created or changed."""

    key: Key
    version: str
    item: T


class Deleted(msgspec.Struct, frozen=True):
    """An object no longer exists."""

    key: Key


Change = Put[T] | Deleted

Sink = Callable[[Sequence[Change[T]]], None]
"""Receives changes in order; changes that are known at the same time come together."""


class Entry(msgspec.Struct, Generic[T], frozen=True):
    """An object with its identity, and what it was decoded to."""

    key: Key
    uid: str
    version: str
    item: T


# --- decoding ---------------------------------------------------------------------------------------------


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _PartialObject(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_METADATA_DECODER: Final = msgspec.json.Decoder(_PartialObject)


class DecodeFailure(msgspec.Struct, frozen=True):
    """Takes the place of an object that cannot be decoded."""

    message: str


def try_decode(decode: Decode[T], text: Text) -> T | DecodeFailure:
    """Decode an object; DecodeFailure if that is not possible."""
    try:
        return decode(text)
    except Exception as error:  # noqa: BLE001 - a decoder may raise anything; other objects are not affected
        return DecodeFailure(str(error) or type(error).__name__)


def as_entries(resource: Resource[T]) -> Resource[Entry[T | DecodeFailure]]:
    """Return the collection with entries as items: an object that cannot be decoded affects no other."""
    return resource.read_as(partial(_decode_entry, resource))


def _decode_entry(resource: Resource[T], text: Text) -> Entry[T | DecodeFailure]:
    partial_object = try_decode(_METADATA_DECODER.decode, text)
    if isinstance(partial_object, DecodeFailure):
        return Entry(("", ""), "", "", partial_object)
    meta = partial_object.metadata
    item = try_decode(resource.decode, text)
    return Entry((meta.namespace, meta.name), meta.uid, meta.resource_version, item)


def version_number(version: str) -> int:
    """Return a resourceVersion as a number: Kubernetes defines that they are compared as numbers."""
    return int(version) if version.isdecimal() else 0


# --- stores -----------------------------------------------------------------------------------------------


class _Known(msgspec.Struct, frozen=True, gc=False):
    """The last known uid and version of an object."""

    uid: str
    version: str


class ObjectStore(Generic[T]):
    """The uid and version of every object of a collection; the objects themselves are only passed on."""

    def __init__(self) -> None:
        self._known: Final[dict[Key, _Known]] = {}

    def replace(self, entries: Sequence[Entry[T]]) -> list[Change[T]]:
        """Apply a complete list; objects that are not in it are deleted."""
        deleted: list[Change[T]] = list(self.retain({entry.key for entry in entries}))
        return deleted + [change for entry in entries for change in self.put(entry)]

    def retain(self, keys: Collection[Key]) -> list[Deleted]:
        """Delete all objects but these."""
        return [self._delete(key) for key in [key for key in self._known if key not in keys]]

    def put(self, entry: Entry[T]) -> Iterator[Change[T]]:
        """Apply an object that exists; no change if this version of it is known."""
        known = self._known.get(entry.key)
        if known is not None and (known.uid, known.version) == (entry.uid, entry.version):
            return
        if known is not None and known.uid != entry.uid:
            yield self._delete(entry.key)
        self._known[entry.key] = _Known(entry.uid, entry.version)
        yield Put(entry.key, entry.version, entry.item)

    def remove(self, entry: Entry[T]) -> Iterator[Deleted]:
        """Apply the deletion of an object; no change if it is not known, or has been recreated."""
        known = self._known.get(entry.key)
        if known is not None and known.uid == entry.uid:
            yield self._delete(entry.key)

    def _delete(self, key: Key) -> Deleted:
        del self._known[key]
        return Deleted(key)


class ObjectCache(Generic[T]):
    """A sink that keeps every object."""

    def __init__(self) -> None:
        self.items: Final[dict[Key, T]] = {}

    def __call__(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                del self.items[change.key]
            else:
                self.items[change.key] = change.item
