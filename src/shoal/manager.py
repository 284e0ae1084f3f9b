"""The manager: puts the scheduler, its cache and the controllers together, and runs them on one cluster.

    async with running(cluster, SchedulerConfig()) as manager:
        await manager.ready()
        ...

It works on any implementation of the port, and does not depend on which one it is. With a `Leadership` it
stands by until it leads: reflectors run, and nothing is written.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.api import registry
from shoal.cache.live import LiveWorld, Texts
from shoal.cache.world import World
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import ReflectorOptions, Reflectors
from shoal.controllers.jobs.server_access import ServerAccess, with_server_access
from shoal.controllers.manager import ControllerFactory, ControllerManager
from shoal.controllers.runtime import Controller
from shoal.controllers.stores import Stores
from shoal.election.fence import FencedCluster
from shoal.election.leadership import Leadership
from shoal.engine.config import FULFILMENT, SchedulerConfig
from shoal.kinds.base import job_kinds
from shoal.policies.process import PolicyProcess
from shoal.scheduler.loop import Options, Scheduler
from shoal.scheduler.metrics import Metrics
from shoal.scheduler.policy_client import PolicyCall, call_in_thread
from shoal.scheduler.recording import CycleRecorder
from shoal.scheduler.settings import publish


class Health(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The health of a manager: whether its caches are synced, whether it leads, and its current errors.

    A manager that stands by is ready: it can take over at any moment.
    """

    ready: bool
    leading: bool
    cycles: int
    troubles: tuple[str, ...]
    unreadable: dict[str, str]
    """Objects that cannot be decoded and are ignored, and what is wrong with each."""


_RESTART_DELAY: Final = 1.0
"""Seconds between the end of a leadership and the start of the next manager."""

NOT_STARTED: Final = Health(ready=False, leading=False, cycles=0, troubles=(), unreadable={})


class Manager:
    """A scheduler with its cache, and controllers, on one cluster; they share reflectors."""

    def __init__(  # noqa: PLR0913 - all but two have defaults
        self,
        cluster: Cluster,
        config: SchedulerConfig,
        *,
        clock: Callable[[], float] = time.time,
        policy_call: PolicyCall | None = None,
        reflector_options: ReflectorOptions | None = None,
        scheduler_options: Options | None = None,
        record: Path | None = None,
        keep: int = 100,
        native: bool = False,
        server: ServerAccess | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        """Put the parts together; `run` starts them.

        `record`: a directory to which the last `keep` cycles are written. `native`: run controllers for
        Kubernetes' own kinds too (Jobs, disruption budgets) and judge nodes by their heartbeats, as is
        needed wherever Kubernetes' own controllers do not run. `server`: the DI server, to which the pods of
        jobs get access. `leadership`: write only while it is held; without one this manager always leads.
        """
        self.leadership: Final = leadership
        if leadership:
            cluster = FencedCluster(cluster, leadership)
        self._cluster, self._config = cluster, config
        self.metrics: Final = Metrics()
        self.metrics.leader.set_function(lambda: self.is_leading)
        world, texts = World(clock()), Texts()
        self.reflectors: Final = Reflectors(cluster, reflector_options)
        self.live: Final = LiveWorld(self.reflectors, world, texts=None if record is None else texts)
        self.controllers: Final = ControllerManager(
            cluster,
            self.reflectors,
            config,
            native=native,
            job_controllers=job_controllers(native=native, server=server),
            clock=clock,
            rng=reflector_options.rng if reflector_options else None,
            registry=self.metrics.registry,
        )
        self.scheduler: Final = Scheduler(
            cluster,
            self.live,
            config,
            clock=clock,
            policy_call=policy_call,
            metrics=self.metrics,
            options=scheduler_options,
            recorder=None if record is None else CycleRecorder(record, world, texts, keep=keep),
            publish=self.controllers.pool_statuses.publish,
        )

    async def run(self) -> None:
        """Run until cancelled. Writes in progress are finished first, while the cache is kept current."""
        async with asyncio.TaskGroup() as group:  # if one fails, all end
            reflecting = group.create_task(self.reflectors.run())
            try:
                if self.leadership:
                    await self.leadership.begun()
                    await publish(self._cluster, self._config)
                await self._lead(group)
            finally:
                reflecting.cancel()

    async def _lead(self, group: asyncio.TaskGroup) -> None:
        reconciling = group.create_task(self.controllers.run())
        try:
            await self.scheduler.run()
        finally:
            reconciling.cancel()
            await asyncio.wait([reconciling])

    @property
    def is_leading(self) -> bool:
        """Whether this manager may write now."""
        return self.leadership is None or self.leadership.is_held

    async def ready(self) -> None:
        """Wait until all collections have been listed once."""
        await self.reflectors.synced()

    def health(self) -> Health:
        """Return the current health."""
        return Health(
            ready=self.reflectors.is_synced,
            leading=self.is_leading,
            cycles=self.scheduler.cycles,
            troubles=tuple(error.message for error in self.reflectors.errors),
            unreadable={
                "/".join((kind, *filter(None, key))): problem
                for (kind, key), problem in self.live.unreadable.items()
            },
        )


def job_controllers(*, native: bool, server: ServerAccess | None = None) -> list[ControllerFactory]:
    """Return the controllers of all job kinds; of Kubernetes' own kinds only if `native`."""
    own = {kind.kind for kind in registry.kinds()}
    wanted = (kind for name, kind in job_kinds().items() if native or name in own)
    return [
        partial(_with_access, kind.controller, server) if server and kind.reports else kind.controller
        for kind in wanted
    ]


def _with_access(
    factory: ControllerFactory, server: ServerAccess, stores: Stores, config: SchedulerConfig
) -> Controller[Any] | None:
    controller = factory(stores, config)
    return controller and with_server_access(controller, server)


@asynccontextmanager
async def running(  # noqa: PLR0913 - the parameters of the manager
    cluster: Cluster,
    config: SchedulerConfig,
    *,
    clock: Callable[[], float] = time.time,
    policy_call: PolicyCall | None = None,
    reflector_options: ReflectorOptions | None = None,
    scheduler_options: Options | None = None,
    record: Path | None = None,
    native: bool = False,
    server: ServerAccess | None = None,
    leadership: Leadership | None = None,
) -> AsyncIterator[Manager]:
    """Run a manager until the block ends. An elastic policy of users runs in a process of its own."""
    with contextlib.ExitStack() as stack:
        if policy_call is None and config.elastic_policy != FULFILMENT:
            policy_call = call_in_thread(stack.enter_context(PolicyProcess(config.elastic_policy)))
        manager = Manager(
            cluster,
            config,
            clock=clock,
            policy_call=policy_call,
            reflector_options=reflector_options,
            scheduler_options=scheduler_options,
            record=record,
            native=native,
            server=server,
            leadership=leadership,
        )
        if leadership is None:
            await publish(cluster, config)
        async with in_background(manager.run()):
            yield manager


async def run_in_terms(term: Callable[[], AbstractAsyncContextManager[Leadership]]) -> None:
    """Run one manager after another: when its leadership has ended, a new one stands by, without its state.

    `term` runs a manager and its elector. Runs until cancelled.
    """
    while True:
        async with term() as leadership:
            await leadership.ended()
        await asyncio.sleep(_RESTART_DELAY)


@asynccontextmanager
async def in_background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run a coroutine until the block ends; if it fails, the block is cancelled and the failure raised."""
    owner, task = asyncio.current_task(), asyncio.get_running_loop().create_task(work)

    def failed() -> bool:
        return task.done() and not task.cancelled() and task.exception() is not None

    task.add_done_callback(lambda _: owner.cancel() if owner and failed() else None)
    try:
        yield
    except asyncio.CancelledError:
        if owner is None or not failed():
            raise
        owner.uncancel()  # the callback above cancelled it; the failure itself is raised below
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
