"""A Job comes to the same end through whatever goes wrong: caches that lag, and faults of all kinds."""

import asyncio
import os
import random
from typing import Any

import pytest

from shoal.cluster.port import Cluster
from shoal.cluster.resources import JOBS, Object
from shoal.kinds.batchjob.reconcile import job_controller
from shoal.simulator.chaos import Extent, random_schedule
from shoal.simulator.faults import Faults
from shoal.simulator.process import lasting
from shoal.simulator.simulation import SimulatedCluster, Simulation, run
from tests.controllers.scenes import at_work, keep_house, late_watch, registry
from tests.controllers.virtual import virtually
from tests.kinds.batchjob.scenarios import outcome
from tests.kinds.batchjob.test_crashes import STORIES, TEMPLATE, Life, Story, until_over

SEEDS = range(int(os.environ.get("SHOAL_SEEDS", "6")))


class Lagging:
    """A cluster whose watches tell late, each resource by so many seconds."""

    def __init__(self, cluster: Cluster, **seconds: float) -> None:
        self._cluster, self._seconds = cluster, seconds

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of the port
        return getattr(self._cluster, name)

    def watch(self, resource: Any, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - as the port has it
        watch = self._cluster.watch(resource, *arguments, **more)
        return late_watch(watch, self._seconds.get(resource.plural, 0.0))


async def lived(home: Cluster, story: Story) -> tuple[Life, asyncio.Task[None]]:
    """The Job of a story, and the lives of its pods."""
    await home.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE} | story.spec})
    life = Life(home, story.fates)
    return life, asyncio.create_task(life.go_on())


async def ended(home: Cluster, life: Life, living: asyncio.Task[None]) -> Object:
    await until_over(home)
    living.cancel()
    await asyncio.gather(*life.ends)
    return await outcome(home, "default")


@pytest.mark.parametrize("pods, jobs", [(2.5, 0), (0, 2.5), (0.7, 3), (3, 0.7)])
@pytest.mark.parametrize("name", STORIES)
def test_caches_that_lag_behind_each_other_lead_nobody_astray(name: str, pods: float, jobs: float) -> None:
    story = STORIES[name]

    async def scene() -> Object:
        async with registry() as home:
            life, living = await lived(home, story)
            lagging: Any = Lagging(home, pods=pods, jobs=jobs)
            async with at_work(lagging, [job_controller]):
                return await ended(home, life, living)

    end = virtually(scene)
    assert end | story.end == end


def troubled(story: Story, seed: int) -> tuple[Object, Life, list[str]]:
    """The end of a story that is full of trouble, what its pods met with, and the trouble."""

    async def main(simulation: Simulation) -> tuple[Object, Life, list[str]]:
        extent = Extent(faults=30, seconds=90, calls=60)
        faults = Faults(random_schedule(simulation.dice("faults"), extent), simulation.clock)

        async def shoal(cluster: Cluster) -> None:
            await keep_house(cluster, simulation.clock, random.Random(seed))

        async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("home")) as home:
            life, living = await lived(home, story)
            working = asyncio.create_task(lasting(home, faults, shoal))
            end = await ended(home, life, living)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            return end, life, faults.story

    return run(main, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", STORIES)
def test_faults_change_nothing_in_the_end(name: str, seed: int) -> None:
    story = STORIES[name]
    end, life, trouble = troubled(story, seed)
    # A creation that arrives again when its pod has come and gone makes one pod too many: it counts too.
    succeeded = max(life.ended["Succeeded"], story.end.get("succeeded", 0))
    assert end | story.end | {"succeeded": succeeded} == end, "\n".join(trouble)
    assert end["failed"] == life.ended["Failed"], "\n".join(trouble)
