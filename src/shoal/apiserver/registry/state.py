"""Committed state: the objects as readers see them, the history of changes, and paged lists.

Each collection has its own change log, so that a watch reads only changes of its resource. Retention of the
history is common to all collections. All pages of a list show the same state.
"""

import base64
import binascii
from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, TypeVar

import msgspec

from shoal.apiserver.registry.records import Change, Key, Record, parse_resource_version
from shoal.cluster.errors import BadRequestError, GoneError, UnavailableError
from shoal.cluster.port import Page, Selector
from shoal.cluster.resources import Resource
from shoal.cluster.selection import CompiledSelector

NamespacedName = tuple[str, str]
"""Namespace and name."""

BEFORE_FIRST: Final = ("", "")
"""Sorts before every object: names are never empty."""


class Retention(msgspec.Struct, frozen=True):
    """Limits of the history: number of changes, age in seconds, and size in bytes."""

    changes: int = 20_000
    seconds: float = 600.0
    size: int = 256 * 1024 * 1024


class Collection:
    """The objects of one resource in order, and the log of their changes."""

    def __init__(self) -> None:
        self.records: Final[dict[NamespacedName, Record]] = {}
        self.log: Final[list[Change]] = []
        self.truncated = 0
        """Number of changes truncated from the front of the log; positions of watches count from there."""
        self._names: list[NamespacedName] = []

    def apply(self, change: Change, *, append_to_log: bool = True) -> None:
        name = change.record.key[1:]
        if change.record.deleted:
            del self.records[name]
            del self._names[bisect_left(self._names, name)]
        else:
            if name not in self.records:
                insort(self._names, name)
            self.records[name] = change.record
        if append_to_log:
            self.log.append(change)

    def truncate(self, count: int) -> None:
        """Drop the oldest `count` changes from the log."""
        del self.log[:count]
        self.truncated += count

    @property
    def end(self) -> int:
        """Position after the newest change."""
        return self.truncated + len(self.log)

    def position_after(self, version: int) -> int:
        """Return the position of the first change that is newer than a version."""
        return self.truncated + bisect_left(self.log, version + 1, key=lambda change: change.record.version)

    def names(self, namespace: str = "", after: NamespacedName = BEFORE_FIRST) -> list[NamespacedName]:
        """Return names in order: of one namespace or of all, starting after a given name."""
        first = bisect_right(self._names, max(after, (namespace, "")))
        last = bisect_left(self._names, (f"{namespace}\0", ""), lo=first) if namespace else None
        return self._names[first:last]

    def as_of(
        self, version: int, namespace: str = "", after: NamespacedName = BEFORE_FIRST
    ) -> tuple[list[NamespacedName], Mapping[NamespacedName, Record]]:
        """Return the names in order and the records at an older version, by reverting newer changes."""
        reverted: dict[NamespacedName, Record | None] = {}
        for change in reversed(self.log):
            if change.record.version <= version:
                break
            name = change.record.key[1:]
            if namespace in ("", name[0]) and name > after:
                reverted[name] = change.before
        names = self.names(namespace, after)
        if not reverted:
            return names, self.records
        restored = {name: record for name, record in reverted.items() if record}
        kept = (name for name in names if name not in reverted)
        return sorted([*kept, *sorted(restored)]), self.records | restored


class State:
    """All collections at one resource version."""

    def __init__(self, retention: Retention) -> None:
        self.version = 0
        self.compacted = 0
        """Oldest version from which the history is complete."""
        self._retention = retention
        self._collections: dict[str, Collection] = {}
        self._history: deque[Change] = deque()
        self._size = 0
        """Size in bytes of the objects in the history."""

    def load(self, compacted: int, records: Iterable[Record]) -> None:
        """Load the records of a journal; ValueError if they are inconsistent."""
        self.compacted = self.version = compacted
        for record in records:
            change = Change(record, self.get(record.key))
            if record.deleted and change.before is None:
                raise ValueError(f"{'/'.join(record.key)} is deleted but was never created")
            if record.version > compacted:
                self.apply(change)
            else:
                self.collection(record.key.resource).apply(change, append_to_log=False)

    def collection(self, resource: str) -> Collection:
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection()
        return found

    def resources(self) -> list[str]:
        """Return the full names of all resources that had an object since the start."""
        return list(self._collections)

    def get(self, key: Key) -> Record | None:
        return self.collection(key.resource).records.get(key[1:])

    def apply(self, change: Change) -> None:
        self.collection(change.record.key.resource).apply(change)
        self._history.append(change)
        self._size += len(change.record.body)
        self.version = change.record.version

    def records(self) -> Iterator[Record]:
        """Iterate over all objects."""
        for collection in self._collections.values():
            yield from collection.records.values()

    def check_available(self, version: int) -> None:
        """Raise GoneError unless all changes after a version are known: not if too old, or in the future."""
        if version < self.compacted:
            raise GoneError(f"too old resource version: {version} ({self.compacted})")
        if version > self.version:
            raise GoneError(f"unknown resource version: {version} (the newest is {self.version})")

    def compact(self, now: float | None = None) -> list[int]:
        """Truncate the history to the retention limits; the age limit only applies if `now` is given.

        Returns the versions of records that are no longer needed.
        """
        count = self._surplus_changes() if now is None else self._expired_changes(now)
        superseded: list[int] = []
        truncated: Counter[str] = Counter()
        for _ in range(count):
            change = self._history.popleft()
            self._size -= len(change.record.body)
            truncated[change.record.key.resource] += 1
            if change.before is not None:
                superseded.append(change.before.version)
            if change.record.deleted:
                superseded.append(change.record.version)
            self.compacted = change.record.version
        for resource, number in truncated.items():
            self.collection(resource).truncate(number)
        return superseded

    def _surplus_changes(self) -> int:
        """Number of changes over the limits; up to 10 % more may accumulate, so that truncation is rare."""
        excess = _excess(len(self._history), self._retention.changes)
        surplus = _excess(self._size, self._retention.size)
        if not surplus:
            return excess
        gone = accumulate(len(change.record.body) for change in self._history)
        return max(excess, next(count for count, size in enumerate(gone, 1) if size >= surplus))

    def _expired_changes(self, now: float) -> int:
        """Number of changes that exceed the age limit."""
        oldest = now - self._retention.seconds
        young = (i for i, change in enumerate(self._history) if change.record.time >= oldest)
        return next(young, len(self._history))


def _excess(found: int, most: int) -> int:
    return found - most if found - most > most // 10 else 0


T = TypeVar("T")


class _ContinueToken(msgspec.Struct, frozen=True, array_like=True):
    """Continue token of a list: the version of the list, and the last name of the previous page."""

    version: int
    last: NamespacedName


def list_page(  # noqa: PLR0913 - the port's parameters
    state: State, resource: Resource[T], selector: Selector, *, limit: int = 0, start: str = "", at: str = ""
) -> Page[T]:
    """Return one page of a list; `at` asks for the state at an exact resource version."""
    token = (
        _decode_token(start)
        if start
        else _ContinueToken((at and parse_resource_version(at)) or state.version, BEFORE_FIRST)
    )
    _check_version(state, token.version, continued=bool(start))
    selection = CompiledSelector(resource, selector)
    found, more = _matching(state, resource, selection, token, max(limit, 0))
    ended = more == 0
    return Page(
        items=[resource.decode(record.body) for record in found],
        version=str(token.version),
        next="" if ended else _encode_token(_ContinueToken(token.version, found[-1].key[1:])),
        remaining=more if not ended and selection.everything else None,
    )


def _matching(
    state: State, resource: Resource[T], selection: CompiledSelector, token: _ContinueToken, limit: int
) -> tuple[list[Record], int]:
    """Return the records of one page and how many follow: the exact number, or 1 if there is a selector."""
    collection = state.collection(resource.full_name)
    names, records = collection.as_of(token.version, selection.namespace, token.last)
    if selection.everything:
        here = names[: limit or None]
        return [records[name] for name in here], len(names) - len(here)
    found: list[Record] = []
    for name in names:
        if selection.matches(records[name].body):
            if limit and len(found) == limit:
                return found, 1
            found.append(records[name])
    return found, 0


def _check_version(state: State, version: int, *, continued: bool) -> None:
    if version > state.version:
        raise UnavailableError(
            f"Timeout: Too large resource version: {version}, current: {state.version}", retry_after=1
        )
    try:
        state.check_available(version)
    except GoneError:
        if not continued:
            raise
        raise GoneError(
            "The provided continue parameter is too old to display a consistent list result. You can start a "
            "new list without the continue parameter."
        ) from None


def _encode_token(token: _ContinueToken) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _decode_token(start: str) -> _ContinueToken:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(start), type=_ContinueToken)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise BadRequestError("continue key is not valid") from None
