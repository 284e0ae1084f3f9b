"""What is due by the clock alone comes about although nothing happens."""

import asyncio

from shoal.cluster.resources import NODES, PODS
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from tests.builders import dijob, pod, template
from tests.scheduler.cases import A, in_pool
from tests.scheduler.puppets import puppets
from tests.scheduler.scenes import Act, until
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, simulated

NEVER = "1000000s"
"""A period so long that no cycle comes of it."""


async def settle(one: Run, act: Act) -> float:
    """Wait for an act; when it had come about."""
    await one.stage.perform(act)
    await until(lambda: one.stage.missing(act), "it")
    return asyncio.get_running_loop().time()


def test_a_resized_job_grows_again_after_its_cooldown() -> None:
    async def main(one: Run) -> None:
        config = SchedulerConfig(cooldown="20s", optimise_period=NEVER, max_load=1)
        for thing in (in_pool("a", "n1", cpu=2), in_pool("b", "n2", cpu=1)):
            await one.stage.create({**thing, "spec": {"unschedulable": thing["metadata"]["name"] == "n2"}})
        clock = one.simulation.clock
        async with (
            running(one.store, config, clock=clock),
            run_nodes(one.store, clock),
            puppets(one.store, one.stage.namespace),
        ):
            job = dijob("d", template(cpu=1), replicas=(1, 3), preemptible=True)
            grown = await settle(one, Act(create=[job], says={"DIJob/d": {"replicas": 2}}))
            await one.store.patch(NODES, "n2", patch={"spec": {"unschedulable": False}})
            rested = await settle(one, Act(says={"DIJob/d": {"replicas": 3}}))
            assert 18 < rested - grown < 22

    simulated(main)


def test_the_rest_of_a_broken_gang_is_evicted_after_the_recovery_time() -> None:
    async def main(one: Run) -> None:
        config = SchedulerConfig(gang_recovery_seconds=30, optimise_period=NEVER)
        gang = [pod(f"g{i}", cpu=4, pool="a", gang="g", gang_min=2) for i in range(2)]
        for thing in (A, in_pool("a", "n1"), in_pool("a", "n2")):
            await one.stage.create(thing)
        clock = one.simulation.clock
        async with running(one.store, config, clock=clock), run_nodes(one.store, clock):
            await settle(one, Act(create=gang, on={"g0": "n1", "g1": "n2"}))
            await one.store.patch(NODES, "n2", patch={"spec": {"unschedulable": True}})
            begun = asyncio.get_running_loop().time()
            again = pod("g2", cpu=4, pool="a", gang="g", gang_min=2)
            given_up = await settle(one, Act(delete=[("Pod", "g1")], create=[again], gone=["g0", "g1"]))
            assert 28 < given_up - begun < 33
            left = (await one.store.list(PODS)).items
            assert [(p["metadata"]["name"], p["spec"].get("nodeName")) for p in left] == [("g2", None)]

    simulated(main)
