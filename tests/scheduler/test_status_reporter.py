"""What objects are told: once, when it changes, and in words of one line."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest import mock

from shoal.apiserver.registry.records import Change
from shoal.cluster.errors import ForbiddenError
from shoal.cluster.resources import EVENTS, NODES, PODS, Object, Resource, resource_of
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from tests.builders import pod
from tests.scheduler.cases import CLASSES, HIGH, A, B, four, in_pool, small
from tests.scheduler.puppets import puppets
from tests.scheduler.scenes import Act, Stage, told, until
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, simulated


def written(one: Run) -> Counter[str]:
    """How often each pod is written from now on."""
    found: Counter[str] = Counter()

    def see(changes: Sequence[Change]) -> None:
        found.update(made.record.key.name for made in changes if made.record.key.resource == "pods")

    one.store.commit_observers.append(see)
    return found


async def events(one: Run) -> list[tuple[str, str, str]]:
    """What is said of whom, in the order of names."""
    page = await one.store.list(EVENTS)
    return [(e["involvedObject"]["name"], e["type"], e["reason"]) for e in page.items]


def is_leaving(pod: Object, name: str) -> bool:
    return pod["metadata"]["name"] == name and "deletionTimestamp" in pod["metadata"]


async def shown(stage: Stage, act: Act) -> None:
    await stage.perform(act)
    await until(lambda: stage.missing(act), "it")


def test_a_pod_is_told_once_whatever_happens_elsewhere_and_after_a_restart() -> None:
    async def main(one: Run) -> None:
        for thing in (A, in_pool("a", "n1"), in_pool("b", "n2")):
            await one.stage.create(thing)
        writes = written(one)
        act = Act(create=[small("p", "a", cpu=100)], waits={"p": "Unschedulable: it would not fit"})
        for _ in range(2):
            async with running(one.store, SchedulerConfig(), clock=one.simulation.clock) as manager:
                await shown(one.stage, act)
                act = Act(waits=act.waits)
                before = manager.scheduler.cycles
                for turn in range(10):
                    await one.store.patch(NODES, "n1", patch={"metadata": {"labels": {"turn": str(turn)}}})
                    await asyncio.sleep(1)
                assert manager.scheduler.cycles >= before + 10
        assert writes["p"] == 2, "it was made, and told"
        assert [event for event in await events(one) if event[0] == "p"] == [
            ("p", "Warning", "FailedScheduling")
        ]

    simulated(main)


def test_what_is_news_is_told() -> None:
    async def main(one: Run) -> None:
        for thing in (A, in_pool("a", "n1"), small("first", "a", cpu=4, on="n1")):
            await one.stage.create(thing)
        async with (
            running(one.store, SchedulerConfig(), clock=one.simulation.clock),
            run_nodes(one.store, one.simulation.clock),
        ):
            await shown(one.stage, Act(create=[small("p", "a", cpu=4)], waits={"p": "0/1 nodes fit"}))
            await shown(one.stage, Act(create=[in_pool("a", "n2", cpu=1)], waits={"p": "0/2 nodes fit"}))
            await shown(one.stage, Act(create=[in_pool("a", "n3")], on={"p": "n3"}))
            await asyncio.sleep(10)
        assert ("p", "Normal", "Scheduled") in await events(one)

    simulated(main)


def test_what_could_not_be_told_is_told_again() -> None:
    async def main(one: Run) -> None:
        for thing in (A, in_pool("a", "n1")):
            await one.stage.create(thing)
        refusals, write = [ForbiddenError("not now")], one.store.patch_status

        async def moody(resource: Resource[Any], *what: Any, **how: Any) -> Any:  # noqa: ANN401 - as the port has it
            if resource.kind == "Pod" and refusals:
                raise refusals.pop()
            return await write(resource, *what, **how)

        with mock.patch.object(one.store, "patch_status", moody):
            async with running(one.store, SchedulerConfig(), clock=one.simulation.clock):
                await one.stage.create(small("p", "a", cpu=100))
                await asyncio.sleep(1)
                assert not refusals
                await one.store.patch(NODES, "n1", patch={"metadata": {"labels": {"turn": "2"}}})
                await until(lambda: one.stage.missing(Act(waits={"p": "Unschedulable"})), "it")

    simulated(main)


def test_a_gated_pod_has_the_reason_scheduling_gated() -> None:
    async def main(one: Run) -> None:
        await one.stage.create(in_pool("a", "n1"))
        async with (
            running(one.store, SchedulerConfig(), clock=one.simulation.clock),
            run_nodes(one.store, one.simulation.clock),
        ):
            gated = pod("p", cpu=1, spec={"schedulingGates": [{"name": "example.com/later"}]})
            await shown(one.stage, Act(create=[gated], waits={"p": "SchedulingGated"}))
            await shown(
                one.stage, Act(patch=[("Pod", "p", {"spec": {"schedulingGates": []}})], on={"p": "n1"})
            )

    simulated(main)


def test_victims_know_why_they_go_and_for_whom() -> None:
    async def main(one: Run) -> None:
        for thing in (A, B, *CLASSES, in_pool("a", "n1"), small("f", "b", cpu=4, on="n1")):
            await one.stage.create(thing)
        goodbyes: list[Object] = []

        def see(_: Sequence[Change]) -> None:
            goodbyes.extend(thing for thing in one.store.list_now(PODS) if is_leaving(thing, "f"))

        one.store.commit_observers.append(see)
        config = SchedulerConfig(reclaim_grace_period_seconds=5)
        async with (
            running(one.store, config, clock=one.simulation.clock),
            run_nodes(one.store, one.simulation.clock),
        ):
            await shown(one.stage, Act(create=[small("a1", "a", priority=HIGH)], on={"a1": "n1"}, gone=["f"]))
            await asyncio.sleep(10)
        (condition,) = [c for c in goodbyes[0]["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert condition["message"] == f"Shoal: Reclaimed for Pod/{one.stage.namespace}/a1"
        assert goodbyes[0]["metadata"]["deletionGracePeriodSeconds"] == 5
        assert ("f", "Normal", "Preempted") in await events(one)

    simulated(main)


def test_a_job_says_how_it_stands() -> None:
    async def main(one: Run) -> None:
        await one.stage.create(in_pool("a", "n1"))

        async def standing() -> Object:
            job = await one.store.get(resource_of("TYJob"), "t", one.stage.namespace)
            found = [c for c in job.get("status", {}).get("conditions", ()) if c["type"] == "Scheduled"]
            return {key: found[0].get(key) for key in ("status", "reason")} if found else {}

        async def missing(wanted: Object) -> list[str]:
            now = await standing()
            return [] if now == wanted else [str(now)]

        async with (
            running(one.store, SchedulerConfig(), clock=one.simulation.clock),
            run_nodes(one.store, one.simulation.clock),
            puppets(one.store, one.stage.namespace),
        ):
            await one.stage.create(four("t", least=3))
            await until(lambda: missing({"status": "False", "reason": "NeverFits"}), "it can never run")
            await one.stage.create(in_pool("a", "n2"))
            await until(lambda: missing({"status": "True", "reason": "ScheduledSucceed"}), "it runs")
            job = await one.store.get(resource_of("TYJob"), "t", one.stage.namespace)
            await one.store.patch_status(
                resource_of("TYJob"),
                "t",
                one.stage.namespace,
                patch={"status": {"conditions": []}},
            )
            assert job["status"]["scheduleState"] == "ScheduledSucceed"
        async with running(one.store, SchedulerConfig(), clock=one.simulation.clock):
            await until(lambda: missing({"status": "True", "reason": "ScheduledSucceed"}), "it is put right")
        assert told(job) == ""

    simulated(main)
