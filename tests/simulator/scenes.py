"""Simulated stores, and short ways to run something on one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from shoal.cluster.resources import Object
from shoal.simulator import AnyFault, Faults, Schedule, SimulatedCluster, Simulation, run

T = TypeVar("T")

Scene = Callable[[SimulatedCluster, Faults, Simulation], Awaitable[T]]


@asynccontextmanager
async def opened(simulation: Simulation) -> AsyncIterator[SimulatedCluster]:
    async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("store")) as store:
        yield store


def play(scene: Scene[T], *faults: AnyFault, seed: int = 0) -> T:
    """What a scene returns that is played on a new store, under a schedule."""

    async def main(simulation: Simulation) -> T:
        async with opened(simulation) as store:
            return await scene(store, Faults(Schedule(faults), simulation.clock), simulation)

    return run(main, seed=seed)


def config_map(name: str, **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def name_of(thing: Object) -> str:
    return str(thing["metadata"]["name"])
