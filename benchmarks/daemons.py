"""Runs a daemon of `shoal up` for benchmarks, and measures it from outside."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

BIN = Path(sys.executable).parent
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""Python caches compiled code, as in every installed package."""

LARGE_NODE = ("--nodes", "1", "--node-cpu", "64", "--node-memory", "64Gi")
"""A node with room for all pods: the benchmark measures running pods, not waiting for resources."""


@contextlib.contextmanager
def daemon(home: Path, *options: str) -> Iterator[int]:
    """Start `shoal up`, wait until it is ready, yield its pid; stop it at the end."""
    with running_command([str(BIN / "shoal"), "up", "--home", str(home), *options]) as process:
        assert process.stdout is not None
        output = process.stdout.readline()
        assert "Shoal is up" in output, output
        yield process.pid


@contextlib.contextmanager
def running_command(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command; send SIGTERM at the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:  # noqa: S603
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def resident_memory(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))
