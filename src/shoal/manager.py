"""The manager: puts all that Shoal does in a cluster together, and runs it.

    async with running(cluster, SchedulerConfig()) as manager:
        await manager.ready()
        ...

It works on any home of objects; nothing in it asks which one it is.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from shoal.cache.live import LiveWorld, Texts
from shoal.cache.world import World
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import ReflectorOptions, Reflectors
from shoal.controllers.manager import ControllerManager
from shoal.engine.config import FULFILMENT, SchedulerConfig
from shoal.policies.process import PolicyProcess
from shoal.scheduler.loop import Options, Scheduler
from shoal.scheduler.metrics import Metrics
from shoal.scheduler.policy_client import PolicyClient, in_thread
from shoal.scheduler.recording import Recorder
from shoal.scheduler.settings import publish


class Health(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a manager is, in a few words: whether it has seen everything once, and what goes wrong just now."""

    ready: bool
    cycles: int
    troubles: tuple[str, ...]
    unreadable: dict[str, str]
    """Objects that are left out, and what is wrong with each."""


class Manager:
    """A scheduler with the world it plans, and controllers, on one cluster; both know the same of it."""

    def __init__(  # noqa: PLR0913 - all have their usual values
        self,
        cluster: Cluster,
        config: SchedulerConfig,
        *,
        clock: Callable[[], float] = time.time,
        advisor: PolicyClient | None = None,
        pace: ReflectorOptions | None = None,
        manner: Options | None = None,
        record: Path | None = None,
        keep: int = 100,
        native: bool = False,
    ) -> None:
        """Do nothing yet. The last `keep` cycles are written to the directory `record`, if there is one.

        `native`: Kubernetes' own kinds (Jobs, disruption budgets, nodes that fall silent) are looked after,
        as they must be wherever Kubernetes' own controllers are not.
        """
        self.metrics: Final = Metrics()
        world, texts = World(clock()), Texts()
        self.reflectors: Final = Reflectors(cluster, pace)
        self.live: Final = LiveWorld(self.reflectors, world, texts=None if record is None else texts)
        dice = pace.dice if pace else None
        self.house: Final = ControllerManager(
            cluster,
            self.reflectors,
            config,
            native=native,
            clock=clock,
            dice=dice,
            registry=self.metrics.registry,
        )
        self.scheduler: Final = Scheduler(
            cluster,
            self.live,
            config,
            clock=clock,
            advisor=advisor,
            metrics=self.metrics,
            manner=manner,
            recorder=None if record is None else Recorder(record, world, texts, keep=keep),
            publish=self.house.board.publish,
        )

    async def run(self) -> None:
        """Run until cancelled. What has been begun by then is finished first, while the world is followed."""
        async with asyncio.TaskGroup() as group:  # none goes on without the others
            following, looking_after = map(group.create_task, (self.reflectors.run(), self.house.run()))
            try:
                await self.scheduler.run()
            finally:
                looking_after.cancel()
                await asyncio.wait([looking_after])
                following.cancel()

    async def ready(self) -> None:
        """Wait until everything has been seen once."""
        await self.reflectors.synced()

    def health(self) -> Health:
        """How it is."""
        return Health(
            ready=self.reflectors.is_synced,
            cycles=self.scheduler.cycles,
            troubles=tuple(error.message for error in self.reflectors.troubles),
            unreadable={
                "/".join((kind, *filter(None, key))): problem
                for (kind, key), problem in self.live.unreadable.items()
            },
        )


@asynccontextmanager
async def running(  # noqa: PLR0913 - as the manager has them
    cluster: Cluster,
    config: SchedulerConfig,
    *,
    clock: Callable[[], float] = time.time,
    advisor: PolicyClient | None = None,
    pace: ReflectorOptions | None = None,
    manner: Options | None = None,
    record: Path | None = None,
    native: bool = False,
) -> AsyncIterator[Manager]:
    """A manager at work, until the block ends. A policy that users brought runs in a process of its own."""
    with contextlib.ExitStack() as stack:
        if advisor is None and config.elastic_policy != FULFILMENT:
            advisor = in_thread(stack.enter_context(PolicyProcess(config.elastic_policy)))
        manager = Manager(
            cluster,
            config,
            clock=clock,
            advisor=advisor,
            pace=pace,
            manner=manner,
            record=record,
            native=native,
        )
        await publish(cluster, config)
        async with beside(manager.run()):
            yield manager


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Work that goes on beside a block, and ends with it; if it fails, the block ends with its failure."""
    owner, task = asyncio.current_task(), asyncio.get_running_loop().create_task(work)

    def failed() -> bool:
        return task.done() and not task.cancelled() and task.exception() is not None

    task.add_done_callback(lambda _: owner.cancel() if owner and failed() else None)
    try:
        yield
    except asyncio.CancelledError:
        if owner is None or not failed():
            raise
        owner.uncancel()  # it was we who asked for it; the failure itself is raised below
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
