"""Concurrent calls add up, on one server and on several, whatever fails or is killed in between."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.cluster.port import Cluster
from shoal.simulator import Connection, FaultInjector, Schedule, Simulation, run
from shoal.simulator.schedule import AnyFault, BreakWatch, Outage, Refuse, Slow
from tests.server.serving import DIJOBS, Answer, Server, di_server, home

REPLICAS = "/v2alpha1/default.job/replicas"
PROFILINGS = "/v2alpha1/default.job/profilings"
ONE = {"replicas": 1}


@pytest.fixture(params=["embedded", "simulated"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with home(request.param, tmp_path) as opened:
        yield opened


async def keep_changing(server: Server, stop: asyncio.Event) -> int:
    """Change other fields of the job's status all the time, as its controller does."""
    number = 0
    while not stop.is_set():
        number += 1
        await server.cluster.patch_status(
            DIJOBS, "job", "default", patch={"status": {"readyReplicas": number}}
        )
        await asyncio.sleep(0)
    return number


async def add_one_hundred_times(server: Server) -> list[Answer]:
    return [await server.ask("POST", REPLICAS, ONE) for _ in range(100)]


@pytest.mark.parametrize("most, accepted", [(300, 200), (120, 119)])
async def test_two_clients_of_two_servers_add_one_a_hundred_times_each(
    most: int, accepted: int, cluster: Cluster
) -> None:
    async with di_server(cluster) as one, di_server(cluster) as other:
        job = await one.create(maxReplicas=most)
        await other.wait_until_known(job)
        stop = asyncio.Event()
        changes = asyncio.create_task(keep_changing(one, stop))
        both = await asyncio.gather(add_one_hundred_times(one), add_one_hundred_times(other))
        stop.set()
        assert await changes > 1
        answers = [answer for some in both for answer in some]
        assert sorted(answer.data for answer in answers if answer.status == 200) == list(
            range(2, accepted + 2)
        )
        assert [answer.status for answer in answers].count(409) == 200 - accepted
        assert (await one.status(job))["requestedReplicas"] == accepted + 1


async def test_many_clients_of_one_server_cause_no_conflicts(cluster: Cluster) -> None:
    async with di_server(cluster) as server:
        job = await server.create(maxReplicas=100)
        before = await server.cluster.get(DIJOBS, "job", "default")
        answers = await asyncio.gather(*(server.ask("POST", REPLICAS, ONE) for _ in range(64)))
        after = await server.cluster.get(DIJOBS, "job", "default")
        assert {answer.status for answer in answers} == {200}
        assert (await server.status(job))["requestedReplicas"] == 65
        versions = [int(one["metadata"]["resourceVersion"]) for one in (before, after)]
        assert versions[1] - versions[0] == 64  # one write each


async def test_reports_of_many_workers_are_all_kept(cluster: Cluster) -> None:
    async with di_server(cluster) as one, di_server(cluster) as other:
        job = await one.create()
        await other.wait_until_known(job)
        calls = [
            server.ask("POST", PROFILINGS, {"data": {f"{name}-{rank}": rank}})
            for rank in range(40)
            for name, server in (("one", one), ("other", other))
        ]
        assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
        expected = {f"{name}-{rank}": rank for rank in range(40) for name in ("one", "other")}
        assert (await one.status(job))["profilings"] == expected


# --- failures ----------------------------------------------------------------------------------------------

seconds = st.floats(0, 5)
faults = st.one_of(
    st.builds(
        Refuse,
        nth=st.integers(1, 12),
        on=st.sampled_from(["patch_status", "get"]),
        code=st.sampled_from([429, 500, 503]),
    ),
    st.builds(Refuse, nth=st.integers(1, 12), on=st.just("patch_status"), code=st.just(409)),
    st.builds(Refuse, nth=st.integers(1, 12), on=st.just("patch_status"), applied=st.sampled_from([True])),
    st.builds(
        Slow,
        nth=st.integers(1, 12),
        on=st.sampled_from(["patch_status", "event", "get"]),
        seconds=seconds,
        answer=st.booleans(),
    ),
    st.builds(Outage, at=seconds, seconds=seconds),
    st.builds(BreakWatch, at=seconds, seconds=seconds),
)


@settings(max_examples=60)
@given(st.lists(faults, max_size=6))
def test_whatever_fails_what_was_answered_counts_exactly_once(broken: list[AnyFault]) -> None:
    """A call that was answered with 503 or 500 may have taken effect: its caller has to look."""

    async def main(simulation: Simulation) -> tuple[list[Answer], int]:
        async with home("simulated", Path()) as store, di_server(store) as quiet:
            job = await quiet.create(maxReplicas=500)
            injector = FaultInjector(Schedule(tuple(broken)), simulation.clock)
            async with di_server(Connection(store, injector)) as server:
                answers = []
                for _round in range(5):
                    answers += await asyncio.gather(
                        *(server.ask("POST", REPLICAS, ONE) for _call in range(3))
                    )
                    await asyncio.sleep(1)
            return answers, (await quiet.status(job)).get("requestedReplicas", 1)

    answers, size = run(main)
    statuses = [answer.status for answer in answers]
    assert set(statuses) <= {200, 500, 503}
    done, unknown = statuses.count(200), len(statuses) - statuses.count(200)
    assert done <= size - 1 <= done + unknown
    assert len({answer.data for answer in answers if answer.status == 200}) == done


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_server_that_is_killed_at_any_time_loses_and_doubles_nothing(method: str) -> None:
    """Each run kills the server one step later, until the call is answered before."""

    def run_until_killed(steps: int) -> tuple[bool, int]:
        async def main(_: Simulation) -> tuple[bool, int]:
            async with home("simulated", Path()) as store:
                async with di_server(store) as server:
                    job = await server.create(maxReplicas=500)
                    await server.set_status(job, requestedReplicas=10)
                    call = asyncio.create_task(server.ask(method, REPLICAS, ONE))
                    for _step in range(steps):
                        await asyncio.sleep(0)
                    answered = call.done()
                    call.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await call
                async with di_server(store) as successor:
                    size: int = (await successor.status(job))["requestedReplicas"]
                    after: Any = (await successor.ask(method, REPLICAS, ONE)).data
            change = 1 if method == "POST" else -1
            assert after == size + change
            return answered, (size - 10) * change

        return run(main)

    outcomes: list[tuple[bool, int]] = []
    while not outcomes or not outcomes[-1][0]:
        outcomes.append(run_until_killed(len(outcomes)))
    effects = [effect for _, effect in outcomes]
    assert outcomes[-1] == (True, 1)
    assert set(effects) == {0, 1}
    assert effects == sorted(effects)
