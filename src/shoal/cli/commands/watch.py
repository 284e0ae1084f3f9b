"""`shoal watch`: a cluster at work, drawn again whenever something changes."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console
from rich.live import Live

from shoal.api.fields import many, printable
from shoal.api.meta import Time
from shoal.cache.live import LiveWorld
from shoal.cache.snapshots import Assembler
from shoal.cache.world import World
from shoal.cli.input.connection import cluster_options, resolve_access
from shoal.cli.input.options import config_option
from shoal.cli.input.planning import cluster_config, read_config
from shoal.cli.output.cluster_view import ClusterView, JobColours, build_view, render_view
from shoal.cli.output.plan import open_console
from shoal.cluster.kubernetes.access import Access
from shoal.cluster.kubernetes.home import KubernetesCluster
from shoal.cluster.object_store import Change, Put
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import Reflectors
from shoal.cluster.resources import EVENTS, Object
from shoal.embedded.daemon import stop_event
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.manager import beside


@click.command()
@cluster_options
@config_option
@click.option("--until-idle", is_flag=True, help="End when nothing runs and nothing waits.")
def watch(home: Path, kubeconfig: str, context: str, config: Path | None, *, until_idle: bool) -> None:
    r"""Watch a cluster: who is on which node, how jobs stand, why they wait, and what happens.

    It ends with Ctrl-C. Where there is no terminal to draw on, it prints one picture; with --until-idle the
    events on the way there, and the picture at the end.

    \b
    Examples:
      shoal watch
      shoal watch --context lab
      shoal apply -f examples/demo/ && shoal watch --until-idle
    """
    settings = read_config(config) if config else None
    watch_cluster(resolve_access(home, kubeconfig, context), settings, until_idle=until_idle)


_PERIOD: Final = 0.25
"""Seconds from one picture to the next, at least."""
_MAX_EVENTS: Final = 8
"""Lines of news."""
_FAILED_SCHEDULING: Final = "FailedScheduling"
"""That somebody waits, and why, is to be seen in the picture itself."""


class ClusterWatcher:
    """A cluster as it is now, and what was told of it lately."""

    def __init__(self, cluster: Cluster, config: SchedulerConfig) -> None:
        self.changed: Final = asyncio.Event()
        self._unread: Final = deque[str]()
        self._config: Final = config
        self._reflectors: Final = Reflectors(cluster)
        self._live: Final = LiveWorld(self._reflectors, World(time.time()))
        self._assembler: Final = Assembler(self._live.world, config)
        self._noted: Final = self._live.world.follow(self.changed.set)
        self._reflectors.follow(EVENTS, self._hear)

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow while the block lasts; everything has been seen once when it begins."""
        async with beside(self._reflectors.run()):
            await self._reflectors.synced()
            yield

    def scene(self) -> ClusterView:
        """What there is to see; whatever comes later is a change again."""
        self.changed.clear()
        self._noted.take()
        made = self._assembler.assemble(time.time())
        return build_view(self._live.world, made, cycle(made.snapshot, self._config))

    def unread(self) -> Iterator[str]:
        """News that nobody has taken yet."""
        while self._unread:
            yield self._unread.popleft()

    def _hear(self, changes: Sequence[Change[Object]]) -> None:
        events = (change.item for change in changes if isinstance(change, Put))
        told = sorted(_event_line(event) for event in events if event.get("reason") != _FAILED_SCHEDULING)
        self._unread.extend(line for _, line in told)
        self.changed.set()


def _event_line(event: Object) -> tuple[str, str]:
    """An Event as one line, and what it is sorted by."""
    when = event.get("lastTimestamp") or event.get("eventTime") or ""
    about = event["involvedObject"]
    name = f"{about.get('kind', '')}/{about.get('name', '')}".lower()
    return when, f"{_clock(when)} {event.get('reason', '')} {name}: {event.get('message', '')}"


def _clock(when: str) -> str:
    """A time of Kubernetes as a clock here shows it."""
    with contextlib.suppress(msgspec.ValidationError):
        moment: datetime = msgspec.convert(when, Time)
        return moment.astimezone().strftime("%H:%M:%S")
    return "        "


def watch_cluster(access: Access, config: SchedulerConfig | None, *, until_idle: bool) -> None:
    """Draw the cluster until Ctrl-C, or until nothing runs and nothing waits.

    Without a configuration it goes by the one of the cluster's own scheduler.

    Where there is no terminal, news are printed as they come and one picture at the end.
    """
    asyncio.run(_watch(access, config, until_idle=until_idle))


async def _watch(access: Access, config: SchedulerConfig | None, *, until_idle: bool) -> None:
    cluster, paper, stop = KubernetesCluster(access), open_console(), stop_event()
    try:
        follower = ClusterWatcher(cluster, config or await cluster_config(cluster))
        async with follower.following():
            show = _show if paper.is_terminal else _print
            await show(follower, paper, stop, until_idle=until_idle)
    finally:
        await cluster.close()


async def _show(follower: ClusterWatcher, paper: Console, stop: asyncio.Event, *, until_idle: bool) -> None:
    colours, news = JobColours(), deque[str](maxlen=_MAX_EVENTS)
    with Live(open_console=paper, auto_refresh=False) as screen:
        async for scene in _views(follower, stop, until_idle=until_idle):
            news.extend(follower.unread())
            picture = render_view(scene, news, colours, title=view_title(scene), height=paper.height)
            screen.update(picture, refresh=True)


async def _print(follower: ClusterWatcher, paper: Console, stop: asyncio.Event, *, until_idle: bool) -> None:
    """One picture; before it, if it is to last until all is done, the news on the way there."""
    if until_idle:
        async for _ in _views(follower, stop, until_idle=True):
            for line in follower.unread():
                click.echo(printable(line))
    scene = follower.scene()
    everything = 2 * (len(scene.nodes) + len(scene.jobs) + _MAX_EVENTS)
    paper.print(render_view(scene, (), JobColours(), title=view_title(scene), height=everything))


async def _views(
    follower: ClusterWatcher, stop: asyncio.Event, *, until_idle: bool
) -> AsyncIterator[ClusterView]:
    """What is to be seen, whenever it is something else; once at least."""
    while True:
        scene = follower.scene()
        yield scene
        if stop.is_set() or (until_idle and scene.idle):
            return
        await asyncio.sleep(_PERIOD)
        waiting = [asyncio.ensure_future(event.wait()) for event in (follower.changed, stop)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()


def view_title(scene: ClusterView) -> str:
    """The figures of all jobs together."""
    working, waiting = sum(job.working for job in scene.jobs), sum(job.waiting for job in scene.jobs)
    return f"{many(len(scene.nodes), 'node')}, {many(working, 'pod')} at work, {waiting} waiting"
