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

from shoal.cluster.errors import ClusterError, NotFoundError, TooManyRequestsError, UnavailableError
from shoal.cluster.object_store import Audience, Entry, Listener, Mirror, Readings, Sink, entries_of
from shoal.cluster.port import EVERYWHERE, PAGE, Cluster, Event, Where, list_all
from shoal.cluster.resources import Resource

T = TypeVar("T")
U = TypeVar("U")

_LOG: Final = logging.getLogger(__name__)
_DOUBTS: Final = 5
"""Watches in a row that may fail for no fault of the version they begin at; then it is listed again."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How a reflector goes about it; times in seconds.

    The first wait after a failure is about `first`, each next one twice as long, `most` at most. Watches are
    told to end after `shortest` to `longest`: not all at once, and now and then by another server.
    """

    page: int = PAGE
    first: float = 0.2
    most: float = 30.0
    shortest: float = 300.0
    longest: float = 600.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    dice: random.Random = msgspec.field(default_factory=random.Random)


class Backoff:
    """How long to wait after failures in a row."""

    def __init__(self, pace: Pace) -> None:
        self._pace: Final = pace
        self.failures = 0

    def succeed(self) -> None:
        self.failures = 0

    async def fail(self, at_least: float | None = None) -> None:
        """Wait; `at_least` is what the server asks for, of which there is a limit too."""
        pace = self._pace
        longest = min(pace.first * 2.0 ** min(self.failures, 30), pace.most)
        self.failures += 1
        wait = longest * pace.dice.uniform(0.5, 1.0)
        await pace.sleep(max(wait, min(at_least or 0.0, pace.most)))


class Reflector(Generic[T]):
    """Keeps sinks up to date with a collection."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource[T],
        sink: Sink[T],
        where: Where = EVERYWHERE,
        pace: Pace | None = None,
    ) -> None:
        self.synced: Final = asyncio.Event()
        """Set once the first list is complete, and has been passed on."""
        self.trouble: ClusterError | None = None
        """What went wrong last; None as soon as all is well again."""
        self._cluster: Final = cluster
        self._audience: Final = Audience()
        self._resource: Final = entries_of(resource.read_as(self._audience.read))
        self._where: Final = where
        self._pace: Final = pace or Pace()
        self._backoff: Final = Backoff(self._pace)
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
                await self._backoff.fail(error.retry_after)

    # --- listing ------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        try:
            page = await list_all(self._cluster, self._resource, self._where, size=self._pace.page)
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
        timeout = self._pace.dice.uniform(self._pace.shortest, self._pace.longest)
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
            self._backoff.succeed()

    # --- both ---------------------------------------------------------------------------------------------

    def _note(self, error: ClusterError) -> None:
        """Remember what went wrong, and whether the version may be to blame; say it once, not every time."""
        if self.trouble is None or self.trouble.message != error.message:
            _LOG.warning("%s: %s", self._resource.full_name, error.message)
        self.trouble = error
        passing = isinstance(error, UnavailableError | TooManyRequestsError)
        if not passing or self._backoff.failures >= _DOUBTS:
            self._version = ""


class Reflectors:
    """Several collections, followed side by side; each of them once, however many listen."""

    def __init__(self, cluster: Cluster, pace: Pace | None = None) -> None:
        self._cluster: Final = cluster
        self._pace: Final = pace or Pace()
        self._all: Final[dict[str, Reflector[Any]]] = {}

    def follow(self, resource: Resource[T], sink: Sink[T]) -> Listener[T]:
        """Add somebody who listens to a collection, before `run`."""
        known = self._all.get(resource.full_name)
        if known is not None:
            return known.listen(resource, sink)
        made = Reflector(self._cluster, resource, sink, pace=self._pace)
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
