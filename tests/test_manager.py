"""The manager: it stops in good order, and says how it is."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.cache.live import FOLLOWED
from shoal.cluster.resources import PODS, Resource
from shoal.engine.config import SchedulerConfig
from shoal.manager import Health, running
from shoal.scheduler.loop import Manner
from shoal.simulator import Connection, Refuse, Slow
from tests.k8s.processes import PATIENCE
from tests.scheduler.cases import in_pool, small
from tests.scheduler.simulations import Run, simulated


def after_a_stop(slow: float, patience: float) -> tuple[str, float]:
    """The node of a pod whose binding was under way when the manager was stopped, and how long it took to."""

    async def main(one: Run) -> tuple[str, float]:
        loop, cluster = asyncio.get_running_loop(), Connection(one.store, one.faults)
        await one.stage.create(in_pool("a", "n1"))
        manner = Manner(stop=patience)
        async with running(cluster, SchedulerConfig(), clock=one.simulation.clock, manner=manner) as manager:
            await manager.ready()
            await one.stage.create(small("p", "none"))
            await asyncio.sleep(1)
            told = loop.time()
        took = loop.time() - told
        pod = await one.store.get(PODS, "p", one.stage.namespace)
        return pod["spec"].get("nodeName", ""), took

    return simulated(main, Slow(nth=1, on="bind", seconds=slow))


def test_what_has_been_begun_is_finished_before_it_stops() -> None:
    node, took = after_a_stop(slow=5, patience=10)
    assert node == "n1"
    assert 3 < took < 6


def test_it_does_not_wait_for_ever() -> None:
    node, took = after_a_stop(slow=25, patience=10)
    assert node == ""
    assert 9 < took < 11


def test_it_says_how_it_is() -> None:
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


class Counting(Registry):
    """Counts how often each collection is watched."""

    def __init__(self) -> None:
        super().__init__()
        self.watched = Counter[str]()

    def watch(self, resource: Resource[Any], *arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - as the port has it
        self.watched[resource.full_name] += 1
        return super().watch(resource, *arguments, **more)


async def test_scheduler_and_controllers_hear_of_each_collection_through_one_watch() -> None:
    async with Counting() as registry, running(registry, SchedulerConfig(), native=True) as manager:
        async with asyncio.timeout(PATIENCE):
            await manager.ready()
            while len(registry.watched) <= len(FOLLOWED):  # noqa: ASYNC110 - and the leases of nodes
                await asyncio.sleep(0)
        assert set(registry.watched.values()) == {1}


# --- by halves ---------------------------------------------------------------------------------------------


class BrokenError(Exception):
    """Raised by a part that is broken."""


async def broken() -> None:
    raise BrokenError


async def wait_for_ever(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a manager one part of which does not work."""
    async with Registry() as registry, running(registry, SchedulerConfig()) as manager:
        monkeypatch.setattr(getattr(manager, part), "run", broken)
        await asyncio.Event().wait()


@pytest.mark.parametrize("part", ["reflectors", "house", "scheduler"])
async def test_it_does_not_go_on_without_a_part_of_it(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await wait_for_ever(part, monkeypatch)
    assert caught.group_contains(BrokenError)


async def test_what_goes_wrong_beside_it_is_told_as_it_is() -> None:
    async with Registry() as registry:
        with pytest.raises(BrokenError):
            async with running(registry, SchedulerConfig()):
                await broken()
