"""Timers: cycles that only the clock makes due run although no object changes."""

import asyncio

from shoal.cluster.resources import NODES, PODS
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from tests.builders import dijob, pod, template
from tests.scheduler.cases import A, in_pool
from tests.scheduler.fake_controllers import run_fake_controllers
from tests.scheduler.scenarios import Step, until
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, simulated

NEVER = "1000000s"
"""A period longer than the test: it causes no cycle."""


async def settle(one: Run, step: Step) -> float:
    """Execute a step; return the time of its expected state."""
    await one.testbed.perform(step)
    await until(lambda: one.testbed.missing(step), "it")
    return asyncio.get_running_loop().time()


def test_a_resized_job_grows_again_after_its_cooldown() -> None:
    async def main(one: Run) -> None:
        config = SchedulerConfig(cooldown="20s", optimise_period=NEVER, max_load=1)
        for thing in (in_pool("a", "n1", cpu=2), in_pool("b", "n2", cpu=1)):
            await one.testbed.create({**thing, "spec": {"unschedulable": thing["metadata"]["name"] == "n2"}})
        clock = one.simulation.clock
        async with (
            running(one.store, config, clock=clock),
            run_nodes(one.store, clock),
            run_fake_controllers(one.store, one.testbed.namespace),
        ):
            job = dijob("d", template(cpu=1), replicas=(1, 3), preemptible=True)
            grown = await settle(one, Step(create=[job], statuses={"DIJob/d": {"replicas": 2}}))
            await one.store.patch(NODES, "n2", patch={"spec": {"unschedulable": False}})
            regrown = await settle(one, Step(statuses={"DIJob/d": {"replicas": 3}}))
            assert 18 < regrown - grown < 22

    simulated(main)


def test_the_rest_of_a_broken_gang_is_evicted_after_the_recovery_time() -> None:
    async def main(one: Run) -> None:
        config = SchedulerConfig(gang_recovery_seconds=30, optimise_period=NEVER)
        gang = [pod(f"g{i}", cpu=4, pool="a", gang="g", gang_min=2) for i in range(2)]
        for thing in (A, in_pool("a", "n1"), in_pool("a", "n2")):
            await one.testbed.create(thing)
        clock = one.simulation.clock
        async with running(one.store, config, clock=clock), run_nodes(one.store, clock):
            await settle(one, Step(create=gang, on={"g0": "n1", "g1": "n2"}))
            await one.store.patch(NODES, "n2", patch={"spec": {"unschedulable": True}})
            begun = asyncio.get_running_loop().time()
            again = pod("g2", cpu=4, pool="a", gang="g", gang_min=2)
            evicted = await settle(one, Step(delete=[("Pod", "g1")], create=[again], gone=["g0", "g1"]))
            assert 28 < evicted - begun < 33
            left = (await one.store.list(PODS)).items
            assert [(p["metadata"]["name"], p["spec"].get("nodeName")) for p in left] == [("g2", None)]

    simulated(main)
