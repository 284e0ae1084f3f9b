"""Shoal as it is to be: all of it in one process, which begins anew after every crash."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from shoal.cluster.port import Cluster
from shoal.cluster.reflector import ReflectorOptions
from shoal.engine.config import SchedulerConfig
from shoal.manager import Manager
from shoal.simulator import FaultInjector, SimulatedCluster, Simulation, run_with_restarts
from tests.soak.witness import Witness


def unhurried(dice: random.Random) -> ReflectorOptions:
    """A pace with long watches: those that end early are ended by faults."""
    return ReflectorOptions(rng=dice, min_watch_timeout=3600.0, max_watch_timeout=7200.0)


@asynccontextmanager
async def enduring(
    simulation: Simulation,
    store: SimulatedCluster,
    faults: FaultInjector,
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
            await run_with_restarts(store, faults, program)
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
