"""Clocks of machines: what time it is, and how to wait until it is later."""

import asyncio
import math
from collections.abc import Callable
from typing import Final, Protocol


class Clock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> float:
        """Seconds since 1970."""

    async def sleep_until(self, moment: float) -> None:
        """Come back when it is about that late, or sooner; never, if that is never."""


class LoopClock:
    """A wall clock, with the time of the running loop to wait by: real, or simulated."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self.now: Final = wall

    async def sleep_until(self, moment: float) -> None:
        if math.isinf(moment):
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(max(moment - self.now(), 0.0))
