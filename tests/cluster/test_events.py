"""Events: what is said again is counted, and nobody can talk for ever."""

import asyncio

from shoal.cluster.events import EventRecorder, ObjectEvent, ObjectReference
from shoal.cluster.port import Cluster
from shoal.cluster.resources import EVENTS, Object
from tests.controllers.harness import observe, registry
from tests.controllers.virtual_time import clock, run_virtual

JOB = ObjectReference(api_version="batch/v1", kind="Job", name="j", namespace="default", uid="u1")
NODE = ObjectReference(api_version="v1", kind="Node", name="n1", uid="u2")


def note(message: str = "it is so", reason: str = "Because", about: ObjectReference = JOB) -> ObjectEvent:
    return ObjectEvent(regarding=about, reason=reason, message=message)


async def events(cluster: Cluster) -> list[Object]:
    return (await cluster.list(EVENTS)).items


def test_what_is_said_again_is_counted_also_after_a_restart() -> None:
    async def scenario() -> list[Object]:
        async with registry() as home:
            for _ in range(2):
                recorder = EventRecorder(home, "tester", clock)
                for _ in range(3):
                    await recorder.record(note())
                    await asyncio.sleep(10)
            return await events(home)

    (event,) = run_virtual(scenario)
    assert event["count"] == 6
    assert (event["firstTimestamp"], event["lastTimestamp"]) == (
        "2027-01-15T08:00:00Z",
        "2027-01-15T08:00:50Z",
    )
    assert event["involvedObject"]["uid"] == "u1"
    assert (event["type"], event["reason"], event["message"]) == ("Normal", "Because", "it is so")


def test_what_has_no_namespace_is_told_of_in_the_default_one() -> None:
    async def scenario() -> list[Object]:
        async with registry() as home:
            await EventRecorder(home, "tester", clock).record(note(about=NODE))
            return await events(home)

    assert [event["metadata"]["namespace"] for event in run_virtual(scenario)] == ["default"]


def test_many_messages_of_one_reason_are_taken_together() -> None:
    async def scenario() -> list[Object]:
        async with registry() as home:
            recorder = EventRecorder(home, "tester", clock)
            for number in range(15):
                await recorder.record(note(f"number {number}"))
            return await events(home)

    found = run_virtual(scenario)
    together = [event for event in found if event["message"].startswith("(combined from similar events): ")]
    assert (len(found), [event["count"] for event in together]) == (11, [5])


def test_an_object_that_talks_too_much_is_not_heard_for_a_while_but_counted() -> None:
    async def scenario() -> tuple[int, int, int]:
        async with registry() as home:
            port, cluster = observe(home)
            recorder = EventRecorder(cluster, "tester", clock)
            for _ in range(100):
                await recorder.record(note())
            spoken = len(port.writes)
            await recorder.record(note(about=NODE))
            others = len(port.writes) - spoken
            await asyncio.sleep(300)
            await recorder.record(note())
            (event,) = [e for e in await events(home) if e["involvedObject"]["kind"] == "Job"]
            return spoken, others, event["count"]

    assert run_virtual(scenario) == (25, 1, 101)
