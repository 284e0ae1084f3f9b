"""Reflectors: follow collections of objects, whatever happens to the connection.

A reflector lists a collection in pages, then watches it; `list_watch` decides when to resume and when to list
again. Until then handlers keep what they have: an outage changes nothing. Several handlers can share one
reflector: the collection is watched once, and all handlers are in the same state at any moment.

No failure ends a reflector. Each is retried after a delay that grows until something new is received.

    reflector = Reflector(cluster, PODS, sink)
    reflector.add_handler(PODS.read_as(bytes), another_sink)
    task = asyncio.create_task(reflector.run())  # cancel it to stop
    await reflector.synced.wait()
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from shoal.cluster.backoff import Backoff
from shoal.cluster.errors import ClusterError, NotFoundError
from shoal.cluster.list_watch import ListWatch
from shoal.cluster.object_store import (
    Change,
    DecodeFailure,
    Deleted,
    Entry,
    Key,
    ObjectStore,
    Put,
    Sink,
    as_entries,
    try_decode,
)
from shoal.cluster.port import EVERYTHING, PAGE_SIZE, Cluster, Selector, WatchEvent, list_all
from shoal.cluster.resources import Resource, Text

T = TypeVar("T")
U = TypeVar("U")

_LOG: Final = logging.getLogger(__name__)


class ReflectorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a reflector; times in seconds.

    Each watch asks the server to end it after a random time between `min_watch_timeout` and
    `max_watch_timeout`: so that watches do not all end at once, and move between servers now and then.
    """

    page_size: int = PAGE_SIZE
    backoff: Backoff = Backoff(0.2, 30.0, jitter=0.5)
    min_watch_timeout: float = 300.0
    max_watch_timeout: float = 600.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    rng: random.Random = msgspec.field(default_factory=random.Random)


# --- handlers ---------------------------------------------------------------------------------------------


class EventHandler(Generic[T]):
    """Decodes the objects of a collection in its own way, and passes changes on to a sink.

    An object that cannot be decoded is ignored, as if it did not exist: other handlers may be able to decode
    it, and it does not affect other objects.
    """

    def __init__(self, resource: Resource[T], sink: Sink[T]) -> None:
        """Decode objects as the resource does."""
        self.undecodable: Final[dict[Key, str]] = {}
        """Objects that are ignored, and why."""
        self._resource: Final = resource
        self._sink: Final = sink
        self._visible: Final[set[Key]] = set()
        """Objects that the sink knows."""

    def decode(self, text: Text) -> T | DecodeFailure:
        """Decode an object."""
        return try_decode(self._resource.decode, text)

    def handle(self, changes: Sequence[Change[T | DecodeFailure]]) -> None:
        """Pass changes on to the sink."""
        visible = [seen for change in changes for seen in self._filter(change)]
        if visible:
            self._sink(visible)

    def _filter(self, change: Change[T | DecodeFailure]) -> Iterator[Change[T]]:
        """Yield a change as the sink sees it: an object that can no longer be decoded is deleted."""
        key, item = change.key, change.item if isinstance(change, Put) else None
        if isinstance(item, DecodeFailure):
            self._ignore(key, item.message)
        else:
            self.undecodable.pop(key, None)
        if isinstance(change, Put) and not isinstance(item, DecodeFailure):
            self._visible.add(key)
            yield change  # type: ignore[misc]  # its item is no DecodeFailure
        elif key in self._visible:
            self._visible.discard(key)
            yield Deleted(key)

    def _ignore(self, key: Key, message: str) -> None:
        if self.undecodable.get(key) != message:
            name = "/".join(filter(None, key))
            _LOG.warning(
                "ignoring %s %s, which cannot be decoded: %s", self._resource.full_name, name, message
            )
        self.undecodable[key] = message


DecodedItems = tuple[Any, ...] | DecodeFailure
"""One object as each handler decoded it, or why its metadata cannot be decoded."""


class EventHandlers:
    """The handlers of one collection."""

    def __init__(self) -> None:
        self._handlers: Final[list[EventHandler[Any]]] = []

    def add(self, handler: EventHandler[Any]) -> None:
        """Add a handler, before the first list."""
        self._handlers.append(handler)

    def decode(self, text: Text) -> DecodedItems:
        """Decode an object for every handler."""
        return tuple(handler.decode(text) for handler in self._handlers)

    def handle(self, changes: Sequence[Change[DecodedItems]]) -> None:
        """Pass changes on to every handler, each with what it decoded."""
        for index, handler in enumerate(self._handlers):
            handler.handle([_item_of(change, index) for change in changes])


def _item_of(change: Change[DecodedItems], index: int) -> Change[Any]:
    """Return a change with the item of one handler."""
    if isinstance(change, Deleted) or isinstance(change.item, DecodeFailure):
        return change
    return Put(change.key, change.version, change.item[index])


# --- reflectors -------------------------------------------------------------------------------------------


class Reflector(Generic[T]):
    """Keeps the handlers of one collection up to date."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource[T],
        sink: Sink[T],
        selector: Selector = EVERYTHING,
        options: ReflectorOptions | None = None,
    ) -> None:
        self.synced: Final = asyncio.Event()
        """Set once the first list is complete, and handled."""
        self.last_error: ClusterError | None = None
        """The last error; None as soon as a watch is open again."""
        self._cluster: Final = cluster
        self._handlers: Final = EventHandlers()
        self._resource: Final = as_entries(resource.read_as(self._handlers.decode))
        self._selector: Final = selector
        self._options: Final = options or ReflectorOptions()
        self._state: Final = ListWatch(self._options.backoff, self._options.rng)
        self._store: Final = ObjectStore[DecodedItems]()
        self.handler: Final = self.add_handler(resource, sink)
        """The handler of the resource and sink that the reflector was made with."""

    def add_handler(self, resource: Resource[U], sink: Sink[U]) -> EventHandler[U]:
        """Add a handler with its own decoder; before `run`."""
        handler = EventHandler(resource, sink)
        self._handlers.add(handler)
        return handler

    async def run(self) -> None:
        """Follow the collection for ever; cancel the task to stop."""
        now = asyncio.get_running_loop().time
        while True:
            try:
                if self._state.must_list:
                    await self._list()
                await self._watch()
            except ClusterError as error:
                self._report(error)
                await self._options.sleep(self._state.failed(error, now()))

    async def _list(self) -> None:
        try:
            page = await list_all(self._cluster, self._resource, self._selector, size=self._options.page_size)
        except NotFoundError:
            # The resource is not installed, or not any more: it has no objects to wait for.
            self._handlers.handle(self._store.replace([]))
            self.synced.set()
            raise
        self._handlers.handle(self._store.replace(page.items))
        self._state.listed(page.version)
        self.synced.set()

    async def _watch(self) -> None:
        now, options, state = asyncio.get_running_loop().time, self._options, self._state
        timeout = options.rng.uniform(options.min_watch_timeout, options.max_watch_timeout)
        async with self._cluster.watch(
            self._resource, self._selector, version=state.version, timeout=timeout
        ) as events:
            state.watch_started(now())
            self._recovered()
            async for event in events:
                self._handle(event)
        state.watch_ended(now(), timeout)

    def _handle(self, event: WatchEvent[Entry[DecodedItems]]) -> None:
        if event.object is not None and event.type == "DELETED":
            self._handlers.handle(list(self._store.remove(event.object)))
        elif event.object is not None:
            self._handlers.handle(list(self._store.put(event.object)))
        self._state.received(event.version)

    def _report(self, error: ClusterError) -> None:
        """Record an error, and log it unless it is the same as before."""
        if self.last_error is None or self.last_error.message != error.message:
            _LOG.warning("%s: %s", self._resource.full_name, error.message)
        self.last_error = error

    def _recovered(self) -> None:
        if self.last_error is not None:
            _LOG.info("%s: followed again", self._resource.full_name)
        self.last_error = None


class Reflectors:
    """The reflectors of several collections, one for each collection, however many handlers it has."""

    def __init__(self, cluster: Cluster, options: ReflectorOptions | None = None) -> None:
        self._cluster: Final = cluster
        self._options: Final = options or ReflectorOptions()
        self._reflectors: Final[dict[str, Reflector[Any]]] = {}

    def follow(
        self, resource: Resource[T], sink: Sink[T], selector: Selector = EVERYTHING
    ) -> EventHandler[T]:
        """Add a handler of a collection, before `run`. The first handler selects for all of them."""
        existing = self._reflectors.get(resource.full_name)
        if existing is not None:
            return existing.add_handler(resource, sink)
        reflector = Reflector(self._cluster, resource, sink, selector, self._options)
        self._reflectors[resource.full_name] = reflector
        return reflector.handler

    async def run(self) -> None:
        """Follow all collections for ever; cancel the task to stop."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors.values():
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Wait until every collection has been listed."""
        for reflector in self._reflectors.values():
            await reflector.synced.wait()

    @property
    def is_synced(self) -> bool:
        """Whether every collection has been listed."""
        return all(reflector.synced.is_set() for reflector in self._reflectors.values())

    @property
    def errors(self) -> list[ClusterError]:
        """The current errors; a resource that is not installed is not an error."""
        found = (reflector.last_error for reflector in self._reflectors.values())
        return [error for error in found if error is not None and not isinstance(error, NotFoundError)]
