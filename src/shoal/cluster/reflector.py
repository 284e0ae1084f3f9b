"""Follows collections of objects, whatever happens to the connection.

A reflector lists once, in pages, and then watches. When a watch ends it goes on from the last version it
heard of. It lists again when the cluster no longer knows that version, or answers with an error that may be
about it. Until then everybody keeps what they have: an outage changes nothing. Several may listen to one
reflector: a collection is watched once, and all of them know the same of it at any moment.

No failure ends a reflector. Each is waited for, longer from one to the next, until something new is heard:
that alone counts as success, so that no server can keep a reflector busy for nothing.

    reflector = Reflector(cluster, PODS, sink)
    reflector.listen(PODS.read_as(bytes), another_sink)
    task = asyncio.create_task(reflector.run())  # cancel it to stop
    await reflector.synced.wait()
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from shoal.cluster.backoff import Backoff
from shoal.cluster.errors import ClusterError, NotFoundError, TooManyRequestsError, UnavailableError
from shoal.cluster.object_store import Audience, Entry, Listener, Mirror, Readings, Sink, entries_of
from shoal.cluster.port import EVERYWHERE, PAGE, Cluster, Event, Where, list_all
from shoal.cluster.resources import Resource

T = TypeVar("T")
U = TypeVar("U")

_LOG: Final = logging.getLogger(__name__)
_DOUBTS: Final = 5
"""Watches in a row that may fail for no fault of the version they begin at; then it is listed again."""


class ReflectorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a reflector; times in seconds.

    Each watch asks the server to end it after a random time between `min_watch_timeout` and
    `max_watch_timeout`: so that watches do not all end at once, and move between servers now and then.
    """

    page_size: int = PAGE
    backoff: Backoff = Backoff(0.2, 30.0, jitter=0.5)
    min_watch_timeout: float = 300.0
    max_watch_timeout: float = 600.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    rng: random.Random = msgspec.field(default_factory=random.Random)


class Reflector(Generic[T]):
    """Keeps sinks up to date with a collection."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource[T],
        sink: Sink[T],
        where: Where = EVERYWHERE,
        options: ReflectorOptions | None = None,
    ) -> None:
        self.synced: Final = asyncio.Event()
        """Set once the first list is complete, and has been passed on."""
        self.trouble: ClusterError | None = None
        """What went wrong last; None as soon as all is well again."""
        self._cluster: Final = cluster
        self._audience: Final = Audience()
        self._resource: Final = entries_of(resource.read_as(self._audience.read))
        self._where: Final = where
        self._options: Final = options or ReflectorOptions()
        self._failures = 0
        """Failures in a row: since something new was received."""
        self._mirror: Final = Mirror[Readings]()
        self._version = ""
        """Up to where everything is known; empty when it must be listed."""
        self.first: Final = self.listen(resource, sink)
        """Who listens since it was made."""

    def listen(self, resource: Resource[U], sink: Sink[U]) -> Listener[U]:
        """Have another sink kept up to date, with what the resource makes of objects; before `run`."""
        listener = Listener(resource, sink)
        self._audience.join(listener)
        return listener

    async def run(self) -> None:
        """Follow for ever; cancel it to stop."""
        while True:
            try:
                if not self._version:
                    await self._list()
                if not await self._watch():
                    raise UnavailableError("the watch ended and told nothing")
            except ClusterError as error:
                self._note(error)
                self._failures += 1
                options = self._options
                delay = options.backoff.delay(self._failures, options.rng, retry_after=error.retry_after)
                await options.sleep(delay)

    # --- listing ------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        try:
            page = await list_all(self._cluster, self._resource, self._where, size=self._options.page_size)
        except NotFoundError:
            # The cluster has no such collection, or none any more: there is nothing in it to wait for.
            self._audience.take(self._mirror.replace([]))
            self.synced.set()
            raise
        self._audience.take(self._mirror.replace(page.items))
        self._version = page.version
        self.synced.set()

    # --- watching -----------------------------------------------------------------------------------------

    async def _watch(self) -> bool:
        """Follow until the watch ends; whether it told anything new, or lasted although there was nothing."""
        before, began = self._version, asyncio.get_running_loop().time()
        options = self._options
        timeout = options.rng.uniform(options.min_watch_timeout, options.max_watch_timeout)
        async with self._cluster.watch(
            self._resource, self._where, version=before, timeout=timeout
        ) as events:
            self.trouble = None
            async for event in events:
                self._take(event)
        return self._version != before or asyncio.get_running_loop().time() - began >= timeout / 2

    def _take(self, event: Event[Entry[Readings]]) -> None:
        if event.object is not None and event.type == "DELETED":
            self._audience.take(list(self._mirror.remove(event.object)))
        elif event.object is not None:
            self._audience.take(list(self._mirror.put(event.object)))
        if event.version != self._version:
            self._version = event.version
            self._failures = 0

    # --- both ---------------------------------------------------------------------------------------------

    def _note(self, error: ClusterError) -> None:
        """Remember what went wrong, and whether the version may be to blame; say it once, not every time."""
        if self.trouble is None or self.trouble.message != error.message:
            _LOG.warning("%s: %s", self._resource.full_name, error.message)
        self.trouble = error
        passing = isinstance(error, UnavailableError | TooManyRequestsError)
        if not passing or self._failures >= _DOUBTS:
            self._version = ""


class Reflectors:
    """Several collections, followed side by side; each of them once, however many listen."""

    def __init__(self, cluster: Cluster, options: ReflectorOptions | None = None) -> None:
        self._cluster: Final = cluster
        self._options: Final = options or ReflectorOptions()
        self._all: Final[dict[str, Reflector[Any]]] = {}

    def follow(self, resource: Resource[T], sink: Sink[T]) -> Listener[T]:
        """Add somebody who listens to a collection, before `run`."""
        known = self._all.get(resource.full_name)
        if known is not None:
            return known.listen(resource, sink)
        made = Reflector(self._cluster, resource, sink, options=self._options)
        self._all[resource.full_name] = made
        return made.first

    async def run(self) -> None:
        """Follow all for ever; cancel it to stop."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._all.values():
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Wait until every collection has been listed."""
        for reflector in self._all.values():
            await reflector.synced.wait()

    @property
    def is_synced(self) -> bool:
        """Whether every collection has been listed."""
        return all(reflector.synced.is_set() for reflector in self._all.values())

    @property
    def troubles(self) -> list[ClusterError]:
        """What goes wrong just now; that a kind is not installed is no trouble."""
        found = (reflector.trouble for reflector in self._all.values())
        return [error for error in found if error is not None and not isinstance(error, NotFoundError)]
