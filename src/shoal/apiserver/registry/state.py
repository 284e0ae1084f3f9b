"""What is committed: the objects as readers see them, and the history that leads there.

Each collection keeps its own part of the history, so that a watcher reads nothing that is not about its
resource. How far back the history goes is one decision for all.

Lists, whole or in pages: all pages of a list show one state.
"""

import base64
import binascii
from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, TypeVar

import msgspec

from shoal.apiserver.registry.records import Change, Key, Record, number_of
from shoal.cluster.errors import BadRequestError, GoneError, UnavailableError
from shoal.cluster.port import Page, Where
from shoal.cluster.resources import Resource
from shoal.cluster.selection import Selection

Place = tuple[str, str]
"""Namespace and name."""

BEFORE_ALL: Final = ("", "")
"""No object has this place: every object has a name."""


class Retention(msgspec.Struct, frozen=True):
    """How much of the history is kept: so many changes, so many bytes, and nothing older than so long."""

    changes: int = 20_000
    seconds: float = 600.0
    size: int = 256 * 1024 * 1024


class Collection:
    """The objects of one resource, in order, and how they came to be so."""

    def __init__(self) -> None:
        self.records: Final[dict[Place, Record]] = {}
        self.log: Final[list[Change]] = []
        self.forgotten = 0
        """How many changes the log has lost at its front: what a watcher's position is counted from."""
        self._places: list[Place] = []

    def apply(self, change: Change, *, remember: bool = True) -> None:
        place = change.record.key[1:]
        if change.record.deleted:
            del self.records[place]
            del self._places[bisect_left(self._places, place)]
        else:
            if place not in self.records:
                insort(self._places, place)
            self.records[place] = change.record
        if remember:
            self.log.append(change)

    def forget(self, count: int) -> None:
        """Drop the oldest changes."""
        del self.log[:count]
        self.forgotten += count

    @property
    def end(self) -> int:
        """The position after the newest change."""
        return self.forgotten + len(self.log)

    def position_after(self, version: int) -> int:
        """Where in the log that begins which is newer than a version."""
        return self.forgotten + bisect_left(self.log, version + 1, key=lambda change: change.record.version)

    def places(self, namespace: str = "", after: Place = BEFORE_ALL) -> list[Place]:
        """Namespaces and names in order: of one namespace, or of all, from after a place on."""
        first = bisect_right(self._places, max(after, (namespace, "")))
        last = bisect_left(self._places, (f"{namespace}\0", ""), lo=first) if namespace else None
        return self._places[first:last]

    def as_of(
        self, version: int, namespace: str = "", after: Place = BEFORE_ALL
    ) -> tuple[list[Place], Mapping[Place, Record]]:
        """Where objects were, in order, and what they were there: newer changes are undone."""
        undone: dict[Place, Record | None] = {}
        for change in reversed(self.log):
            if change.record.version <= version:
                break
            place = change.record.key[1:]
            if namespace in ("", place[0]) and place > after:
                undone[place] = change.before
        places = self.places(namespace, after)
        if not undone:
            return places, self.records
        restored = {place: record for place, record in undone.items() if record}
        kept = (place for place in places if place not in undone)
        return sorted([*kept, *sorted(restored)]), self.records | restored


class State:
    """All collections, at one version."""

    def __init__(self, retention: Retention) -> None:
        self.version = 0
        self.compacted = 0
        """The oldest version that the history still leads on from."""
        self._retention = retention
        self._collections: dict[str, Collection] = {}
        self._history: deque[Change] = deque()
        self._size = 0
        """Bytes of the texts in the history."""

    def load(self, compacted: int, records: Iterable[Record]) -> None:
        """Take what a journal has kept; ValueError if that is no history."""
        self.compacted = self.version = compacted
        for record in records:
            change = Change(record, self.get(record.key))
            if record.deleted and change.before is None:
                raise ValueError(f"the end of {'/'.join(record.key)}, and nothing before it")
            if record.version > compacted:
                self.apply(change)
            else:
                self.collection(record.key.resource).apply(change, remember=False)

    def collection(self, resource: str) -> Collection:
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection()
        return found

    def resources(self) -> list[str]:
        """The full names of all resources that anything was ever kept of."""
        return list(self._collections)

    def get(self, key: Key) -> Record | None:
        return self.collection(key.resource).records.get(key[1:])

    def apply(self, change: Change) -> None:
        self.collection(change.record.key.resource).apply(change)
        self._history.append(change)
        self._size += len(change.record.body)
        self.version = change.record.version

    def records(self) -> Iterator[Record]:
        """All objects."""
        for collection in self._collections.values():
            yield from collection.records.values()

    def must_remember(self, version: int) -> None:
        """GoneError unless everything after a version is known: not if it is too old, or of a lost state."""
        if version < self.compacted:
            raise GoneError(f"too old resource version: {version} ({self.compacted})")
        if version > self.version:
            raise GoneError(f"unknown resource version: {version} (the newest is {self.version})")

    def compact(self, now: float | None = None) -> list[int]:
        """Forget what is too much, and if it is said what time it is, what is too old.

        Returns the versions of the records that nobody needs any more.
        """
        count = self._too_many() if now is None else self._too_old(now)
        superseded: list[int] = []
        lost: Counter[str] = Counter()
        for _ in range(count):
            change = self._history.popleft()
            self._size -= len(change.record.body)
            lost[change.record.key.resource] += 1
            if change.before is not None:
                superseded.append(change.before.version)
            if change.record.deleted:
                superseded.append(change.record.version)
            self.compacted = change.record.version
        for resource, number in lost.items():
            self.collection(resource).forget(number)
        return superseded

    def _too_many(self) -> int:
        """How many changes are to go; a tenth more than allowed may gather, so that few rounds do."""
        excess = _excess(len(self._history), self._retention.changes)
        surplus = _excess(self._size, self._retention.size)
        if not surplus:
            return excess
        gone = accumulate(len(change.record.body) for change in self._history)
        return max(excess, next(count for count, size in enumerate(gone, 1) if size >= surplus))

    def _too_old(self, now: float) -> int:
        """How many changes are to go because of their age."""
        oldest = now - self._retention.seconds
        young = (i for i, change in enumerate(self._history) if change.record.time >= oldest)
        return next(young, len(self._history))


def _excess(found: int, most: int) -> int:
    return found - most if found - most > most // 10 else 0


T = TypeVar("T")


class _Token(msgspec.Struct, frozen=True, array_like=True):
    """What the next page is asked for with: the state that the list is of, and where the last page ended."""

    version: int
    last: Place


def page(  # noqa: PLR0913 - as the port has them
    state: State, resource: Resource[T], where: Where, *, limit: int = 0, start: str = "", at: str = ""
) -> Page[T]:
    """A page of a list; `at` asks for the state of an exact version."""
    token = _read(start) if start else _Token((at and number_of(at)) or state.version, BEFORE_ALL)
    _check_version(state, token.version, continued=bool(start))
    selection = Selection(resource, where)
    found, more = _matching(state, resource, selection, token, max(limit, 0))
    ended = more == 0
    return Page(
        items=[resource.decode(record.body) for record in found],
        version=str(token.version),
        next="" if ended else _written(_Token(token.version, found[-1].key[1:])),
        remaining=more if not ended and selection.everything else None,
    )


def _matching(
    state: State, resource: Resource[T], selection: Selection, token: _Token, limit: int
) -> tuple[list[Record], int]:
    """The records of one page, and how many are left: all of them, or one if selecting would be needed."""
    collection = state.collection(resource.full_name)
    places, records = collection.as_of(token.version, selection.namespace, token.last)
    if selection.everything:
        here = places[: limit or None]
        return [records[place] for place in here], len(places) - len(here)
    found: list[Record] = []
    for place in places:
        if selection.matches(records[place].body):
            if limit and len(found) == limit:
                return found, 1
            found.append(records[place])
    return found, 0


def _check_version(state: State, version: int, *, continued: bool) -> None:
    if version > state.version:
        raise UnavailableError(
            f"Timeout: Too large resource version: {version}, current: {state.version}", retry_after=1
        )
    try:
        state.must_remember(version)
    except GoneError:
        if not continued:
            raise
        raise GoneError(
            "The provided continue parameter is too old to display a consistent list result. You can start a "
            "new list without the continue parameter."
        ) from None


def _written(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _read(start: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(start), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise BadRequestError("continue key is not valid") from None
