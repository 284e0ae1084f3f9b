"""Scheduler and controllers together on one cluster, from a Job to its end."""

import asyncio
import random

import pytest

from shoal.cluster.port import Cluster, Selector
from shoal.cluster.reflector import ReflectorOptions
from shoal.cluster.resources import BUDGETS, JOBS, NODES, PODS, Object, resource_of
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from tests.builders import node
from tests.controllers.harness import observe, registry, run_controllers
from tests.controllers.virtual_time import clock, run_virtual

CONTAINER = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [CONTAINER], "restartPolicy": "Never", "schedulerName": "shoal"},
}
JOB = {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE, "completions": 5, "parallelism": 3}}


async def run_pods(store: Cluster) -> None:
    """Simulate kubelets: pods with a node run, and running pods succeed."""
    next_phase = {"": "Running", "Pending": "Running", "Running": "Succeeded"}
    while True:
        await asyncio.sleep(5)
        for pod in (await store.list(PODS, Selector("default"))).items:
            phase = next_phase.get(pod["status"].get("phase", ""))
            if phase and pod["spec"].get("nodeName"):
                ready = [{"type": "Ready", "status": str(phase == "Running")}]
                await store.patch_status(
                    PODS,
                    pod["metadata"]["name"],
                    "default",
                    patch={"status": {"phase": phase, "conditions": ready}},
                )


def reflector_options() -> ReflectorOptions:
    return ReflectorOptions(rng=random.Random(1))


def test_a_job_is_created_scheduled_and_counted() -> None:
    async def scenario() -> tuple[Object, Object, Object]:
        async with registry() as store:
            await store.create(NODES, node("n1", cpu=2))
            await store.create(resource_of("Pool"), {"metadata": {"name": "default"}})
            budget = {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1}
            await store.create(BUDGETS, {"metadata": {"name": "b"}, "spec": budget})
            async with running(
                store, SchedulerConfig(), clock=clock, reflector_options=reflector_options(), native=True
            ):
                await store.create(JOBS, JOB)
                await asyncio.sleep(8)
                pool = (await store.get(resource_of("Pool"), "default"))["status"]
                kubelets = asyncio.create_task(run_pods(store))
                await asyncio.sleep(7)
                allowed = (await store.get(BUDGETS, "b", "default"))["status"]
                await asyncio.sleep(300)
                kubelets.cancel()
            return pool, allowed, (await store.get(JOBS, "j", "default"))["status"]

    pool, allowed, status = run_virtual(scenario)
    assert (pool["cpu"], pool["pendingPods"]) == ("2/2", 1)
    assert (allowed["currentHealthy"], allowed["disruptionsAllowed"]) == (2, 1)
    assert status["succeeded"] == 5
    assert status["conditions"][-1]["type"] == "Complete"


@pytest.mark.parametrize("native", [True, False], ids=["without Kubernetes' controllers", "with them"])
def test_controllers_of_kubernetes_kinds_run_only_if_native(native: bool) -> None:  # noqa: FBT001 - a case
    async def scenario() -> int:
        async with registry() as store:
            await store.create(JOBS, JOB)
            async with running(
                store, SchedulerConfig(), clock=clock, reflector_options=reflector_options(), native=native
            ):
                await asyncio.sleep(30)
            return len((await store.list(PODS)).items)

    assert run_virtual(scenario) == (3 if native else 0)


def test_stopping_finishes_the_writes_that_were_begun() -> None:
    async def scenario() -> tuple[int, int]:
        async with registry() as store:
            await store.create(JOBS, JOB)
            requested: list[str] = []
            creating = asyncio.Event()

            def before(write: str) -> None:
                requested.append(write)
                if write == "create pods":
                    creating.set()

            port, cluster = observe(store, before=before)
            working = asyncio.create_task(run_controllers(cluster, clock, random.Random(1)))
            await creating.wait()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            return requested.count("create pods"), port.writes.count("create pods")

    assert run_virtual(scenario) == (3, 3)
