"""An agent on a registry in memory, with real processes; tests bind the pods."""

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

TIMEOUT = 60.0
"""Seconds after which a wait fails."""
FAST_RESTART = RestartOptions(backoff=Backoff(0.05, 0.2), reset_after=600.0, retry_delay=0.05)
NODE = LocalNode(name="n1", cpu=8000, memory=2**33)
OTHER_NODE = LocalNode(name="n2", cpu=8000, memory=2**33)


def container(command: str, **more: object) -> Object:
    return {"name": "main", "image": "none", "command": ["/bin/sh", "-c", command], **more}


def pod(name: str, *containers: Object, **spec: object) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": list(containers), "restartPolicy": "Never", **spec},
    }


async def wait_for(poll: Callable[[], Awaitable[T]]) -> T:
    """Poll until the result is true; return it."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            if found := await poll():
                return found
            await asyncio.sleep(0.01)


class AgentHarness:
    """The registry and the agent, with operations for tests."""

    def __init__(self, registry: Registry, agent: Agent, home: Path) -> None:
        self.registry, self.agent, self.home = registry, agent, home

    async def submit(self, obj: Object, node: str = NODE.name) -> Object:
        made = await self.registry.create(PODS, obj)
        await self.registry.bind(made["metadata"]["name"], "default", node)
        return made

    async def wait_for_pod(self, name: str, holds: Callable[[Object], object]) -> Object:
        """Wait until a predicate holds for a pod; return the pod."""
        async with asyncio.timeout(TIMEOUT):
            async with self.registry.watch(PODS) as events:
                async for event in events:
                    obj = event.object
                    if obj and obj["metadata"]["name"] == name and event.type != "DELETED" and holds(obj):
                        return obj
        raise AssertionError("the watch ended")

    async def wait_for_phase(self, name: str, phase: str) -> Object:
        return await self.wait_for_pod(name, lambda obj: obj.get("status", {}).get("phase") == phase)

    async def wait_until_gone(self, name: str) -> None:
        async def is_gone() -> bool:
            return all(one["metadata"]["name"] != name for one in (await self.registry.list(PODS)).items)

        await wait_for(is_gone)

    async def wait_until(self, holds: Callable[[], object]) -> None:
        async def holds_now() -> object:
            return holds()

        await wait_for(holds_now)

    async def wait_for_event(self, reason: str) -> Object:
        """Wait for an Event of a reason."""

        async def found() -> list[Object]:
            return [one for one in (await self.registry.list(EVENTS)).items if one["reason"] == reason]

        return (await wait_for(found))[0]

    async def delete(self, name: str, grace: int | None = None) -> None:
        await self.registry.delete(PODS, name, "default", Deletion(grace=grace))

    def directory(self, obj: Object) -> Path:
        return self.home / "pods" / str(obj["metadata"]["uid"])


@contextlib.asynccontextmanager
async def running_agent(
    registry: Registry, home: Path, *nodes: LocalNode, restart: RestartOptions = FAST_RESTART
) -> AsyncIterator[AgentHarness]:
    """A running agent; containers continue to run after the block."""
    async with open_runtime(home) as runtime:
        agent = Agent(registry, runtime, home, nodes or (NODE,), restart=restart, heartbeat=0.2)
        task = asyncio.create_task(agent.run())
        try:
            async with asyncio.timeout(TIMEOUT):
                await agent.ready.wait()
            yield AgentHarness(registry, agent, home)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@contextlib.asynccontextmanager
async def agent_harness(
    home: Path, *nodes: LocalNode, restart: RestartOptions = FAST_RESTART
) -> AsyncIterator[AgentHarness]:
    """An agent on a home of its own; all containers are killed at the end."""
    async with Registry() as registry:
        try:
            async with running_agent(registry, home, *nodes, restart=restart) as made:
                yield made
        finally:
            await kill_all_containers(home)


async def kill_all_containers(home: Path) -> None:
    async with open_runtime(home) as runtime:
        runs = [run for uid in runtime.pods() for run in runtime.runs(uid) if run.exit is None]
        for run in runs:
            run.stop(0)
        for run in runs:
            await run.wait()
        for uid in runtime.pods():
            await runtime.remove(uid)
