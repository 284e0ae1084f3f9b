"""The manager: it stops cleanly, and reports its health."""

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.cache.live import followed
from shoal.cluster.resources import PODS, Resource
from shoal.engine.config import SchedulerConfig
from shoal.manager import Health, running
from shoal.scheduler.loop import Options
from shoal.simulator import Connection, Refuse, Slow
from tests.k8s.processes import TIMEOUT
from tests.scheduler.cases import in_pool, small
from tests.scheduler.simulations import Run, simulated


def stop_during_binding(slow: float, timeout: float) -> tuple[str, float]:
    """Stop a manager during a slow binding; return the node of the pod, and how long the stop took."""

    async def main(one: Run) -> tuple[str, float]:
        loop, cluster = asyncio.get_running_loop(), Connection(one.store, one.faults)
        await one.testbed.create(in_pool("a", "n1"))
        options = Options(stop=timeout)
        async with running(
            cluster, SchedulerConfig(), clock=one.simulation.clock, scheduler_options=options
        ) as manager:
            await manager.ready()
            await one.testbed.create(small("p", "none"))
            await asyncio.sleep(1)
            stopped = loop.time()
        took = loop.time() - stopped
        pod = await one.store.get(PODS, "p", one.testbed.namespace)
        return pod["spec"].get("nodeName", ""), took

    return simulated(main, Slow(nth=1, on="bind", seconds=slow))


def test_writes_that_were_begun_are_finished_before_it_stops() -> None:
    node, took = stop_during_binding(slow=5, timeout=10)
    assert node == "n1"
    assert 3 < took < 6


def test_stopping_has_a_timeout() -> None:
    node, took = stop_during_binding(slow=25, timeout=10)
    assert node == ""
    assert 9 < took < 11


def test_health() -> None:
    async def main(one: Run) -> tuple[Health, Health]:
        cluster = Connection(one.store, one.faults)
        async with running(cluster, SchedulerConfig(), clock=one.simulation.clock) as manager:
            before = manager.health()
            await manager.ready()
            await asyncio.sleep(1)
            return before, manager.health()

    before, after = simulated(main, Refuse(nth=1, on="list pods", code=500))
    assert (before.ready, before.cycles) == (False, 0)
    assert after.ready
    assert after.cycles > 0
    assert (after.troubles, after.unreadable) == ((), {})


class CountingRegistry(Registry):
    """Counts how often each collection is watched."""

    def __init__(self) -> None:
        super().__init__()
        self.watched = Counter[str]()

    def watch(self, resource: Resource[Any], *arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - as the port has it
        self.watched[resource.full_name] += 1
        return super().watch(resource, *arguments, **more)


async def test_scheduler_and_controllers_share_one_watch_per_collection() -> None:
    async with CountingRegistry() as registry, running(registry, SchedulerConfig(), native=True) as manager:
        async with asyncio.timeout(TIMEOUT):
            await manager.ready()
            while len(registry.watched) <= len(followed()):  # noqa: ASYNC110 - and the leases of nodes
                await asyncio.sleep(0)
        assert set(registry.watched.values()) == {1}


def test_failures_and_their_end_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main(one: Run) -> None:
        cluster = Connection(one.store, one.faults)
        await one.testbed.create(in_pool("a", "n1"))
        async with running(cluster, SchedulerConfig(), clock=one.simulation.clock) as manager:
            await manager.ready()
            await one.testbed.create(small("p", "none"))
            await asyncio.sleep(100)

    caplog.set_level(logging.INFO)
    simulated(main, Refuse(nth=1, on="bind", code=503), Refuse(nth=1, on="event pods", code=500))
    for failure, end in (
        ("a request got no answer", "no request is without an answer any more"),
        ("pods: simulated: InternalError", "pods: followed again"),
    ):
        (first,) = (index for index, line in enumerate(caplog.messages) if failure in line)
        assert end in caplog.messages[first:]


# --- failures -----------------------------------------------------------------------------------------------


class BrokenError(Exception):
    """Raised by a broken part."""


async def broken() -> None:
    raise BrokenError


async def run_with_broken(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a manager with one broken part."""
    async with Registry() as registry, running(registry, SchedulerConfig()) as manager:
        monkeypatch.setattr(getattr(manager, part), "run", broken)
        await asyncio.Event().wait()


@pytest.mark.parametrize("part", ["reflectors", "controllers", "scheduler"])
async def test_a_failing_part_ends_the_manager(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await run_with_broken(part, monkeypatch)
    assert caught.group_contains(BrokenError)


async def test_an_exception_of_the_block_is_raised_unchanged() -> None:
    async with Registry() as registry:
        with pytest.raises(BrokenError):
            async with running(registry, SchedulerConfig()):
                await broken()
