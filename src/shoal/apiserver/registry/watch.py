"""Watches: each has its own place in the history and follows at its own pace. Nobody waits for a watcher."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Final, Generic, Literal, TypeVar

from shoal.apiserver.registry.records import Change, Record, number_of, with_version
from shoal.apiserver.registry.state import Collection, State
from shoal.cluster.errors import GoneError
from shoal.cluster.port import Event, Where
from shoal.cluster.resources import Resource
from shoal.cluster.selection import Selection

T = TypeVar("T")

BOOKMARK_EVERY: Final = 60.0
"""Seconds after which a watcher is told how far it has come, as in Kubernetes."""
_AT_ONCE: Final = 256
"""So many changes are passed over before others get their turn."""


class Feed:
    """Wakes watchers when there is something for them."""

    def __init__(self) -> None:
        self.closed = False
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}
        """Futures by resource, in the order in which they came: nobody overtakes, in no run."""

    def tell(self, resources: Iterable[str]) -> None:
        """Something of these resources has changed."""
        for resource in resources:
            _wake(self._waiting.pop(resource, ()))

    def close(self) -> None:
        """Let all watches end."""
        self.closed = True
        self.tell(list(self._waiting))

    async def news(self, resource: str, seconds: float) -> None:
        """Wait until something changes, or for so long."""
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
    """One watch: a context, and within it an iterator."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        state: State,
        feed: Feed,
        resource: Resource[T],
        where: Where,
        *,
        version: str,
        timeout: float | None,
        bookmark_every: float,
    ) -> None:
        self._state = state
        self._feed = feed
        self._resource = resource
        self._where = where
        self._from = version
        self._timeout = timeout
        self._bookmark_every = bookmark_every
        self._closed = False

    async def __aenter__(self) -> "Watch[T]":
        """Find the place to begin at; GoneError if it is no longer known what came after it."""
        self._selection = Selection(self._resource, self._where)
        self._now: Callable[[], float] = asyncio.get_running_loop().time
        self._end = None if self._timeout is None else self._now() + self._timeout
        self._next_bookmark = self._now() + self._bookmark_every
        self._first: Iterator[Record] = iter(())
        if self._from and self._from != "0":
            self._told = number_of(self._from)
            self._state.must_remember(self._told)
        else:
            self._told = self._state.version
            places, records = self._collection.as_of(self._told, self._selection.namespace)
            self._first = iter([records[place] for place in places])
        self._position = self._collection.position_after(self._told)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True

    def __aiter__(self) -> "Watch[T]":
        return self

    async def __anext__(self) -> Event[T]:
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
            if self._over():
                break
            await self._feed.news(self._resource.full_name, self._patience())
        raise StopAsyncIteration

    @property
    def _collection(self) -> Collection:
        return self._state.collection(self._resource.full_name)

    # --- time ---------------------------------------------------------------------------------------------

    def _over(self) -> bool:
        return self._feed.closed or (self._end is not None and self._now() >= self._end)

    def _patience(self) -> float:
        """How long nothing need be said."""
        until = self._next_bookmark if self._end is None else min(self._next_bookmark, self._end)
        return max(until - self._now(), 0.0)

    def _bookmark_if_due(self) -> Event[T] | None:
        """How far a watcher has come without a change for it: now and then, so that it hears us, and last."""
        behind = self._state.version > self._told
        if self._now() < self._next_bookmark and not (behind and self._over()):
            return None
        self._next_bookmark = self._now() + self._bookmark_every
        self._told = max(self._told, self._state.version)
        return Event("BOOKMARK", None, str(self._told))

    # --- changes ------------------------------------------------------------------------------------------

    def _next_change(self) -> Event[T] | None:
        """The next change that means something to this watcher, if there is one among the next few."""
        collection = self._collection
        first = self._position - collection.forgotten
        if first < 0:
            raise GoneError(f"too old resource version: {self._told} ({self._state.compacted})")
        for i in range(first, min(first + _AT_ONCE, len(collection.log))):
            change = collection.log[i]
            self._position += 1
            if change.record.version > self._told:
                event = self._seen(change)
                if event is not None:
                    self._told = change.record.version
                    return event
        return None

    def _seen(self, change: Change) -> Event[T] | None:
        """A change as this watcher sees it: what leaves its selection is gone, what enters it is new."""
        record, before = change.record, change.before
        if self._selection.namespace and record.key.namespace != self._selection.namespace:
            return None
        was = before is not None and self._means(before)
        now = not record.deleted and self._means(record)
        if now:
            return self._event("MODIFIED" if was else "ADDED", record.body, record.version)
        if not was or before is None:
            return None
        body = record.body if record.deleted else with_version(before.body, record.version)
        return self._event("DELETED", body, record.version)

    def _means(self, record: Record) -> bool:
        return self._selection.everything or self._selection.matches(record.body)

    def _event(self, kind: Literal["ADDED", "MODIFIED", "DELETED"], body: bytes, version: int) -> Event[T]:
        return Event(kind, self._resource.decode(body), str(version))
