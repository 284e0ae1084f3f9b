"""A small daemon that dies while it starts a container, each time at another point.

`python -m tests.kubelet.runtime.crashing DIRECTORY POINT...`: each point is tried by a fork that has
everything imported already, in a home of its own. A point is a call of the system that Python tells auditors
of: a directory made, a file opened or renamed, a lock taken, a process spawned.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from shoal.kubelet.runtime import ContainerSpec, open_runtime
from tests.kubelet.runtime.containers import shell

NEVER = 10**9
CODE = 5


def spec(home: Path) -> ContainerSpec:
    """A container that tells how often it ran."""
    return shell(f"echo ran >> {home}/ran; exit {CODE}", pod=f"pod-{home.name}")


class Countdown:
    """Kills the process at a point, once it is armed."""

    def __init__(self, point: int) -> None:
        self.passed = 0
        self.armed = False
        self._point = point

    def __call__(self, event: str, _: object) -> None:
        if self.armed and event.startswith(("os.", "open", "fcntl.")):
            if self.passed == self._point:
                self.armed = False  # killing is told of too
                os.kill(os.getpid(), signal.SIGKILL)
            self.passed += 1


async def live(home: Path, countdown: Countdown) -> None:
    async with open_runtime(home) as runtime:
        countdown.armed = True
        run = await runtime.start(spec(home))
        await run.wait()
        countdown.armed = False
        await runtime.remove(run.spec.pod)


def main(directory: Path, points: list[int]) -> None:
    """Try each point in a fork; with no points, only count them."""
    for point in points or [NEVER]:
        child = os.fork()
        if child == 0:
            countdown = Countdown(point)
            sys.addaudithook(countdown)
            asyncio.run(live(directory / str(point), countdown))
            sys.stdout.write(f"{countdown.passed}\n")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(point) for point in sys.argv[2:]])
