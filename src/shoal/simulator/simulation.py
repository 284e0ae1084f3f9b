"""Simulated runs: a loop on virtual time, a wall clock, random numbers of one seed, and a cluster in memory.

async def main(simulation: Simulation) -> str: ...

assert run(main, seed=7) == run(main, seed=7)
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from shoal.apiserver.registry.records import Change
from shoal.apiserver.registry.registry import CLEANUP_INTERVAL, Registry
from shoal.apiserver.registry.state import Retention
from shoal.apiserver.registry.watch import BOOKMARK_INTERVAL
from shoal.cluster.resources import Resource
from shoal.simulator.loop import VirtualLoop

T = TypeVar("T")

START: Final = 1_767_225_600.0
"""When simulated runs begin by default: 2026-01-01T00:00:00Z."""


class WallClock:
    """Seconds since 1970, as a clock of a machine shows them: it runs with the loop's time, and may jump."""

    def __init__(self, monotonic: Callable[[], float], start: float = START) -> None:
        """Show `start` now; `monotonic` returns seconds that never jump."""
        self._monotonic: Final = monotonic
        self._offset = start - monotonic()

    def __call__(self) -> float:
        return self._offset + self._monotonic()

    def jump(self, seconds: float) -> None:
        """Set the clock forward, or back if negative. Timers of the loop are not affected."""
        self._offset += seconds


class Simulation:
    """One run: its seed and its wall clock."""

    def __init__(self, seed: int, clock: WallClock) -> None:
        self.seed: Final = seed
        self.clock: Final = clock

    def rng(self, name: str) -> random.Random:
        """Return a random number generator that depends on the seed and the name, and on no other one."""
        return random.Random(f"{self.seed} {name}")  # noqa: S311 - it must be reproducible


def run(main: Callable[[Simulation], Coroutine[Any, Any, T]], *, seed: int = 0, start: float = START) -> T:
    """Run `main` on virtual time, from the wall clock's `start`, and return its result.

    Tasks that it leaves behind are cancelled. Raises StuckError when all tasks wait for each other.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        simulation = Simulation(seed, WallClock(loop.time, start))
        return runner.run(_run_main(main, simulation))


async def _run_main(main: Callable[[Simulation], Coroutine[Any, Any, T]], simulation: Simulation) -> T:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine
    task.set_name("main")
    try:
        return await main(simulation)
    finally:
        await _cancel_other_tasks()


async def _cancel_other_tasks() -> None:
    """Cancel the tasks that are left, oldest first: in the same order in every run."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)  # noqa: S101 - `run` has made it
    others = [task for task in loop.tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


CommitObserver = Callable[[Sequence[Change]], None]
"""Called with the changes of one commit, when readers can see them and before any watcher acts on them."""


class SimulatedCluster(Registry):
    """A cluster in memory, with the behaviour of a Kubernetes API server."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        retention: Retention | None = None,
        bookmark_interval: float = BOOKMARK_INTERVAL,
        cleanup_interval: float = CLEANUP_INTERVAL,
    ) -> None:
        super().__init__(
            clock=clock,
            rng=rng,
            retention=retention,
            bookmark_interval=bookmark_interval,
            cleanup_interval=cleanup_interval,
        )
        self.commit_observers: Final[list[CommitObserver]] = []

    def list_now(self, resource: Resource[T]) -> list[T]:
        """Return all objects of a resource, in order: for observers, which cannot wait."""
        collection = self._state.collection(resource.full_name)
        return [resource.decode(collection.records[name].body) for name in collection.names()]

    def _apply_committed(self, changes: Sequence[Change]) -> None:
        super()._apply_committed(changes)
        for observe in self.commit_observers:
            observe(changes)


class ChangeLog:
    """A commit observer that logs each change as one line, the same in every run of a seed."""

    def __init__(self) -> None:
        self.lines: Final[list[bytes]] = []

    def __call__(self, changes: Sequence[Change]) -> None:
        self.lines.extend(
            b"%.6f %s %s" % (change.record.time, b"-" if change.record.deleted else b"+", change.record.body)
            for change in changes
        )

    def text(self) -> bytes:
        """Return all lines."""
        return b"".join(line + b"\n" for line in self.lines)
