"""All together: a scheduler and controllers on one cluster, from a Job to its end."""

import asyncio
import random

import pytest

from shoal.cluster.port import Cluster, Where
from shoal.cluster.reflector import ReflectorOptions
from shoal.cluster.resources import BUDGETS, JOBS, NODES, PODS, POOLS, Object
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from tests.builders import node
from tests.controllers.scenes import keep_house, registry, watched
from tests.controllers.virtual import clock, virtually

CONTAINER = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [CONTAINER], "restartPolicy": "Never", "schedulerName": "shoal"},
}
JOB = {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE, "completions": 5, "parallelism": 3}}


async def live(home: Cluster) -> None:
    """Play the lives of pods: those that have a node run, and those that have run succeed."""
    following = {"": "Running", "Pending": "Running", "Running": "Succeeded"}
    while True:
        await asyncio.sleep(5)
        for pod in (await home.list(PODS, Where("default"))).items:
            phase = following.get(pod["status"].get("phase", ""))
            if phase and pod["spec"].get("nodeName"):
                ready = [{"type": "Ready", "status": str(phase == "Running")}]
                await home.patch_status(
                    PODS,
                    pod["metadata"]["name"],
                    "default",
                    patch={"status": {"phase": phase, "conditions": ready}},
                )


def pace() -> ReflectorOptions:
    return ReflectorOptions(rng=random.Random(1))


def test_a_job_is_made_placed_counted_and_shown() -> None:
    async def scene() -> tuple[Object, Object, Object]:
        async with registry() as home:
            await home.create(NODES, node("n1", cpu=2))
            await home.create(POOLS, {"metadata": {"name": "default"}})
            budget = {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1}
            await home.create(BUDGETS, {"metadata": {"name": "b"}, "spec": budget})
            async with running(home, SchedulerConfig(), clock=clock, pace=pace(), native=True):
                await home.create(JOBS, JOB)
                await asyncio.sleep(8)
                pool = (await home.get(POOLS, "default"))["status"]
                living = asyncio.create_task(live(home))
                await asyncio.sleep(7)
                allowed = (await home.get(BUDGETS, "b", "default"))["status"]
                await asyncio.sleep(300)
                living.cancel()
            return pool, allowed, (await home.get(JOBS, "j", "default"))["status"]

    pool, allowed, status = virtually(scene)
    assert (pool["cpu"], pool["pendingPods"]) == ("2/2", 1)
    assert (allowed["currentHealthy"], allowed["disruptionsAllowed"]) == (2, 1)
    assert status["succeeded"] == 5
    assert status["conditions"][-1]["type"] == "Complete"


@pytest.mark.parametrize("native", [True, False], ids=["where they are needed", "where others do it"])
def test_kubernetes_own_kinds_are_looked_after_where_they_are_to_be(native: bool) -> None:  # noqa: FBT001 - a case
    async def scene() -> int:
        async with registry() as home:
            await home.create(JOBS, JOB)
            async with running(home, SchedulerConfig(), clock=clock, pace=pace(), native=native):
                await asyncio.sleep(30)
            return len((await home.list(PODS)).items)

    assert virtually(scene) == (3 if native else 0)


def test_whoever_is_told_to_stop_finishes_what_was_begun() -> None:
    async def scene() -> tuple[int, int]:
        async with registry() as home:
            await home.create(JOBS, JOB)
            begun: list[str] = []
            creating = asyncio.Event()

            def before(write: str) -> None:
                begun.append(write)
                if write == "create pods":
                    creating.set()

            port, cluster = watched(home, before=before)
            working = asyncio.create_task(keep_house(cluster, clock, random.Random(1)))
            await creating.wait()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            return begun.count("create pods"), port.writes.count("create pods")

    assert virtually(scene) == (3, 3)
