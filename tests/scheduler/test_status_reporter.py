"""Conditions and Events of pods and jobs: written once, and again only when they change."""

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
from tests.builders import dijob, pod, template
from tests.scheduler.cases import CLASSES, HIGH, A, B, four, in_pool, small
from tests.scheduler.fake_controllers import run_fake_controllers
from tests.scheduler.scenarios import ClusterTestbed, Step, until, waiting_reason
from tests.scheduler.simulated_nodes import run_nodes
from tests.scheduler.simulations import Run, simulated


def written(one: Run) -> Counter[str]:
    """Count the writes of each pod from now on."""
    found: Counter[str] = Counter()

    def observe(changes: Sequence[Change]) -> None:
        found.update(made.record.key.name for made in changes if made.record.key.resource == "pods")

    one.store.commit_observers.append(observe)
    return found


async def events(one: Run) -> list[tuple[str, str, str]]:
    """Object, type and reason of all Events, ordered by name."""
    page = await one.store.list(EVENTS)
    return [(e["involvedObject"]["name"], e["type"], e["reason"]) for e in page.items]


def is_leaving(pod: Object, name: str) -> bool:
    return pod["metadata"]["name"] == name and "deletionTimestamp" in pod["metadata"]


async def perform(testbed: ClusterTestbed, step: Step) -> None:
    await testbed.perform(step)
    await until(lambda: testbed.missing(step), "it")


def test_an_unchanged_reason_is_written_once_also_after_a_restart() -> None:
    async def main(one: Run) -> None:
        for thing in (A, in_pool("a", "n1"), in_pool("b", "n2")):
            await one.testbed.create(thing)
        writes = written(one)
        step = Step(create=[small("p", "a", cpu=100)], waits={"p": "Unschedulable: it would not fit"})
        for _ in range(2):
            async with running(one.store, SchedulerConfig(), clock=one.simulation.clock) as manager:
                await perform(one.testbed, step)
                step = Step(waits=step.waits)
                before = manager.scheduler.cycles
                for number in range(10):
                    await one.store.patch(NODES, "n1", patch={"metadata": {"labels": {"round": str(number)}}})
                    await asyncio.sleep(1)
                assert manager.scheduler.cycles >= before + 10
        assert writes["p"] == 2, "one creation and one status write"
        assert [event for event in await events(one) if event[0] == "p"] == [
            ("p", "Warning", "FailedScheduling")
        ]

    simulated(main)


def test_a_changed_reason_is_written() -> None:
    async def main(one: Run) -> None:
        for thing in (A, in_pool("a", "n1"), small("first", "a", cpu=4, on="n1")):
            await one.testbed.create(thing)
        async with (
            running(one.store, SchedulerConfig(), clock=one.simulation.clock),
            run_nodes(one.store, one.simulation.clock),
        ):
            await perform(one.testbed, Step(create=[small("p", "a", cpu=4)], waits={"p": "0/1 nodes fit"}))
            await perform(one.testbed, Step(create=[in_pool("a", "n2", cpu=1)], waits={"p": "0/2 nodes fit"}))
            await perform(one.testbed, Step(create=[in_pool("a", "n3")], on={"p": "n3"}))
            await asyncio.sleep(10)
        assert ("p", "Normal", "Scheduled") in await events(one)

    simulated(main)


def test_a_refused_report_is_retried() -> None:
    async def main(one: Run) -> None:
        for thing in (A, in_pool("a", "n1")):
            await one.testbed.create(thing)
        refusals, write = [ForbiddenError("not now")], one.store.patch_status

        async def refusing(resource: Resource[Any], *what: Any, **how: Any) -> Any:  # noqa: ANN401 - as the port has it
            if resource.kind == "Pod" and refusals:
                raise refusals.pop()
            return await write(resource, *what, **how)

        with mock.patch.object(one.store, "patch_status", refusing):
            async with running(one.store, SchedulerConfig(), clock=one.simulation.clock):
                await one.testbed.create(small("p", "a", cpu=100))
                await asyncio.sleep(1)
                assert not refusals
                await one.store.patch(NODES, "n1", patch={"metadata": {"labels": {"round": "2"}}})
                await until(lambda: one.testbed.missing(Step(waits={"p": "Unschedulable"})), "it")

    simulated(main)


def test_a_gated_pod_has_the_reason_scheduling_gated() -> None:
    async def main(one: Run) -> None:
        await one.testbed.create(in_pool("a", "n1"))
        async with (
            running(one.store, SchedulerConfig(), clock=one.simulation.clock),
            run_nodes(one.store, one.simulation.clock),
        ):
            gated = pod("p", cpu=1, spec={"schedulingGates": [{"name": "example.com/later"}]})
            await perform(one.testbed, Step(create=[gated], waits={"p": "SchedulingGated"}))
            await perform(
                one.testbed, Step(patch=[("Pod", "p", {"spec": {"schedulingGates": []}})], on={"p": "n1"})
            )

    simulated(main)


def test_a_victim_has_a_condition_and_an_event_with_the_beneficiary() -> None:
    async def main(one: Run) -> None:
        for thing in (A, B, *CLASSES, in_pool("a", "n1"), small("f", "b", cpu=4, on="n1")):
            await one.testbed.create(thing)
        versions: list[Object] = []

        def observe(_: Sequence[Change]) -> None:
            versions.extend(thing for thing in one.store.list_now(PODS) if is_leaving(thing, "f"))

        one.store.commit_observers.append(observe)
        config = SchedulerConfig(reclaim_grace_period_seconds=5)
        async with (
            running(one.store, config, clock=one.simulation.clock),
            run_nodes(one.store, one.simulation.clock),
        ):
            await perform(
                one.testbed, Step(create=[small("a1", "a", priority=HIGH)], on={"a1": "n1"}, gone=["f"])
            )
            await asyncio.sleep(10)
        (condition,) = [c for c in versions[0]["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert condition["message"] == f"Shoal: Reclaimed for Pod/{one.testbed.namespace}/a1"
        assert versions[0]["metadata"]["deletionGracePeriodSeconds"] == 5
        assert ("f", "Normal", "Preempted") in await events(one)

    simulated(main)


def test_the_scheduled_condition_of_a_job_follows_its_state() -> None:
    async def main(one: Run) -> None:
        await one.testbed.create(in_pool("a", "n1"))

        async def scheduled_condition() -> Object:
            job = await one.store.get(resource_of("TYJob"), "t", one.testbed.namespace)
            found = [c for c in job.get("status", {}).get("conditions", ()) if c["type"] == "Scheduled"]
            return {key: found[0].get(key) for key in ("status", "reason")} if found else {}

        async def missing(wanted: Object) -> list[str]:
            now = await scheduled_condition()
            return [] if now == wanted else [str(now)]

        async with (
            running(one.store, SchedulerConfig(), clock=one.simulation.clock),
            run_nodes(one.store, one.simulation.clock),
            run_fake_controllers(one.store, one.testbed.namespace),
        ):
            await one.testbed.create(four("t", least=3))
            await until(lambda: missing({"status": "False", "reason": "NeverFits"}), "it can never run")
            await one.testbed.create(in_pool("a", "n2"))
            await until(lambda: missing({"status": "True", "reason": "ScheduledSucceed"}), "it runs")
            job = await one.store.get(resource_of("TYJob"), "t", one.testbed.namespace)
            await one.store.patch_status(
                resource_of("TYJob"),
                "t",
                one.testbed.namespace,
                patch={"status": {"conditions": []}},
            )
            assert job["status"]["scheduleState"] == "ScheduledSucceed"
        async with running(one.store, SchedulerConfig(), clock=one.simulation.clock):
            await until(lambda: missing({"status": "True", "reason": "ScheduledSucceed"}), "it is restored")
        assert waiting_reason(job) == ""

    simulated(main)


def test_the_reason_why_ranks_wait_is_dropped_when_they_are_not_wanted_any_more() -> None:
    async def main(one: Run) -> None:
        await one.testbed.create(in_pool("a", "n1"))

        async def missing(*wanted: str) -> list[str]:
            job = await one.store.get(resource_of("DIJob"), "d", one.testbed.namespace)
            found = [c for c in job.get("status", {}).get("conditions", ()) if c["type"] == "Scheduled"]
            now = [(c["status"], c["reason"], c["message"][:17]) for c in found]
            return [] if now == [wanted] else [str(now)]

        async def scale(replicas: int) -> None:
            patch = {"status": {"replicas": replicas}}
            await one.store.patch_status(resource_of("DIJob"), "d", one.testbed.namespace, patch=patch)

        async with (
            running(one.store, SchedulerConfig(), clock=one.simulation.clock),
            run_nodes(one.store, one.simulation.clock),
        ):
            await one.testbed.create(dijob("d", template(cpu=1)))
            await until(lambda: missing("True", "ScheduledSucceed", ""), "its rank has a node")
            await scale(6)
            await until(lambda: missing("True", "NoRoom", "2 of 6 replicas w"), "two ranks wait")
            await scale(4)
            await until(lambda: missing("True", "ScheduledSucceed", ""), "all ranks have nodes")

    simulated(main)
