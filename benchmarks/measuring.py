"""Measurement of functions side by side with their floor: the least that the same work can cost."""

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

ROUNDS = 5
"""How many times each function is measured; the best time counts."""


class Row(NamedTuple):
    """A row of a table: the measured value, the floor beside it, their ratio, and the goal of the ratio."""

    measured: str
    floor: str
    ratio: str
    goal: str


async def best_times(*functions: Callable[[], Awaitable[object]]) -> list[float]:
    """The least wall time of each function; they run alternately, so that noise affects all alike."""
    best = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            await function()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def throughput_row(count: int, seconds: float, floor_seconds: float, unit: str, goal: str) -> Row:
    """A row about operations per second; the ratio is that of the measured rate to the floor's."""
    rate, floor_rate = count / seconds, count / floor_seconds
    return Row(f"{rate:,.0f} {unit}/s", f"{floor_rate:,.0f} {unit}/s", f"{rate / floor_rate:.2f}", goal)
