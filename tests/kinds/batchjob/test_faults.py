"""A Job has the same outcome whatever goes wrong: stale stores, and faults of all kinds."""

import asyncio
import os
import random
from typing import Any

import pytest

from shoal.cluster.port import Cluster
from shoal.cluster.resources import JOBS, NODES, Object
from shoal.kinds.batchjob.controller import job_controller
from shoal.simulator.chaos import ChaosOptions, random_schedule
from shoal.simulator.faults import FaultInjector
from shoal.simulator.process import run_with_restarts
from shoal.simulator.simulation import SimulatedCluster, Simulation, run
from tests.controllers.harness import delayed_watch, registry, run_controllers, run_runtime
from tests.controllers.virtual_time import run_virtual
from tests.kinds.batchjob.scenarios import outcome
from tests.kinds.batchjob.test_crashes import JOB_CASES, TEMPLATE, JobCase, PodRunner, until_finished

SEEDS = range(int(os.environ.get("SHOAL_SEEDS", "6")))


class Lagging:
    """A cluster whose watches are delayed, each resource by some seconds."""

    def __init__(self, cluster: Cluster, **seconds: float) -> None:
        self._cluster, self._seconds = cluster, seconds

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of the port
        return getattr(self._cluster, name)

    def watch(self, resource: Any, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - as the port has it
        watch = self._cluster.watch(resource, *arguments, **more)
        return delayed_watch(watch, self._seconds.get(resource.plural, 0.0))


async def start(store: Cluster, case: JobCase) -> tuple[PodRunner, asyncio.Task[None]]:
    """Create the Job of a case, and run its pods. Pods of a node that does not exist would be deleted."""
    await store.create(NODES, {"metadata": {"name": "n1"}})
    await store.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE} | case.spec})
    runner = PodRunner(store, case.fates)
    return runner, asyncio.create_task(runner.run())


async def finish(store: Cluster, runner: PodRunner, running: asyncio.Task[None]) -> Object:
    await until_finished(store)
    running.cancel()
    await asyncio.gather(*runner.ends)
    return await outcome(store, "default")


@pytest.mark.parametrize("pods, jobs", [(2.5, 0), (0, 2.5), (0.7, 3), (3, 0.7)])
@pytest.mark.parametrize("name", JOB_CASES)
def test_stores_that_lag_behind_each_other_do_no_harm(name: str, pods: float, jobs: float) -> None:
    case = JOB_CASES[name]

    async def scenario() -> Object:
        async with registry() as store:
            runner, running = await start(store, case)
            lagging: Any = Lagging(store, pods=pods, jobs=jobs)
            async with run_runtime(lagging, [job_controller]):
                return await finish(store, runner, running)

    end = run_virtual(scenario)
    assert end | case.end == end


def run_with_faults(case: JobCase, seed: int) -> tuple[Object, PodRunner, list[str]]:
    """Return the outcome of a Job with random faults, its pods, and the log of faults."""

    async def main(simulation: Simulation) -> tuple[Object, PodRunner, list[str]]:
        options = ChaosOptions(faults=30, seconds=90, calls=60)
        faults = FaultInjector(random_schedule(simulation.rng("faults"), options), simulation.clock)

        async def shoal(cluster: Cluster) -> None:
            await run_controllers(cluster, simulation.clock, random.Random(seed))

        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("home")) as store:
            runner, running = await start(store, case)
            working = asyncio.create_task(run_with_restarts(store, faults, shoal))
            end = await finish(store, runner, running)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            return end, runner, faults.log

    return run(main, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", JOB_CASES)
def test_faults_do_not_change_the_outcome(name: str, seed: int) -> None:
    case = JOB_CASES[name]
    end, runner, log = run_with_faults(case, seed)
    # A duplicated creation that arrives after its pod was deleted creates a surplus pod: it counts too.
    succeeded = max(runner.ended["Succeeded"], case.end.get("succeeded", 0))
    assert end | case.end | {"succeeded": succeeded} == end, "\n".join(log)
    assert end["failed"] == runner.ended["Failed"], "\n".join(log)
