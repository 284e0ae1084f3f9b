"""Electors on virtual time: takeover, release, faults; and never two leaders, whatever happens."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.cluster.errors import NotFoundError, UnavailableError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import LEASES, PODS, Object
from shoal.election.fence import FencedCluster
from shoal.election.leadership import NotLeaderError
from shoal.simulator import (
    AnyFault,
    BreakWatch,
    Connection,
    Crash,
    Duplicate,
    Freeze,
    Outage,
    Refuse,
    Slow,
)
from tests.election.harness import OPTIONS, Race, race

SPEC = {"containers": [{"name": "main", "image": "x"}]}


def takeover(*faults: AnyFault, at: float = 30.0) -> float:
    """Run two candidates, the first with faults at a time; return the seconds until the other one leads."""

    async def main(one: Race) -> float:
        first, second = one.candidate(*faults), one.candidate()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(first.compete())]
            await one.until_leader("a")
            tasks.append(group.create_task(second.compete()))
            took = await one.until_leader("b") - at
            for task in tasks:
                task.cancel()
        return took

    return race(main)


def test_the_first_candidate_leads_at_once_and_stays_leader() -> None:
    async def main(one: Race) -> tuple[float, list[str], Object]:
        tasks = [asyncio.create_task(one.candidate().compete()) for _ in range(3)]
        began = await one.until_leader("a")
        await asyncio.sleep(3600)
        for task in tasks:
            task.cancel()
        return began, one.leaders, one.store.list_now(LEASES)[0]["spec"]

    began, leaders, spec = race(main)
    assert began < 1
    assert leaders == ["a"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("a-1", 0)


FAULTS: dict[str, AnyFault] = {
    "killed": Crash(at=30, down=100),
    "frozen": Freeze(at=30, seconds=60),
    "cut off": Outage(at=30, seconds=60),
}


@pytest.mark.parametrize("case", FAULTS)
def test_another_candidate_takes_over_when_the_leader_is(case: str) -> None:
    took = takeover(FAULTS[case])
    assert OPTIONS.renew_deadline - OPTIONS.retry_period * 1.3 < took < OPTIONS.duration + 1


def test_a_graceful_stop_hands_over_at_once() -> None:
    async def main(one: Race) -> float:
        first, second = one.candidate(), one.candidate()
        async with first.term(Connection(one.store, first.faults)) as leadership:
            await leadership.begun()
            task = asyncio.create_task(second.compete())
            await asyncio.sleep(30)
            stopped = asyncio.get_running_loop().time()
        took = await one.until_leader("b") - stopped
        task.cancel()
        return took

    assert race(main) < 0.5


def test_a_short_failure_of_the_api_server_ends_no_leadership() -> None:
    async def main(one: Race) -> tuple[list[str], int]:
        task = asyncio.create_task(one.candidate(Outage(at=30, seconds=3)).compete())
        other = asyncio.create_task(one.candidate().compete())
        await one.until_leader("a")
        await asyncio.sleep(120)
        task.cancel()
        other.cancel()
        return one.leaders, len(one.candidates[0].leaderships)

    assert race(main) == (["a"], 1)


def test_a_wall_clock_that_is_set_back_ends_no_leadership() -> None:
    async def main(one: Race) -> int:
        task = asyncio.create_task(one.candidate().compete())
        await one.until_leader("a")
        for _ in range(30):
            one.simulation.clock.jump(-OPTIONS.retry_period * 1.1)
            await asyncio.sleep(2)
        task.cancel()
        return len(one.candidates[0].leaderships)

    assert race(main) == 1


def test_a_deleted_lease_is_recreated_by_its_holder() -> None:
    async def main(one: Race) -> tuple[list[str], str]:
        tasks = [asyncio.create_task(one.candidate().compete()) for _ in range(2)]
        await one.until_leader("a")
        await asyncio.sleep(30)
        await one.store.delete(LEASES, OPTIONS.name, OPTIONS.namespace)
        await asyncio.sleep(60)
        for task in tasks:
            task.cancel()
        return one.leaders, one.store.list_now(LEASES)[0]["spec"]["holderIdentity"]

    assert race(main) == (["a"], "a-1")


def test_a_lease_that_was_taken_by_force_is_lost_at_the_next_renewal() -> None:
    async def main(one: Race) -> float:
        task = asyncio.create_task(one.candidate().compete())
        await one.until_leader("a")
        await asyncio.sleep(30)
        began = asyncio.get_running_loop().time()
        patch = {"spec": {"holderIdentity": "someone"}}
        await one.store.patch(LEASES, OPTIONS.name, OPTIONS.namespace, patch=patch)
        took = await one.until_leader() - began
        task.cancel()
        return took

    assert race(main) < 3 * OPTIONS.retry_period


def test_it_leads_until_the_renew_deadline_after_a_renewal_was_sent_not_answered() -> None:
    """The last answer before the partition takes two seconds, which do not extend the leadership."""

    async def main(one: Race) -> float:
        changes: list[float] = []
        late_answer = Slow(at=30, on="update", seconds=2, answer=True)
        task = asyncio.create_task(one.candidate(late_answer, Outage(at=33, seconds=60)).compete())
        await one.until_leader("a")
        one.store.commit_observers.append(lambda _: changes.append(asyncio.get_running_loop().time()))
        lost = await one.until_leader()
        task.cancel()
        return lost - max(at for at in changes if at < lost)

    assert race(main) == pytest.approx(OPTIONS.renew_deadline, abs=0.1)


class BrokenCluster:
    """A cluster whose client has a bug, which the first request meets."""

    def __init__(self) -> None:
        self.calls = 0

    async def get(self, *_: object) -> Object:
        self.calls += 1
        raise ZeroDivisionError if self.calls == 1 else NotFoundError("no Lease")


def test_a_bug_of_the_elector_ends_the_leadership() -> None:
    async def main(one: Race) -> str:
        async with one.candidate().term(cast("Cluster", BrokenCluster())) as leadership:
            return await leadership.ended()

    assert race(main) == "the leader election failed"


# --- the fence ----------------------------------------------------------------------------------------------


def test_writes_are_refused_before_and_after_the_leadership_and_reads_never() -> None:
    async def main(one: Race) -> list[str]:
        first, answers = one.candidate(), []
        async with first.term(Connection(one.store, first.faults)) as leadership:
            fenced = FencedCluster(one.store, leadership)

            async def write() -> None:
                body: Object = {"metadata": {"generateName": "p-", "namespace": "default"}, "spec": SPEC}
                await fenced.list(PODS)
                try:
                    await fenced.create(PODS, body)
                    answers.append("written")
                except NotLeaderError as error:
                    answers.append(error.message)

            await write()
            await leadership.begun()
            await write()
        await write()
        assert len(one.store.list_now(PODS)) == 1
        return answers

    assert race(main) == [
        "not sent: this manager stands by",
        "written",
        "not sent: this manager does not lead any more: the lease was released",
    ]


Write = Callable[[Cluster], Awaitable[object]]


def bind(cluster: Cluster) -> Awaitable[object]:
    return cluster.bind("p", "default", "n1")


def patch_with_version(cluster: Cluster) -> Awaitable[object]:
    patch = {"metadata": {"resourceVersion": "1"}, "status": {"phase": "Running"}}
    return cluster.patch_status(PODS, "p", "default", patch=patch)


def holder_after_stop(fault: AnyFault, write: Write) -> str:
    """Stop a leader after a write without an answer; return the holder of the Lease."""

    async def main(one: Race) -> str:
        first = one.candidate()
        await one.store.create(PODS, {"metadata": {"name": "p", "namespace": "default"}, "spec": SPEC})
        async with first.term(one.store) as leadership:
            await leadership.begun()
            writer = Connection(one.store, one.candidate(fault).faults)
            fenced = FencedCluster(writer, leadership)
            with pytest.raises(UnavailableError):
                await write(fenced)
        return str(one.store.list_now(LEASES)[0]["spec"]["holderIdentity"])

    return race(main)


def test_the_lease_is_not_released_while_a_binding_may_still_take_effect() -> None:
    assert holder_after_stop(Refuse(nth=1, on="bind", code=503), bind) == "a-1"


def test_a_write_that_names_its_version_does_not_delay_the_release() -> None:
    assert holder_after_stop(Refuse(nth=1, on="patch_status", code=503), patch_with_version) == ""


# --- never two ----------------------------------------------------------------------------------------------

DAY = 300.0
moments = st.floats(0, DAY)
pauses = st.floats(0.1, 40)
calls = st.sampled_from(
    ["update", "create", "get", "watch", "update leases.coordination.k8s.io", "write", "read"]
)
writes = st.sampled_from(["update", "create", "write"])
faults = st.one_of(
    st.builds(Freeze, at=moments, seconds=pauses),
    st.builds(Outage, at=moments, seconds=pauses),
    st.builds(Crash, at=moments, down=pauses),
    st.builds(BreakWatch, at=moments, seconds=pauses),
    st.builds(Slow, at=moments, on=calls, seconds=pauses, answer=st.booleans()),
    st.builds(Slow, at=moments, on=st.just("event"), seconds=pauses),
    st.builds(Refuse, at=moments, on=writes, code=st.sampled_from([409, 500, 503]), applied=st.booleans()),
    st.builds(Duplicate, at=moments, on=writes, seconds=pauses),
)
candidates = st.lists(
    st.tuples(st.lists(faults, max_size=8), st.floats(1.0, 1.4)),
    min_size=2,
    max_size=3,
)


@settings(max_examples=25)
@given(candidates)
def test_two_never_lead_at_the_same_time(runners: Sequence[tuple[Sequence[AnyFault], float]]) -> None:
    """With clocks of different speed, delayed and lost requests and answers, and frozen processes."""

    async def main(one: Race) -> None:
        for schedule, rate in runners:
            one.candidate(*schedule, rate=rate)
        tasks = [asyncio.create_task(candidate.compete()) for candidate in one.candidates]
        led = 0
        for _ in range(int(DAY + 100) * 4):
            await asyncio.sleep(0.25)
            assert len(one.leaders) <= 1
            led += len(one.leaders)
        for task in tasks:
            task.cancel()
        assert one.leaders, "in the end, one leads"
        assert led

    race(main)
