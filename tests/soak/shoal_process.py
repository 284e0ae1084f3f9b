"""Shoal in one simulated process, which is restarted after every crash."""

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
from tests.soak.checker import InvariantChecker


def long_watches(rng: random.Random) -> ReflectorOptions:
    """Reflector options with long watches: those that end early are ended by faults."""
    return ReflectorOptions(rng=rng, min_watch_timeout=3600.0, max_watch_timeout=7200.0)


@asynccontextmanager
async def run_shoal(
    simulation: Simulation,
    store: SimulatedCluster,
    faults: FaultInjector,
    config: SchedulerConfig,
    checker: InvariantChecker,
) -> AsyncIterator[None]:
    """Run Shoal until the block ends; it is a violation if it ends by itself."""
    starts = count()

    async def program(cluster: Cluster) -> None:
        options = long_watches(simulation.rng(f"shoal {next(starts)}"))
        await Manager(cluster, config, clock=simulation.clock, reflector_options=options, native=True).run()

    async def run_process() -> None:
        try:
            await run_with_restarts(store, faults, program)
        except Exception as error:  # noqa: BLE001 - whatever it is
            checker.report_violation("shoal_keeps_running", repr(error))
        else:
            checker.report_violation("shoal_keeps_running", "it has ended")

    task = asyncio.create_task(run_process())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
