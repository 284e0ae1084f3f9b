"""Simulated clusters for tests, and a function that runs a test on one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from shoal.cluster.resources import Object
from shoal.simulator import AnyFault, FaultInjector, Schedule, SimulatedCluster, Simulation, run

T = TypeVar("T")

Test = Callable[[SimulatedCluster, FaultInjector, Simulation], Awaitable[T]]


@asynccontextmanager
async def open_store(simulation: Simulation) -> AsyncIterator[SimulatedCluster]:
    async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
        yield store


def run_test(test: Test[T], *faults: AnyFault, seed: int = 0) -> T:
    """Run a test on a new store with scheduled faults, and return its result."""

    async def main(simulation: Simulation) -> T:
        async with open_store(simulation) as store:
            return await test(store, FaultInjector(Schedule(faults), simulation.clock), simulation)

    return run(main, seed=seed)


def config_map(name: str, **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def name_of(thing: Object) -> str:
    return str(thing["metadata"]["name"])
