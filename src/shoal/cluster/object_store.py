"""What a follower of a collection knows, and what a list or an event changes about it. No I/O here.

Objects are told apart by uid: one that was deleted and made again under its name, while nobody could look, is
gone and then there again. What can be made of an object is for those to say who hear of it (`listeners`).

A list replaces all that was known, and may do so: lists are of the newest state of a cluster, wherever it is
asked. Should versions ever go back, because a cluster was restored from a copy, the list is still the truth.

Who hears of a collection: each reads its objects in its own way, and all are told of a change at once.

An object that a listener cannot read is left out for it, as if it were not there: others may be able to, and
no object spoils the reading of another.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from shoal.cluster.resources import Decode, Resource, Text

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace and name."""


class Put(msgspec.Struct, Generic[T], frozen=True):
    """An object is there, or has changed."""

    key: Key
    version: str
    item: T


class Gone(msgspec.Struct, frozen=True):
    """An object is not there any more."""

    key: Key


Change = Put[T] | Gone

Sink = Callable[[Sequence[Change[T]]], None]
"""Takes changes in their order, several at once where they are known at once."""


class Entry(msgspec.Struct, Generic[T], frozen=True):
    """An object as it was read: who it is, and what was made of it."""

    key: Key
    uid: str
    version: str
    item: T


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Headed(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_HEADED: Final = msgspec.json.Decoder(_Headed)


class Unreadable(msgspec.Struct, frozen=True):
    """What is made of an object of which nothing can be made: why."""

    problem: str


def attempt(decode: Decode[T], text: Text) -> T | Unreadable:
    """What can be made of an object."""
    try:
        return decode(text)
    except Exception as wrong:  # noqa: BLE001 - whatever a decoder says of bad data, other data is good
        return Unreadable(str(wrong) or type(wrong).__name__)


def entries_of(resource: Resource[T]) -> Resource[Entry[T | Unreadable]]:
    """A collection, read such that no object can spoil the reading of others."""
    return resource.read_as(partial(_entry, resource))


def _entry(resource: Resource[T], text: Text) -> Entry[T | Unreadable]:
    head = attempt(_HEADED.decode, text)
    if isinstance(head, Unreadable):
        return Entry(("", ""), "", "", head)
    meta = head.metadata
    item = attempt(resource.decode, text)
    return Entry((meta.namespace, meta.name), meta.uid, meta.resource_version, item)


class _Known(msgspec.Struct, frozen=True, gc=False):
    """The last that was heard of an object."""

    uid: str
    version: str


class Mirror(Generic[T]):
    """Which objects there are. What they are is passed on, and kept by whoever wants it."""

    def __init__(self) -> None:
        self._known: dict[Key, _Known] = {}

    def replace(self, entries: Sequence[Entry[T]]) -> list[Change[T]]:
        """Take a whole list; what it lacks is gone."""
        there = {entry.key for entry in entries}
        missing = [key for key in self._known if key not in there]
        changes: list[Change[T]] = [self._forget(key) for key in missing]
        return changes + [change for entry in entries for change in self.put(entry)]

    def put(self, entry: Entry[T]) -> Iterator[Change[T]]:
        """Take an object that is there; nothing comes of one that was told before."""
        known = self._known.get(entry.key)
        if known is not None and (known.uid, known.version) == (entry.uid, entry.version):
            return
        if known is not None and known.uid != entry.uid:
            yield self._forget(entry.key)
        self._known[entry.key] = _Known(entry.uid, entry.version)
        yield Put(entry.key, entry.version, entry.item)

    def remove(self, entry: Entry[T]) -> Iterator[Gone]:
        """Take note that an object is gone, if it is the one that is known."""
        known = self._known.get(entry.key)
        if known is not None and known.uid == entry.uid:
            yield self._forget(entry.key)

    def _forget(self, key: Key) -> Gone:
        del self._known[key]
        return Gone(key)


class Cache(Generic[T]):
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.items: Final[dict[Key, T]] = {}

    def __call__(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            if isinstance(change, Gone):
                del self.items[change.key]
            else:
                self.items[change.key] = change.item


def number(version: str) -> int:
    """A version as a number, which is what Kubernetes has them compared as."""
    return int(version) if version.isdecimal() else 0


_LOG: Final = logging.getLogger(__name__)


class Listener(Generic[T]):
    """One who hears of a collection."""

    def __init__(self, resource: Resource[T], sink: Sink[T]) -> None:
        """Read objects as the resource does, and pass them on to the sink."""
        self.unreadable: Final[dict[Key, str]] = {}
        """Objects that are left out, and why."""
        self._resource: Final = resource
        self._sink: Final = sink
        self._shown: Final[set[Key]] = set()

    def read(self, text: Text) -> T | Unreadable:
        """What is made of an object."""
        return attempt(self._resource.decode, text)

    def take(self, changes: Sequence[Change[T | Unreadable]]) -> None:
        """Hear of changes."""
        seen = [shown for change in changes for shown in self._seen(change)]
        if seen:
            self._sink(seen)

    def _seen(self, change: Change[T | Unreadable]) -> Iterator[Change[T]]:
        """A change as the sink sees it: what cannot be read any more is gone."""
        key, item = change.key, change.item if isinstance(change, Put) else None
        if isinstance(item, Unreadable):
            self._leave_out(key, item.problem)
        else:
            self.unreadable.pop(key, None)
        if isinstance(change, Put) and not isinstance(item, Unreadable):
            self._shown.add(key)
            yield change  # type: ignore[misc]  # it is readable
        elif key in self._shown:
            self._shown.discard(key)
            yield Gone(key)

    def _leave_out(self, key: Key, problem: str) -> None:
        if self.unreadable.get(key) != problem:
            name = "/".join(filter(None, key))
            _LOG.warning("%s %s is left out: %s", self._resource.full_name, name, problem)
        self.unreadable[key] = problem


Readings = tuple[Any, ...] | Unreadable
"""What each of several listeners made of one object, or why nobody can make anything of it."""


class Audience:
    """All who hear of one collection."""

    def __init__(self) -> None:
        self._listeners: Final[list[Listener[Any]]] = []

    def join(self, listener: Listener[Any]) -> None:
        """Be told of everything from the first list on."""
        self._listeners.append(listener)

    def read(self, text: Text) -> Readings:
        """What everybody makes of an object."""
        return tuple(listener.read(text) for listener in self._listeners)

    def take(self, changes: Sequence[Change[Readings]]) -> None:
        """Tell everybody of changes, of each what was made of it."""
        for place, listener in enumerate(self._listeners):
            listener.take([_for_one(change, place) for change in changes])


def _for_one(change: Change[Readings], place: int) -> Change[Any]:
    if isinstance(change, Gone) or isinstance(change.item, Unreadable):
        return change
    return Put(change.key, change.version, change.item[place])
