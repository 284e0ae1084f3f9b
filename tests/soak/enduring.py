"""Shoal as it is to be: all of it in one process, which begins anew after every crash."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from shoal.cluster.port import Cluster
from shoal.cluster.reflector import Pace
from shoal.engine.config import SchedulerConfig
from shoal.manager import Manager
from shoal.simulator import Faults, SimulatedCluster, Simulation, lasting
from tests.soak.witness import Witness


def unhurried(dice: random.Random) -> Pace:
    """A pace with long watches: those that end early are ended by faults."""
    return Pace(dice=dice, shortest=3600.0, longest=7200.0)


@asynccontextmanager
async def enduring(
    simulation: Simulation,
    store: SimulatedCluster,
    faults: Faults,
    config: SchedulerConfig,
    witness: Witness,
) -> AsyncIterator[None]:
    """Shoal at work, until the block ends; that it ends by itself breaks a promise."""
    births = count()

    async def program(cluster: Cluster) -> None:
        pace = unhurried(simulation.dice(f"shoal {next(births)}"))
        await Manager(cluster, config, clock=simulation.clock, pace=pace, native=True).run()

    async def live() -> None:
        try:
            await lasting(store, faults, program)
        except Exception as error:  # noqa: BLE001 - whatever it is
            witness.breaks("shoal_lives_on", repr(error))
        else:
            witness.breaks("shoal_lives_on", "it has ended")

    task = asyncio.create_task(live())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
