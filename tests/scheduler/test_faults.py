"""Writes that are slow, refused or lost: they delay no other pod, and no room is allocated twice."""

import asyncio

from shoal.cluster.resources import PODS, Object
from shoal.engine.config import SchedulerConfig
from shoal.simulator import Duplicate, Refuse, Slow
from tests.builders import batch_job, open_pool, pod_of, template
from tests.scheduler.cases import CLASSES, HIGH, LOW, A, B, in_pool, small
from tests.scheduler.scenarios import Step, until
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, simulated

LONG = 1000.0
"""Seconds of virtual time, more than anything else in these tests takes."""


def seconds_until(step: Step, *faults: Refuse | Slow | Duplicate, objects: list[Object]) -> float:
    """Execute a step; return the seconds until its expected state."""

    async def main(one: Run) -> float:
        for thing in objects:
            await one.testbed.create(thing)
        async with one.shoal(one.store, SchedulerConfig()), run_nodes(one.store, one.simulation.clock):
            await one.testbed.perform(step)
            await until(lambda: one.testbed.missing(step), "it")
            return asyncio.get_running_loop().time()

    return simulated(main, *faults)


def test_a_slow_write_delays_no_other_pod() -> None:
    step = Step(create=[small("a1", "a"), small("a2", "a"), small("b1", "b")], on={"a2": "n1", "b1": "n2"})
    objects = [A, B, in_pool("a", "n1"), in_pool("b", "n2")]
    assert seconds_until(step, Slow(nth=1, on="bind", seconds=LONG), objects=objects) < LONG


def test_the_room_of_a_slow_write_is_not_given_away() -> None:
    step = Step(create=[small("a1", "a", cpu=4), small("a2", "a", cpu=4)], waits={"a2": "pool a"})
    took = seconds_until(step, Slow(nth=1, on="bind", seconds=20), objects=[A, in_pool("a", "n1")])
    assert took < 20


def test_a_pod_whose_binding_is_refused_backs_off_while_another_takes_the_room() -> None:
    step = Step(
        create=[small("a1", "a", cpu=4), small("a2", "a", cpu=4)],
        on={"a2": "n1"},
        waits={"a1": "pool a"},
    )
    seconds_until(step, Refuse(nth=1, on="bind", code=409), objects=[A, in_pool("a", "n1")])


def test_a_refused_write_is_planned_again() -> None:
    step = Step(create=[small("a1", "a")], on={"a1": "n1"})
    faults = [Refuse(nth=nth, on="bind", code=409) for nth in (1, 2, 3)]
    seconds_until(step, *faults, objects=[A, in_pool("a", "n1")])


def test_a_binding_whose_answer_was_lost_counts_as_made() -> None:
    step = Step(
        create=[small("a1", "a", cpu=4), small("a2", "a", cpu=4)], on={"a1": "n1"}, waits={"a2": "pool a"}
    )
    for code in (409, 500, 503):
        seconds_until(
            step, Refuse(nth=1, on="bind", code=code, applied=True), objects=[A, in_pool("a", "n1")]
        )


def test_no_pod_is_evicted_before_the_nomination_of_its_beneficiary_is_written() -> None:
    async def main(one: Run) -> list[Object]:
        for thing in (A, open_pool("b"), in_pool("a", "n1"), small("f", "b", cpu=4, on="n1")):
            await one.testbed.create(thing)
        seen: list[Object] = []
        one.store.commit_observers.append(lambda _: seen.extend(one.store.list_now(PODS)))
        async with one.shoal(one.store, SchedulerConfig()), run_nodes(one.store, one.simulation.clock):
            step = Step(create=[small("a1", "a", cpu=4)], on={"a1": "n1"}, gone=["f"])
            await one.testbed.perform(step)
            await until(lambda: one.testbed.missing(step), "the room is reclaimed in the end")
        return seen

    seen = simulated(main, Refuse(nth=1, on="patch_status pods", code=409))
    nominated = False
    for pod in seen:
        name, meta = pod["metadata"]["name"], pod["metadata"]
        nominated = nominated or (name == "a1" and pod["status"].get("nominatedNodeName") == "n1")
        assert nominated or name != "f" or "deletionTimestamp" not in meta
    assert nominated


def test_pods_that_do_not_exist_yet_neither_evict_nor_reserve() -> None:
    async def main(one: Run) -> None:
        clock = one.simulation.clock
        for thing in (*CLASSES, in_pool("a", "n1"), small("low", "none", on="n1", priority=LOW)):
            await one.testbed.create(thing)
        async with one.shoal(one.store, SchedulerConfig()), run_nodes(one.store, clock):
            await one.testbed.create(batch_job("j", template(cpu=4, priority=HIGH)))
            await asyncio.sleep(100)
            step = Step(create=[small("later", "none", priority=LOW)], on={"low": "n1", "later": "n1"})
            await one.testbed.perform(step)
            await until(lambda: one.testbed.missing(step), "the later pod runs")

    simulated(main)


def test_a_gang_whose_pods_are_created_one_by_one_starts_whole() -> None:
    async def main(one: Run) -> list[Object]:
        clock = one.simulation.clock
        shape = template(cpu=1, annotations={"shoal.io/gang": "g", "shoal.io/gang-min": "3"})
        await one.testbed.create(in_pool("a", "n1"))
        async with one.shoal(one.store, SchedulerConfig()), run_nodes(one.store, clock):
            await one.testbed.create(batch_job("j", shape, parallelism=3))
            job = one.testbed.made[-1]
            for number in range(3):
                await asyncio.sleep(10)
                assert not [pod for pod in one.store.list_now(PODS) if pod["spec"].get("nodeName")]
                await one.testbed.create(pod_of(f"j-{number}", shape, of=controller(job)))
            step = Step(on={f"j-{number}": "n1" for number in range(3)})
            await until(lambda: one.testbed.missing(step), "the whole gang runs")
        return one.store.list_now(PODS)

    assert len(simulated(main)) == 3


def controller(job: Object) -> Object:
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
