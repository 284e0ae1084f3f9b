"""Watches: each has its own position in the change log, so a slow watch delays no writer or other watch."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Final, Generic, Literal, TypeVar

from shoal.apiserver.registry.records import Change, Record, parse_resource_version, with_resource_version
from shoal.apiserver.registry.state import Collection, State
from shoal.cluster.errors import GoneError
from shoal.cluster.port import Selector, WatchEvent
from shoal.cluster.resources import Resource
from shoal.cluster.selection import CompiledSelector

T = TypeVar("T")

BOOKMARK_INTERVAL: Final = 60.0
"""Seconds between two bookmarks of an idle watch, as in Kubernetes."""
_BATCH_SIZE: Final = 256
"""Changes skipped before the watch yields to the event loop."""


class WatchNotifier:
    """Wakes watches when objects of their resource change."""

    def __init__(self) -> None:
        self.closed = False
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}
        """Futures by resource in the order of arrival, so that runs are deterministic."""

    def notify(self, resources: Iterable[str]) -> None:
        """Wake the watches of these resources."""
        for resource in resources:
            _wake(self._waiting.pop(resource, ()))

    def close(self) -> None:
        """End all watches."""
        self.closed = True
        self.notify(list(self._waiting))

    async def wait(self, resource: str, seconds: float) -> None:
        """Wait until an object of the resource changes, at most `seconds`."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.setdefault(resource, {})[future] = None
        timer = loop.call_later(seconds, _wake, (future,))
        try:
            await future
        finally:
            timer.cancel()
            self._waiting.get(resource, {}).pop(future, None)


def _wake(waiting: Iterable[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)


class Watch(Generic[T]):
    """One watch: an async context manager and iterator of events."""

    def __init__(  # noqa: PLR0913 - created by the registry only
        self,
        state: State,
        notifier: WatchNotifier,
        resource: Resource[T],
        selector: Selector,
        *,
        version: str,
        timeout: float | None,
        bookmark_interval: float,
    ) -> None:
        self._state = state
        self._notifier = notifier
        self._resource = resource
        self._where = selector
        self._from = version
        self._timeout = timeout
        self._bookmark_interval = bookmark_interval
        self._closed = False

    async def __aenter__(self) -> "Watch[T]":
        """Find the start position; GoneError if the changes after it are no longer known."""
        self._selection = CompiledSelector(self._resource, self._where)
        self._now: Callable[[], float] = asyncio.get_running_loop().time
        self._end = None if self._timeout is None else self._now() + self._timeout
        self._next_bookmark = self._now() + self._bookmark_interval
        self._first: Iterator[Record] = iter(())
        if self._from and self._from != "0":
            self._last_version = parse_resource_version(self._from)
            self._state.check_available(self._last_version)
        else:
            self._last_version = self._state.version
            names, records = self._collection.as_of(self._last_version, self._selection.namespace)
            self._first = iter([records[name] for name in names])
        self._position = self._collection.position_after(self._last_version)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True

    def __aiter__(self) -> "Watch[T]":
        return self

    async def __anext__(self) -> WatchEvent[T]:
        for record in self._first:
            if self._selection.everything or self._selection.matches(record.body):
                return self._event("ADDED", record.body, record.version)
        while not self._closed:
            found = self._next_change()
            if found is not None:
                return found
            if self._position < self._collection.end:
                await asyncio.sleep(0)
                continue
            bookmark = self._bookmark_if_due()
            if bookmark is not None:
                return bookmark
            if self._expired():
                break
            await self._notifier.wait(self._resource.full_name, self._seconds_until_deadline())
        raise StopAsyncIteration

    @property
    def _collection(self) -> Collection:
        return self._state.collection(self._resource.full_name)

    # --- deadlines ----------------------------------------------------------------------------------------

    def _expired(self) -> bool:
        return self._notifier.closed or (self._end is not None and self._now() >= self._end)

    def _seconds_until_deadline(self) -> float:
        """Seconds until the next bookmark or the end of the watch."""
        until = self._next_bookmark if self._end is None else min(self._next_bookmark, self._end)
        return max(until - self._now(), 0.0)

    def _bookmark_if_due(self) -> WatchEvent[T] | None:
        """A bookmark if one is due: at intervals, and before the end if other objects have changed."""
        behind = self._state.version > self._last_version
        if self._now() < self._next_bookmark and not (behind and self._expired()):
            return None
        self._next_bookmark = self._now() + self._bookmark_interval
        self._last_version = max(self._last_version, self._state.version)
        return WatchEvent("BOOKMARK", None, str(self._last_version))

    # --- changes ------------------------------------------------------------------------------------------

    def _next_change(self) -> WatchEvent[T] | None:
        """Return the next matching change among the next `_BATCH_SIZE`, if there is one."""
        collection = self._collection
        first = self._position - collection.truncated
        if first < 0:
            raise GoneError(f"too old resource version: {self._last_version} ({self._state.compacted})")
        for i in range(first, min(first + _BATCH_SIZE, len(collection.log))):
            change = collection.log[i]
            self._position += 1
            if change.record.version > self._last_version:
                event = self._event_for(change)
                if event is not None:
                    self._last_version = change.record.version
                    return event
        return None

    def _event_for(self, change: Change) -> WatchEvent[T] | None:
        """Convert a change to an event: leaving the selection is DELETED, entering it ADDED."""
        record, before = change.record, change.before
        if self._selection.namespace and record.key.namespace != self._selection.namespace:
            return None
        was = before is not None and self._matches(before)
        now = not record.deleted and self._matches(record)
        if now:
            return self._event("MODIFIED" if was else "ADDED", record.body, record.version)
        if not was or before is None:
            return None
        body = record.body if record.deleted else with_resource_version(before.body, record.version)
        return self._event("DELETED", body, record.version)

    def _matches(self, record: Record) -> bool:
        return self._selection.everything or self._selection.matches(record.body)

    def _event(
        self, kind: Literal["ADDED", "MODIFIED", "DELETED"], body: bytes, version: int
    ) -> WatchEvent[T]:
        return WatchEvent(kind, self._resource.decode(body), str(version))
