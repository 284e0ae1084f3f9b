"""Simulated runs: a loop on virtual time, a wall clock, and dice, all of one seed.

async def main(simulation: Simulation) -> str: ...

assert run(main, seed=7) == run(main, seed=7)

The simulated home: a registry that keeps nothing, with a clock and dice that can be had again.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from shoal.apiserver.registry.records import Change
from shoal.apiserver.registry.registry import TIDY_EVERY, Registry
from shoal.apiserver.registry.state import Retention
from shoal.apiserver.registry.watch import BOOKMARK_EVERY
from shoal.cluster.resources import Resource
from shoal.simulator.loop import VirtualLoop

T = TypeVar("T")

START: Final = 1_767_225_600.0
"""When simulated runs begin unless they are told otherwise: the first moment of 2026."""


class WallClock:
    """Seconds since 1970 as somebody's clock shows them: they pass with a loop's time, and may jump."""

    def __init__(self, passing: Callable[[], float], start: float = START) -> None:
        """Show `start` now; `passing` tells seconds that never jump."""
        self._passing: Final = passing
        self._ahead = start - passing()

    def __call__(self) -> float:
        return self._ahead + self._passing()

    def jump(self, seconds: float) -> None:
        """Be set forward, or back by less than nothing. Whoever waits is not woken any sooner."""
        self._ahead += seconds


class Simulation:
    """One run: what time it is, and what the dice say."""

    def __init__(self, seed: int, clock: WallClock) -> None:
        self.seed: Final = seed
        self.clock: Final = clock

    def dice(self, whose: str) -> random.Random:
        """Dice of somebody's own: what they throw depends on the seed, and not on what others throw."""
        return random.Random(f"{self.seed} {whose}")  # noqa: S311 - it must be possible to throw them again


def run(main: Callable[[Simulation], Coroutine[Any, Any, T]], *, seed: int = 0, start: float = START) -> T:
    """What `main` returns, run on virtual time from the wall clock's `start`; what it leaves is cancelled.

    Raises StuckError when everybody waits for somebody.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        simulation = Simulation(seed, WallClock(loop.time, start))
        return runner.run(_alone(main, simulation))


async def _alone(main: Callable[[Simulation], Coroutine[Any, Any, T]], simulation: Simulation) -> T:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine
    task.set_name("main")
    try:
        return await main(simulation)
    finally:
        await _cancel_all_others()


async def _cancel_all_others() -> None:
    """End what was left running, oldest first: in the same order in every run."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)  # noqa: S101 - `run` has made it
    others = [task for task in loop.tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


Witness = Callable[[Sequence[Change]], None]
"""Is told what one commit has changed, when readers can see it and before anybody acts on it."""


class SimulatedCluster(Registry):
    """A home of objects in memory, with the behaviour of a Kubernetes API server."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        dice: random.Random,
        retention: Retention | None = None,
        bookmark_every: float = BOOKMARK_EVERY,
        tidy_every: float = TIDY_EVERY,
    ) -> None:
        super().__init__(
            clock=clock,
            dice=dice,
            retention=retention,
            bookmark_every=bookmark_every,
            tidy_every=tidy_every,
        )
        self.witnesses: Final[list[Witness]] = []

    def all(self, resource: Resource[T]) -> list[T]:
        """All objects of a resource as they are, in order: for a witness, who cannot wait."""
        collection = self._state.collection(resource.full_name)
        return [resource.decode(collection.records[place].body) for place in collection.places()]

    def _committed(self, changes: Sequence[Change]) -> None:
        super()._committed(changes)
        for tell in self.witnesses:
            tell(changes)


class Chronicle:
    """A witness who writes everything down: one line for each change, the same in every run of a seed."""

    def __init__(self) -> None:
        self.lines: Final[list[bytes]] = []

    def __call__(self, changes: Sequence[Change]) -> None:
        self.lines.extend(
            b"%.6f %s %s" % (made.record.time, b"-" if made.record.deleted else b"+", made.record.body)
            for made in changes
        )

    def text(self) -> bytes:
        """All that happened."""
        return b"".join(line + b"\n" for line in self.lines)
