"""Turns: a queue with a lane for each pool, of which each has its turn; and how fast it is emptied."""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Things to do, by lane and key. Something newer about a key takes the place of what still waits."""

    def __init__(self) -> None:
        self._lanes: Final = OrderedDict[str, OrderedDict[Hashable, T]]()
        self._filled: Final = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def put(self, lane: str, key: Hashable, thing: T) -> None:
        """Add something to do."""
        self._lanes.setdefault(lane, OrderedDict())[key] = thing
        self._filled.set()

    async def take(self) -> T:
        """The oldest of the lane whose turn it is; wait for one if there is none."""
        while not self._lanes:
            self._filled.clear()
            await self._filled.wait()
        lane, things = self._lanes.popitem(last=False)
        _, thing = things.popitem(last=False)
        if things:
            self._lanes[lane] = things
        return thing


class Pacer:
    """Lets so many pass each second, and some at once after a rest."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._gap, self._ahead = 1 / per_second, burst / per_second
        self._next = 0.0

    async def turn(self) -> None:
        """Wait for the next turn."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._ahead) + self._gap
        if self._next > now:
            await asyncio.sleep(self._next - now)
