"""Simulated runs of the scheduler: with scheduled faults, and a check of every write."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from shoal.apiserver.registry.records import Change
from shoal.cluster.port import Cluster
from shoal.cluster.resources import NODES, PODS, Object
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from shoal.simulator import (
    AnyFault,
    FaultInjector,
    Schedule,
    SimulatedCluster,
    Simulation,
    run,
    run_with_restarts,
)
from tests.scheduler.scenarios import ClusterTestbed, Shoal, new_testbed

T = TypeVar("T")


@dataclass
class Run:
    """A simulated run: its cluster, and Shoal, which is restarted after crashes."""

    simulation: Simulation
    store: SimulatedCluster
    testbed: ClusterTestbed
    faults: FaultInjector

    @property
    def shoal(self) -> Shoal:
        return partial(restarting, self)


def simulated(main: Callable[[Run], Coroutine[Any, Any, T]], *faults: AnyFault, seed: int = 1) -> T:
    """Run `main` in a simulated home; fails if a node is ever overcommitted."""

    async def with_store(simulation: Simulation) -> T:
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            store.commit_observers.append(partial(check_no_overcommit, store))
            testbed = await new_testbed(store, simulation.clock)
            return await main(
                Run(simulation, store, testbed, FaultInjector(Schedule(faults), simulation.clock))
            )

    return run(with_store, seed=seed)


@asynccontextmanager
async def restarting(one: Run, cluster: Cluster, config: SchedulerConfig) -> AsyncIterator[None]:
    """Run Shoal, and restart it after every crash."""

    async def program(connection: Cluster) -> None:
        async with running(connection, config, clock=one.simulation.clock):
            await asyncio.Event().wait()

    task = asyncio.create_task(run_with_restarts(cluster, one.faults, program))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def check_no_overcommit(store: SimulatedCluster, _: Sequence[Change]) -> None:
    """Assert that the pods on each node fit it."""
    has = {
        node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"]) for node in store.list_now(NODES)
    }
    used: Counter[str] = Counter()
    for pod in store.list_now(PODS):
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            used[pod["spec"]["nodeName"]] += _cpus(pod)
    assert not {node: cpus for node, cpus in used.items() if node in has and cpus > has[node]}


def _cpus(pod: Object) -> int:
    return sum(int(c["resources"].get("requests", {}).get("cpu", 0)) for c in pod["spec"]["containers"])
