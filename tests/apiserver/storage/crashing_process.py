"""A program that runs the scenario in many directories, and kills itself in each at another point.

`python -m tests.apiserver.storage.crashing_process DIRECTORY quick|slow ROUNDS POINT...`: a fork, with all
modules imported, for each point. A point is a moment of a commit: before the transaction, before its commit,
or after it and before the acknowledgement. Acknowledged versions are in the file `acknowledged`.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from shoal.apiserver.registry.records import Record
from shoal.apiserver.sqlite import CommitLatency, SqliteJournal
from tests.apiserver.storage.scenario import play

NEVER = 10**9


class FixedLatency(CommitLatency):
    """Constant latency: the sequence of commits must not depend on the load of the machine."""

    def __init__(self, *, quick: bool) -> None:
        super().__init__()
        self._quick = quick

    @property
    def is_low(self) -> bool:
        return self._quick


class CrashingJournal(SqliteJournal):
    """Calls a hook around every commit."""

    def __init__(self, directory: Path, hook: Callable[[], None], *, quick: bool) -> None:
        super().__init__(directory, FixedLatency(quick=quick))
        self._hook = hook
        self._connection.set_trace_callback(self._traced)

    def _traced(self, statement: str) -> None:
        if statement.startswith(("BEGIN", "COMMIT")):
            self._hook()

    def _append(self, records: Sequence[Record]) -> None:
        super()._append(records)
        self._hook()


class Countdown:
    """Counts points, and kills the process at one of them."""

    def __init__(self, point: int) -> None:
        self.passed = 0
        self._point = point

    def __call__(self) -> None:
        if self.passed == self._point:
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1


def run_scenario(directory: Path, rounds: int, point: int, *, quick: bool) -> int:
    """Run the scenario up to a point; returns the number of points if it completes."""
    countdown = Countdown(point)
    directory.mkdir(parents=True)
    with (directory / "acknowledged").open("w", buffering=1) as file:
        journal = CrashingJournal(directory / "home", countdown, quick=quick)
        asyncio.run(play(journal, rounds, lambda version: print(version, file=file)))
    return countdown.passed


def main(directory: Path, disk: str, rounds: int, points: Sequence[int]) -> None:
    """Run a fork for each point; without points, only count them."""
    quick = disk == "quick"
    if not points:
        sys.stdout.write(f"{run_scenario(directory / 'whole', rounds, NEVER, quick=quick)}\n")
    for point in points:
        child = os.fork()
        if child == 0:
            run_scenario(directory / str(point), rounds, point, quick=quick)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"point {point} was not reached: {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), [int(point) for point in sys.argv[4:]])
