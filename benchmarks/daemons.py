"""A daemon of `shoal up` for benchmarks, and what can be seen of it from outside."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

BIN = Path(sys.executable).parent
AROUND = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""Compiled code is kept, as it is for everybody who installs a package."""

ONE_NODE = ("--nodes", "1", "--node-cpu", "64", "--node-memory", "64Gi")
"""A node with room for everything: what is measured is what runs pods, not what waits for room."""


@contextlib.contextmanager
def daemon(home: Path, *more: str) -> Iterator[int]:
    """A `shoal up` that is ready; its process. It is stopped when the block ends."""
    with spawned([str(BIN / "shoal"), "up", "--home", str(home), *more]) as running:
        assert running.stdout is not None
        said = running.stdout.readline()
        assert "Shoal is up" in said, said
        yield running.pid


@contextlib.contextmanager
def spawned(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A command, which is told to stop when the block ends."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=AROUND) as running:  # noqa: S603
        try:
            yield running
        finally:
            running.send_signal(signal.SIGTERM)


def resident(pid: int) -> float:
    """Mebibytes of memory that a process has."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))
