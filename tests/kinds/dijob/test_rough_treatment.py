"""DIJobs under rough treatment, with all of Shoal in the simulated home: they end, and keep all promises."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from shoal.cluster.port import Selector
from shoal.cluster.resources import PODS, Object, resource_of
from shoal.simulator import FaultInjector
from tests.kinds.dijob.scenarios import di, task
from tests.kinds.homes import SimulatedNodesHome, simulate
from tests.kinds.scenarios import (
    Act,
    JobHome,
    JobScenario,
    cordon,
    create_object,
    delete_pods,
    delete_services,
    edit,
    end,
    lose_node,
    outcome,
    present_job,
    run_scenario,
    set_status,
    slot_of,
    together,
    wait_for_outcome,
    worker_template,
)

NODES = {"n1": 4, "n2": 4, "n3": 4}
JOBS = {
    "star": di(minReplicas=3, maxReplicas=5, backoffLimit=1000),
    "mesh": di(minReplicas=3, maxReplicas=5, backoffLimit=1000, engineFields={"topology": "mesh"}),
    "preemptible": di(minReplicas=2, maxReplicas=5, backoffLimit=1000, preemptible=True),
    "tasks": di(tasks=[task("learner", 1), task("collector", 3)], backoffLimit=1000),
}
CONFIG = {"nodeLostSeconds": 20, "optimisePeriod": "10s"}
EVENTS = 25


async def running_slots(home: JobHome) -> list[str]:
    pods = [pod for pod in await home.own_pods() if pod["status"].get("phase") == "Running"]
    return sorted({slot_of(pod, home.job) for pod in pods})


async def mistreat(home: JobHome, rng: random.Random) -> None:
    """Do one thing to the job, its pods or its nodes."""
    slots = await running_slots(home)
    some = rng.sample(slots, rng.randint(1, len(slots))) if slots else []
    acts: Sequence[Act] = (
        end(*some, code=rng.choice((1, 3, 137, 143))),
        end(*some, code=1),
        delete_pods(*some),
        delete_pods(*some, grace=0),
        delete_services(),
        vacate(rng.choice(list(NODES))),
        lose_node(rng.choice(list(NODES)), rng.choice((3.0, 60.0))),
        together(*(cordon(node, cordoned=False) for node in NODES)),
        resize(home.job, rng),
        edit(suspend=rng.random() < 0.3),
    )
    await rng.choice(acts)(home)
    await asyncio.sleep(rng.choice((0.1, 1.0, 10.0, 60.0)))


def vacate(node: str) -> Act:
    """Make a node unschedulable, and delete the job's pods on it, once."""

    async def act(home: JobHome) -> None:
        await cordon(node)(home)
        pods = [pod for pod in await home.own_pods() if pod["spec"].get("nodeName") == node]
        await delete_pods(*sorted({slot_of(pod, home.job) for pod in pods}))(home)

    return act


def resize(job: Object, rng: random.Random) -> Act:
    spec: dict[str, Any] = job["spec"]
    if "tasks" in spec:
        return edit(tasks=[task("learner", 1), task("collector", rng.randint(1, 4))])
    if spec.get("preemptible"):
        return set_status(requestedReplicas=rng.choice((None, 2, 3, 4, 5)))
    return set_status(replicas=rng.randint(1, 5))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", JOBS)
def test_a_job_survives_whatever_happens_to_its_pods_and_nodes(form: str, seed: int) -> None:
    violations: list[str] = []
    rng = random.Random(f"{form} {seed}")
    scenario = JobScenario(job=JOBS[form], begin={"phase": "Running"}, nodes=NODES, config=CONFIG)

    async def main(home: SimulatedNodesHome, _: FaultInjector) -> Object:
        await run_scenario(home, scenario)
        for _number in range(EVENTS):
            await mistreat(home, rng)
        await together(edit(suspend=False), *(cordon(node, cordoned=False) for node in NODES))(home)
        await asyncio.sleep(90)
        await wait_for_outcome(home, {"phase": "Running"}, "at last it runs")
        while (await present_outcome(home))["phase"] != "Succeeded":
            await end(*(await running_slots(home)))(home)
            await asyncio.sleep(5)
        return await outcome(home)

    last = simulate(scenario, main, violations, seed=seed)
    assert violations == []
    assert (last["conditions"], last["readyReplicas"], last["services"]) == (["Succeeded"], 0, 0)


async def present_outcome(home: JobHome) -> Object:
    job = await present_job(home)
    assert job
    return dict(job["status"])


def test_two_hundred_jobs_at_once() -> None:
    """They fit all at once; each runs and succeeds."""
    violations: list[str] = []
    scenario = JobScenario(job=di(), begin={}, nodes={f"n{i}": 64 for i in range(8)})

    async def main(home: SimulatedNodesHome, _: FaultInjector) -> int:
        for number in range(200):
            job = di(minReplicas=2, template=worker_template("100m"), preemptible=number % 2 == 0)
            await create_object(home, job | {"metadata": {"name": f"job-{number}"}})
        await all_in_phase(home, "Running")
        for pod in (await home.cluster.list(PODS, Selector(home.namespace))).items:
            await home.end_pod(pod, 0)
        await all_in_phase(home, "Succeeded")
        return len((await home.cluster.list(PODS, Selector(home.namespace))).items)

    assert simulate(scenario, main, violations) == 400
    assert violations == []


async def all_in_phase(home: JobHome, phase: str) -> None:
    async with asyncio.timeout(600):
        while True:
            jobs = (await home.cluster.list(resource_of("DIJob"), Selector(home.namespace))).items
            if all(job.get("status", {}).get("phase") == phase for job in jobs):
                return
            await asyncio.sleep(1)


def test_a_job_of_500_ranks() -> None:
    violations: list[str] = []
    job = di(minReplicas=500, engineFields={"topology": "alone"})
    whole = {"phase": "Running", "readyReplicas": 500, "failures": 0}
    scenario = JobScenario(
        job=job,
        begin=whole | {"generation": 0},
        nodes={"n1": 500},
        steps=[
            (delete_pods("7", "77", "499"), whole | {"generation": lambda number: number > 0}),
            (set_status(replicas=490), {"phase": "Running", "readyReplicas": 490}),
            (edit(suspend=True), {"phase": "Pending", "slots": {}}),
        ],
    )

    async def main(home: SimulatedNodesHome, _: FaultInjector) -> None:
        home.interval = 2.0
        await run_scenario(home, scenario)

    simulate(scenario, main, violations)
    assert violations == []
