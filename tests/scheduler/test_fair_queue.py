"""Queues with lanes, and how fast they are emptied."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from shoal.scheduler.status_reporter import FairQueue, RateLimiter
from shoal.simulator import Simulation, run


async def everything(turns: FairQueue[str]) -> list[str]:
    return [await turns.take() for _ in range(len(turns))]


def test_lanes_have_their_turns_and_the_newest_word_counts() -> None:
    async def main(_: Simulation) -> list[str]:
        turns = FairQueue[str]()
        for lane, key, said in (
            ("a", 1, "a1"),
            ("a", 2, "a2"),
            ("a", 3, "a3"),
            ("b", 1, "b1"),
            ("a", 2, "A2"),
        ):
            turns.put(lane, key, said)
        return await everything(turns)

    assert run(main) == ["a1", "b1", "A2", "a3"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5))))
def test_nothing_is_lost_and_no_lane_waits_for_more_than_one_of_each_other(
    puts: list[tuple[str, int]],
) -> None:
    async def main(_: Simulation) -> list[str]:
        turns = FairQueue[str]()
        for lane, key in puts:
            turns.put(lane, key, f"{lane}{key}")
        return await everything(turns)

    taken = run(main)
    assert sorted(taken) == sorted({f"{lane}{key}" for lane, key in puts})
    for start, said in enumerate(taken):
        before = [other[0] for other in taken[:start]]
        since = before[len(before) - before[::-1].index(said[0]) :] if said[0] in before else before
        assert len(since) == len(set(since))


def test_a_pacer_lets_a_burst_pass_and_then_so_many_a_second() -> None:
    async def main(_: Simulation) -> list[float]:
        limiter, times = RateLimiter(10, 5), []
        for _turn in range(25):
            await limiter.wait()
            times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(100)
        for _turn in range(5):
            await limiter.wait()
        times.append(asyncio.get_running_loop().time())
        return times

    *steady, after_a_rest = run(main)
    assert 2.0 <= steady[-1] <= 2.6
    assert after_a_rest - steady[-1] <= 100.11
