"""The fair queue with its lanes, and the rate limiter."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from shoal.scheduler.status_reporter import FairQueue, RateLimiter
from shoal.simulator import Simulation, run


async def take_all(queue: FairQueue[str]) -> list[str]:
    return [await queue.take() for _ in range(len(queue))]


def test_lanes_are_served_in_turn_and_a_newer_item_replaces_the_waiting_one() -> None:
    async def main(_: Simulation) -> list[str]:
        queue = FairQueue[str]()
        for lane, key, item in (
            ("a", 1, "a1"),
            ("a", 2, "a2"),
            ("a", 3, "a3"),
            ("b", 1, "b1"),
            ("a", 2, "A2"),
        ):
            queue.put(lane, key, item)
        return await take_all(queue)

    assert run(main) == ["a1", "b1", "A2", "a3"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5))))
def test_no_item_is_lost_and_a_lane_waits_for_one_item_of_each_other_lane(
    puts: list[tuple[str, int]],
) -> None:
    async def main(_: Simulation) -> list[str]:
        queue = FairQueue[str]()
        for lane, key in puts:
            queue.put(lane, key, f"{lane}{key}")
        return await take_all(queue)

    taken = run(main)
    assert sorted(taken) == sorted({f"{lane}{key}" for lane, key in puts})
    for start, item in enumerate(taken):
        before = [other[0] for other in taken[:start]]
        since = before[len(before) - before[::-1].index(item[0]) :] if item[0] in before else before
        assert len(since) == len(set(since))


def test_the_rate_limiter_allows_a_burst_and_then_a_rate() -> None:
    async def main(_: Simulation) -> list[float]:
        limiter, times = RateLimiter(10, 5), []
        for _number in range(25):
            await limiter.wait()
            times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(100)
        for _number in range(5):
            await limiter.wait()
        times.append(asyncio.get_running_loop().time())
        return times

    *steady, after_idle = run(main)
    assert 2.0 <= steady[-1] <= 2.6
    assert after_idle - steady[-1] <= 100.11
