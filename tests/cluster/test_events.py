"""Events: repetitions are counted, similar messages combined, and objects rate-limited."""

import asyncio

from shoal.cluster.events import EventRecorder, ObjectEvent, ObjectReference
from shoal.cluster.port import Cluster
from shoal.cluster.resources import EVENTS, Object
from tests.controllers.harness import observe, registry
from tests.controllers.virtual_time import clock, run_virtual

JOB = ObjectReference(api_version="batch/v1", kind="Job", name="j", namespace="default", uid="u1")
NODE = ObjectReference(api_version="v1", kind="Node", name="n1", uid="u2")


def event(
    message: str = "it is so", reason: str = "Because", regarding: ObjectReference = JOB
) -> ObjectEvent:
    return ObjectEvent(regarding=regarding, reason=reason, message=message)


async def list_events(cluster: Cluster) -> list[Object]:
    return (await cluster.list(EVENTS)).items


def test_a_repeated_event_is_counted_also_after_a_restart() -> None:
    async def scenario() -> list[Object]:
        async with registry() as home:
            for _ in range(2):
                recorder = EventRecorder(home, "tester", clock)
                for _ in range(3):
                    await recorder.record(event())
                    await asyncio.sleep(10)
            return await list_events(home)

    (found,) = run_virtual(scenario)
    assert found["count"] == 6
    assert (found["firstTimestamp"], found["lastTimestamp"]) == (
        "2027-01-15T08:00:00Z",
        "2027-01-15T08:00:50Z",
    )
    assert found["involvedObject"]["uid"] == "u1"
    assert (found["type"], found["reason"], found["message"]) == ("Normal", "Because", "it is so")


def test_an_event_of_a_cluster_scoped_object_is_in_the_default_namespace() -> None:
    async def scenario() -> list[Object]:
        async with registry() as home:
            await EventRecorder(home, "tester", clock).record(event(regarding=NODE))
            return await list_events(home)

    assert [event["metadata"]["namespace"] for event in run_virtual(scenario)] == ["default"]


def test_many_messages_of_one_reason_are_combined() -> None:
    async def scenario() -> list[Object]:
        async with registry() as home:
            recorder = EventRecorder(home, "tester", clock)
            for number in range(15):
                await recorder.record(event(f"number {number}"))
            return await list_events(home)

    found = run_virtual(scenario)
    combined = [event for event in found if event["message"].startswith("(combined from similar events): ")]
    assert (len(found), [event["count"] for event in combined]) == (11, [5])


def test_an_object_with_many_events_is_rate_limited() -> None:
    async def scenario() -> tuple[int, int, int]:
        async with registry() as home:
            port, cluster = observe(home)
            recorder = EventRecorder(cluster, "tester", clock)
            for _ in range(100):
                await recorder.record(event())
            written = len(port.writes)
            await recorder.record(event(regarding=NODE))
            others = len(port.writes) - written
            await asyncio.sleep(300)
            await recorder.record(event())
            (found,) = [e for e in await list_events(home) if e["involvedObject"]["kind"] == "Job"]
            return written, others, found["count"]

    assert run_virtual(scenario) == (25, 1, 101)
