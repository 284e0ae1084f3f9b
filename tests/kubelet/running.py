"""An agent at work on a registry in memory, with real processes; pods are bound by the test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from shoal.apiserver.registry.registry import Registry
from shoal.cluster.backoff import Backoff
from shoal.cluster.port import Deletion
from shoal.cluster.resources import EVENTS, PODS, Object
from shoal.kubelet.agent import Agent
from shoal.kubelet.lifecycle import RestartOptions
from shoal.kubelet.nodes import LocalNode
from shoal.kubelet.runtime import open_runtime

T = TypeVar("T")

LONG = 60.0
"""Seconds after which what has not come will not come."""
QUICK = RestartOptions(backoff=Backoff(0.05, 0.2), reset_after=600.0, retry_delay=0.05)
NODE = LocalNode(name="n1", cpu=8000, memory=2**33)
OTHER = LocalNode(name="n2", cpu=8000, memory=2**33)


def container(command: str, **more: object) -> Object:
    return {"name": "main", "image": "none", "command": ["/bin/sh", "-c", command], **more}


def pod(name: str, *containers: Object, **spec: object) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": list(containers), "restartPolicy": "Never", **spec},
    }


async def until(look: Callable[[], Awaitable[T]]) -> T:
    """What is found when one looks, as soon as it is something."""
    async with asyncio.timeout(LONG):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.01)


class Scene:
    """The registry, the agent, and what a test does with them."""

    def __init__(self, registry: Registry, agent: Agent, home: Path) -> None:
        self.registry, self.agent, self.home = registry, agent, home

    async def submit(self, thing: Object, node: str = NODE.name) -> Object:
        made = await self.registry.create(PODS, thing)
        await self.registry.bind(made["metadata"]["name"], "default", node)
        return made

    async def until(self, name: str, holds: Callable[[Object], object]) -> Object:
        """The pod, as soon as something holds for it."""
        async with asyncio.timeout(LONG):
            async with self.registry.watch(PODS) as events:
                async for event in events:
                    thing = event.object
                    if (
                        thing
                        and thing["metadata"]["name"] == name
                        and event.type != "DELETED"
                        and holds(thing)
                    ):
                        return thing
        raise AssertionError("the watch ended")

    async def phase(self, name: str, phase: str) -> Object:
        return await self.until(name, lambda thing: thing.get("status", {}).get("phase") == phase)

    async def gone(self, name: str) -> None:
        async def is_gone() -> bool:
            return all(one["metadata"]["name"] != name for one in (await self.registry.list(PODS)).items)

        await until(is_gone)

    async def eventually(self, holds: Callable[[], object]) -> None:
        async def holds_now() -> object:
            return holds()

        await until(holds_now)

    async def told(self, reason: str) -> Object:
        """An Event of this reason, once there is one."""

        async def found() -> list[Object]:
            return [one for one in (await self.registry.list(EVENTS)).items if one["reason"] == reason]

        return (await until(found))[0]

    async def delete(self, name: str, grace: int | None = None) -> None:
        await self.registry.delete(PODS, name, "default", Deletion(grace=grace))

    def directory(self, thing: Object) -> Path:
        return self.home / "pods" / str(thing["metadata"]["uid"])


@contextlib.asynccontextmanager
async def agent_on(
    registry: Registry, home: Path, *machines: LocalNode, restart: RestartOptions = QUICK
) -> AsyncIterator[Scene]:
    """An agent at work; what runs goes on when the block ends."""
    async with open_runtime(home) as runtime:
        agent = Agent(registry, runtime, home, machines or (NODE,), restart=restart, heartbeat=0.2)
        task = asyncio.create_task(agent.run())
        try:
            async with asyncio.timeout(LONG):
                await agent.ready.wait()
            yield Scene(registry, agent, home)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@contextlib.asynccontextmanager
async def scene(home: Path, *machines: LocalNode, restart: RestartOptions = QUICK) -> AsyncIterator[Scene]:
    """A home of its own; nothing runs any more at the end."""
    async with Registry() as registry:
        try:
            async with agent_on(registry, home, *machines, restart=restart) as made:
                yield made
        finally:
            await kill_everything(home)


async def kill_everything(home: Path) -> None:
    async with open_runtime(home) as runtime:
        runs = [run for uid in runtime.pods() for run in runtime.runs(uid) if run.exit is None]
        for run in runs:
            run.stop(0)
        for run in runs:
            await run.wait()
        for uid in runtime.pods():
            await runtime.remove(uid)
