"""A clock for the simulated kubelet that the test moves."""

import asyncio
import heapq
import itertools
from typing import Final


class ManualClock:
    """Advances only when a test moves it. It begins at a full second: times of objects have no fractions."""

    def __init__(self, start: float = 1_900_000_000.0) -> None:
        self._now = start
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers: Final = itertools.count()

    def now(self) -> float:
        return self._now

    async def sleep_until(self, moment: float) -> None:
        if moment <= self._now:
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (moment, next(self._numbers), wake))
        await wake

    def advance(self, seconds: float) -> None:
        """Let time pass, and end the sleeps that are due."""
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, wake = heapq.heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)
