"""The live view of `shoal watch`: a cluster followed and drawn again whenever something changes."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import Final

import click
import msgspec
from rich.console import Console
from rich.live import Live

from shoal.api.fields import pluralize, printable
from shoal.api.meta import Time
from shoal.cache.live import LiveWorld
from shoal.cache.snapshots import SnapshotBuilder
from shoal.cache.world import World
from shoal.cli.input.planning import cluster_config
from shoal.cli.output.cluster_view import ClusterView, JobColours, build_view, render_view
from shoal.cli.output.plan import open_console
from shoal.cluster.kubernetes.access import Access
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.object_store import Change, Put
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import Reflectors
from shoal.cluster.resources import EVENTS, Object
from shoal.embedded.daemon import stop_event
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.manager import in_background

_MIN_INTERVAL: Final = 0.25
"""Minimum time between two drawings, in seconds."""
_MAX_EVENTS: Final = 8
"""Number of events shown below the tables."""
_FAILED_SCHEDULING: Final = "FailedScheduling"
"""Events of this reason are left out: the table of jobs shows why each job waits."""


class ClusterWatcher:
    """Follows a cluster: its current view, and its new events."""

    def __init__(self, cluster: Cluster, config: SchedulerConfig) -> None:
        self.changed: Final = asyncio.Event()
        self._event_lines: Final = deque[str]()
        self._config: Final = config
        self._reflectors: Final = Reflectors(cluster)
        self._live: Final = LiveWorld(self._reflectors, World(time.time()))
        self._assembler: Final = SnapshotBuilder(self._live.world, config)
        self._changes: Final = self._live.world.follow(self.changed.set)
        self._reflectors.follow(EVENTS, self._on_events)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the cluster inside the block, which starts when everything has been listed once."""
        async with in_background(self._reflectors.run()):
            await self._reflectors.synced()
            yield

    def view(self) -> ClusterView:
        """Build the current view; clears `changed`."""
        self.changed.clear()
        self._changes.take()
        assembly = self._assembler.build(time.time())
        return build_view(self._live.world, assembly, cycle(assembly.snapshot, self._config))

    def take_events(self) -> Iterator[str]:
        """Events since the last call, one line each."""
        while self._event_lines:
            yield self._event_lines.popleft()

    def _on_events(self, changes: Sequence[Change[Object]]) -> None:
        events = (change.item for change in changes if isinstance(change, Put))
        lines = sorted(_event_line(event) for event in events if event.get("reason") != _FAILED_SCHEDULING)
        self._event_lines.extend(line for _, line in lines)
        self.changed.set()


def _event_line(event: Object) -> tuple[str, str]:
    """The sort key and the line of an event."""
    timestamp = event.get("lastTimestamp") or event.get("eventTime") or ""
    involved = event["involvedObject"]
    name = f"{involved.get('kind', '')}/{involved.get('name', '')}".lower()
    return timestamp, f"{_local_time(timestamp)} {event.get('reason', '')} {name}: {event.get('message', '')}"


def _local_time(timestamp: str) -> str:
    """A timestamp as local time of day; blanks if it is invalid."""
    with contextlib.suppress(msgspec.ValidationError):
        moment: datetime = msgspec.convert(timestamp, Time)
        return moment.astimezone().strftime("%H:%M:%S")
    return "        "


def watch_cluster(access: Access, config: SchedulerConfig | None, *, until_idle: bool) -> None:
    """Show the cluster until Ctrl-C, or until no pod runs or waits.

    Without a configuration, that of the cluster's own scheduler is used.
    """
    asyncio.run(_watch(access, config, until_idle=until_idle))


async def _watch(access: Access, config: SchedulerConfig | None, *, until_idle: bool) -> None:
    cluster, console, stop = KubernetesCluster(access), open_console(), stop_event()
    try:
        watcher = ClusterWatcher(cluster, config or await cluster_config(cluster))
        async with watcher.running():
            display = _show_live if console.is_terminal else _print_once
            await display(watcher, console, stop, until_idle=until_idle)
    finally:
        await cluster.close()


async def _show_live(
    watcher: ClusterWatcher, console: Console, stop: asyncio.Event, *, until_idle: bool
) -> None:
    colours, events = JobColours(), deque[str](maxlen=_MAX_EVENTS)
    with Live(console=console, auto_refresh=False) as screen:
        async for view in _views(watcher, stop, until_idle=until_idle):
            events.extend(watcher.take_events())
            rendering = render_view(view, events, colours, title=view_title(view), height=console.height)
            screen.update(rendering, refresh=True)


async def _print_once(
    watcher: ClusterWatcher, console: Console, stop: asyncio.Event, *, until_idle: bool
) -> None:
    """Print the view once; with `until_idle`, print events until the cluster is idle first."""
    if until_idle:
        async for _ in _views(watcher, stop, until_idle=True):
            for line in watcher.take_events():
                click.echo(printable(line))
    view = watcher.view()
    height = 2 * (len(view.nodes) + len(view.jobs) + _MAX_EVENTS)
    console.print(render_view(view, (), JobColours(), title=view_title(view), height=height))


async def _views(
    watcher: ClusterWatcher, stop: asyncio.Event, *, until_idle: bool
) -> AsyncIterator[ClusterView]:
    """The view, at least once, and again after each change."""
    while True:
        view = watcher.view()
        yield view
        if stop.is_set() or (until_idle and view.idle):
            return
        await asyncio.sleep(_MIN_INTERVAL)
        waiting = [asyncio.ensure_future(event.wait()) for event in (watcher.changed, stop)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()


def view_title(view: ClusterView) -> str:
    """Title line: numbers of nodes, running pods and waiting pods."""
    running, waiting = sum(job.running for job in view.jobs), sum(job.waiting for job in view.jobs)
    return f"{pluralize(len(view.nodes), 'node')}, {pluralize(running, 'pod')} at work, {waiting} waiting"
