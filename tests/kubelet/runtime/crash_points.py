"""A small daemon that is killed while it starts a container, each time at another point.

`python -m tests.kubelet.runtime.crash_points DIRECTORY POINT...`: each point is tried in a fork,
after all imports, in a home of its own. A point is a system call that Python reports to audit hooks: a
directory created, a file opened or renamed, a lock taken, a process spawned.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from shoal.kubelet.runtime import ContainerSpec, open_runtime
from tests.kubelet.runtime.containers import shell

NEVER = 10**9
EXIT_CODE = 5


def spec(home: Path) -> ContainerSpec:
    """A container that records how often it ran."""
    return shell(f"echo ran >> {home}/ran; exit {EXIT_CODE}", pod=f"pod-{home.name}")


class Countdown:
    """Kills the process at a point, once it is armed."""

    def __init__(self, point: int) -> None:
        self.passed = 0
        self.armed = False
        self._point = point

    def __call__(self, event: str, _: object) -> None:
        if self.armed and event.startswith(("os.", "open", "fcntl.")):
            if self.passed == self._point:
                self.armed = False  # `os.kill` is audited too
                os.kill(os.getpid(), signal.SIGKILL)
            self.passed += 1


async def run_daemon(home: Path, countdown: Countdown) -> None:
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
            asyncio.run(run_daemon(directory / str(point), countdown))
            sys.stdout.write(f"{countdown.passed}\n")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(point) for point in sys.argv[2:]])
