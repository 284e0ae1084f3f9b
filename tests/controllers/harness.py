"""Controllers on a real registry and on virtual time, and a port whose writes can be made to fail."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from shoal.apiserver.registry.registry import Registry
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import ReflectorOptions, Reflectors
from shoal.controllers.manager import ControllerManager
from shoal.controllers.runtime import Controller, ControllerRuntime
from shoal.controllers.stores import Stores
from shoal.engine.config import SchedulerConfig
from shoal.manager import job_controllers
from tests.controllers.virtual_time import clock

Make = Callable[[Stores], Controller[Any]]
WRITES = ("create", "update", "patch", "patch_status", "delete", "evict", "bind")


class CrashError(BaseException):
    """Simulates a crash of the process: it is never caught."""


@dataclass
class ObservedPort:
    """A port that records writes, and calls hooks before and after each."""

    cluster: Cluster
    before: Callable[[str], object] = lambda _: None
    after: Callable[[str], object] = lambda _: None
    writes: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of the port
        method = getattr(self.cluster, name)
        return self._write(name, method) if name in WRITES else method

    def _write(self, verb: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - as the port has it
            resource = getattr(arguments[0], "plural", "pods")
            description = f"{verb} {resource}"
            self.before(description)
            result = await method(*arguments, **more)
            self.writes.append(description)
            self.after(description)
            return result

        return write

    def of(self, plural: str) -> list[str]:
        """The writes of a resource."""
        return [write for write in self.writes if write.endswith(f" {plural}")]


def observe(
    cluster: Cluster,
    before: Callable[[str], object] = lambda _: None,
    after: Callable[[str], object] = lambda _: None,
) -> tuple[ObservedPort, Cluster]:
    """Return an observed port, as itself and typed as a cluster."""
    port = ObservedPort(cluster, before, after)
    return port, cast("Cluster", port)


@asynccontextmanager
async def registry() -> AsyncIterator[Registry]:
    async with Registry(clock=clock, rng=random.Random(1)) as store:
        yield store


@asynccontextmanager
async def run_runtime(
    cluster: Cluster, makers: Sequence[Make], seed: int = 1
) -> AsyncIterator[ControllerRuntime]:
    """Run controllers on a cluster; at the end of the block they are cancelled, as by a crash."""
    stores, rng = Stores(), random.Random(seed)
    runtime = ControllerRuntime(cluster, stores, [make(stores) for make in makers], clock=clock, rng=rng)
    reflectors = Reflectors(cluster, ReflectorOptions(rng=rng))
    stores.follow(reflectors)
    following = asyncio.create_task(reflectors.run())
    await reflectors.synced()
    working = asyncio.create_task(runtime.run())
    try:
        yield runtime
    finally:
        for task in (working, following):
            task.cancel()
        await asyncio.gather(working, following, return_exceptions=True)


async def run_controllers(cluster: Cluster, clock: Callable[[], float], rng: random.Random) -> None:
    """Run all controllers on a cluster, with their reflectors, until cancelled."""
    reflectors = Reflectors(cluster, ReflectorOptions(rng=rng))
    manager = ControllerManager(
        cluster,
        reflectors,
        SchedulerConfig(),
        native=True,
        job_controllers=job_controllers(native=True),
        clock=clock,
        rng=rng,
    )
    following = asyncio.create_task(reflectors.run())
    try:
        await manager.run()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def settled(seconds: float = 5.0) -> None:
    """Wait until the controllers are idle."""
    await asyncio.sleep(seconds)


@asynccontextmanager
async def delayed_watch(watch: Any, seconds: float) -> AsyncIterator[AsyncIterator[Any]]:  # noqa: ANN401 - as the port has it
    """A watch that delivers each event some seconds after the one before."""

    async def delay(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in events:
            await asyncio.sleep(seconds)
            yield event

    async with watch as events:
        yield delay(events)
