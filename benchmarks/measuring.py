"""How things are measured that take turns with their floor."""

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

TURNS = 5
"""How often each side has its turn."""


class Row(NamedTuple):
    """A line of a table: what was measured, the floor beside it, their ratio, and what it should be."""

    measured: str
    floor: str
    ratio: str
    goal: str


async def by_turns(*sides: Callable[[], Awaitable[object]]) -> list[float]:
    """The least wall time of each side, which take turns: noise of the machine hits all alike."""
    best = [float("inf")] * len(sides)
    for _ in range(TURNS):
        for i, side in enumerate(sides):
            start = time.perf_counter()
            await side()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def rates(count: int, taken: float, floor: float, unit: str, goal: str) -> Row:
    """A row about how many of something are done in a second; the ratio is ours to the floor's."""
    ours, theirs = count / taken, count / floor
    return Row(f"{ours:,.0f} {unit}/s", f"{theirs:,.0f} {unit}/s", f"{ours / theirs:.2f}", goal)
