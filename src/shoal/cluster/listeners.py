"""Who hears of a collection: each reads its objects in its own way, and all are told of a change at once.

An object that a listener cannot read is left out for it, as if it were not there: others may be able to, and
no object spoils the reading of another.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from shoal.cluster.mirror import Change, Gone, Key, Put, Sink, Unreadable, attempt
from shoal.cluster.resources import Resource, Text

T = TypeVar("T")

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
