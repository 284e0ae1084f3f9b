"""Whole managers on virtual time: killed, frozen, cut off, with writes that are delayed."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import pytest

from shoal.cluster.port import Cluster
from shoal.cluster.resources import PODS
from shoal.election.elector import Elector, electing
from shoal.election.leadership import Leadership
from shoal.election.lease import LeaseOptions
from shoal.engine.config import SchedulerConfig
from shoal.manager import Manager, run_in_terms, running
from shoal.simulator import (
    AnyFault,
    Connection,
    Crash,
    FaultInjector,
    Freeze,
    Outage,
    Schedule,
    Slow,
    run_with_restarts,
)
from tests.scheduler.cases import in_pool, small
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, simulated

OPTIONS = LeaseOptions()
MARGIN = OPTIONS.duration - OPTIONS.renew_deadline
"""How long a write may be delayed by the network without harm."""

T = TypeVar("T")

WRITES = frozenset({"create", "update", "patch", "patch_status", "delete", "bind", "evict"})


class WriteLog:
    """The cluster as one leadership sees it; logs its writes when they take effect."""

    def __init__(self, cluster: Cluster, term: int, log: list[int]) -> None:
        self._cluster, self._term, self._log = cluster, term, log

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a method of the port
        method = getattr(self._cluster, name)
        return partial(self._logged, method) if name in WRITES else method

    async def _logged(self, method: Callable[..., Awaitable[T]], *args: object, **more: object) -> T:
        result = await method(*args, **more)
        self._log.append(self._term)
        return result


class ManagedCluster:
    """Managers of one simulated cluster, and the leadership of each write, in the order of effect."""

    def __init__(self, one: Run) -> None:
        self.run = one
        self.writes: list[int] = []
        self.leaderships: list[Leadership] = []
        self.managers: list[Manager] = []

    def start(self, *faults: AnyFault) -> "asyncio.Task[None]":
        """Start a manager, as a process that is restarted after crashes, with faults of its own."""
        injector = FaultInjector(Schedule(faults), self.run.simulation.clock)

        async def program(cluster: Cluster) -> None:
            await run_in_terms(partial(self._term, cluster, injector))

        return asyncio.create_task(run_with_restarts(self.run.store, injector, program))

    @asynccontextmanager
    async def _term(self, cluster: Cluster, injector: FaultInjector) -> AsyncIterator[Leadership]:
        number, clock = len(self.leaderships), self.run.simulation.clock
        leadership = Leadership(asyncio.get_running_loop().time)
        self.leaderships.append(leadership)
        elector = Elector(
            cluster,
            leadership,
            OPTIONS,
            f"manager-{number}",
            now=asyncio.get_running_loop().time,
            clock=clock,
            rng=self.run.simulation.rng(f"elector-{number}"),
        )
        logged = WriteLog(self.run.store, number, self.writes)
        connection = Connection(logged, injector)
        async with (
            electing(elector),
            running(connection, SchedulerConfig(), clock=clock, leadership=leadership) as manager,
        ):
            self.managers.append(manager)
            yield leadership


def is_in_turns(terms: Sequence[int]) -> bool:
    """Whether no leadership writes again after another one has written."""
    turns = [term for index, term in enumerate(terms) if index == 0 or terms[index - 1] != term]
    return len(turns) == len(set(turns))


async def submit_and_wait(one: Run, count: int) -> None:
    """Submit pods one after another, and wait until all of them have run."""
    for number in range(count):
        await one.testbed.create(small(f"p{number}", "none", cpu=1 + number % 3))
        await asyncio.sleep(5)
        if number % 3 == 2:
            await finish_one(one)
    for _ in range(100):
        await asyncio.sleep(5)
        await finish_one(one)
        if all(pod["spec"].get("nodeName") for pod in one.store.list_now(PODS)):
            return
    waiting = [pod["metadata"]["name"] for pod in one.store.list_now(PODS) if not pod["spec"].get("nodeName")]
    raise AssertionError(f"never scheduled: {waiting}")


async def finish_one(one: Run) -> None:
    """Delete the first pod that runs, so that others get its room."""
    for pod in one.store.list_now(PODS):
        if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp"):
            await one.store.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
            return


def run_managers(*schedules: Sequence[AnyFault], pods: int = 24) -> ManagedCluster:
    """Schedule pods while managers have faults. `simulated` checks that no node is ever overcommitted."""

    async def main(one: Run) -> ManagedCluster:
        cluster = ManagedCluster(one)
        for name in ("n1", "n2"):
            await one.testbed.create(in_pool("a", name))
        tasks = [cluster.start(*faults) for faults in schedules]
        async with run_nodes(one.store, one.simulation.clock):
            await submit_and_wait(one, pods)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return cluster

    return simulated(main)


FAULTS: dict[str, list[AnyFault]] = {
    "killed": [Crash(at=20, down=200)],
    "frozen for a minute": [Freeze(at=20, seconds=60)],
    "cut off for a minute": [Outage(at=20, seconds=60)],
    "frozen while bindings are under way": [Slow(nth=2, on="bind", seconds=3), Freeze(at=20, seconds=60)],
    "frozen again and again": [Freeze(at=at, seconds=15) for at in range(20, 120, 20)],
}


@pytest.mark.parametrize("case", FAULTS)
def test_another_manager_goes_on_when_the_leader_is(case: str) -> None:
    cluster = run_managers(FAULTS[case], [])
    assert len(set(cluster.writes)) > 1, "another one has written"
    assert is_in_turns(cluster.writes)


def test_one_that_stands_by_is_ready_and_writes_nothing() -> None:
    cluster = run_managers([], [], pods=3)
    assert [manager.health().ready for manager in cluster.managers] == [True, True]
    assert set(cluster.writes) == {0}


@pytest.mark.parametrize("seed", range(6))
def test_random_faults_of_all_managers(seed: int) -> None:
    """Writes are delayed by less than the margin, as the lease times promise."""
    rng = random.Random(seed)
    cluster = run_managers(*([*random_faults(rng)] for _ in range(2)))
    assert is_in_turns(cluster.writes)


def random_faults(rng: random.Random) -> list[AnyFault]:
    def moment() -> float:
        return rng.uniform(5, 200)

    return [
        *(Freeze(at=moment(), seconds=rng.uniform(1, 40)) for _ in range(2)),
        *(Outage(at=moment(), seconds=rng.uniform(1, 40)) for _ in range(2)),
        *(Slow(at=moment(), on="write", seconds=rng.uniform(0, MARGIN)) for _ in range(10)),
        Crash(at=moment(), down=rng.uniform(1, 40)),
    ]


def test_turns() -> None:
    assert is_in_turns([0, 0, 1, 1, 2])
    assert not is_in_turns([0, 1, 0])
