"""Controllers at work on a real registry, on virtual time, and a port that goes wrong when it is told to."""

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
from tests.controllers.virtual import clock

Make = Callable[[Stores], Controller[Any]]
WRITES = ("create", "update", "patch", "patch_status", "delete", "evict", "bind")


class CrashError(BaseException):
    """The process is gone: nobody catches this."""


@dataclass
class Watched:
    """A port that tells of every write, before and after it."""

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
            said = f"{verb} {resource}"
            self.before(said)
            result = await method(*arguments, **more)
            self.writes.append(said)
            self.after(said)
            return result

        return write

    def of(self, plural: str) -> list[str]:
        """The writes of a resource."""
        return [said for said in self.writes if said.endswith(f" {plural}")]


def watched(
    cluster: Cluster,
    before: Callable[[str], object] = lambda _: None,
    after: Callable[[str], object] = lambda _: None,
) -> tuple[Watched, Cluster]:
    """A watched port, once as itself and once as what it stands for."""
    port = Watched(cluster, before, after)
    return port, cast("Cluster", port)


@asynccontextmanager
async def registry() -> AsyncIterator[Registry]:
    async with Registry(clock=clock, dice=random.Random(1)) as home:
        yield home


@asynccontextmanager
async def at_work(
    cluster: Cluster, makers: Sequence[Make], seed: int = 1
) -> AsyncIterator[ControllerRuntime]:
    """Controllers that follow a cluster and work on it; at the end they are dropped where they are."""
    stores, dice = Stores(), random.Random(seed)
    runtime = ControllerRuntime(cluster, stores, [make(stores) for make in makers], clock=clock, dice=dice)
    reflectors = Reflectors(cluster, ReflectorOptions(rng=dice))
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


async def keep_house(cluster: Cluster, clock: Callable[[], float], dice: random.Random) -> None:
    """All controllers on a cluster, and what they need, until it is cancelled."""
    reflectors = Reflectors(cluster, ReflectorOptions(rng=dice))
    house = ControllerManager(cluster, reflectors, SchedulerConfig(), native=True, clock=clock, dice=dice)
    following = asyncio.create_task(reflectors.run())
    try:
        await house.run()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def settled(seconds: float = 5.0) -> None:
    """Let everything happen that wants to happen soon."""
    await asyncio.sleep(seconds)


@asynccontextmanager
async def late_watch(watch: Any, seconds: float) -> AsyncIterator[AsyncIterator[Any]]:  # noqa: ANN401 - as the port has it
    """A watch that tells of each event so many seconds after the one before."""

    async def late(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in events:
            await asyncio.sleep(seconds)
            yield event

    async with watch as events:
        yield late(events)
