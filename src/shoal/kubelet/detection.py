"""What this machine has: CPUs, memory and GPUs, as far as this process may use them."""

import contextlib
import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PATIENCE: Final = 10.0
"""Seconds that the driver of a GPU may take to answer."""
_NO_LIMIT: Final = 2**60
"""The first cgroups write a huge number where there is no limit."""


def cpus(root: Path = Path("/")) -> float:
    """How many CPUs there are for us: those that we may run on, or what the cgroup grants of them."""
    return min(float(len(os.sched_getaffinity(0))), *_quotas(root), math.inf)


def memory(root: Path = Path("/")) -> int:
    """How many bytes of memory there are for us: all of it, or what the cgroup grants."""
    total = next(
        int(line.split()[1]) * 1024
        for line in (root / "proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    return min([total, *(limit for limit in _memory_limits(root) if limit < _NO_LIMIT)])


def gpus(root: Path = Path("/")) -> int:
    """How many GPUs the driver knows of."""
    with contextlib.suppress(OSError):
        return len(list((root / "proc/driver/nvidia/gpus").iterdir()))
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, timeout=_PATIENCE, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith(b"GPU ") for line in listed.stdout.splitlines())


# --- cgroups -----------------------------------------------------------------------------------------------


def _quotas(root: Path) -> Iterator[float]:
    for text in _read(root, "", "cpu.max"):
        quota, _, period = text.partition(" ")
        if quota != "max":
            yield int(quota) / int(period)
    for directory in _directories(root, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            allowed = int((directory / "cpu.cfs_quota_us").read_text())
            if allowed > 0:
                yield allowed / int((directory / "cpu.cfs_period_us").read_text())


def _memory_limits(root: Path) -> Iterator[int]:
    for text in _read(root, "", "memory.max"):
        if text != "max":
            yield int(text)
    yield from map(int, _read(root, "memory", "memory.limit_in_bytes"))


def _read(root: Path, controller: str, name: str) -> Iterator[str]:
    for directory in _directories(root, controller):
        with contextlib.suppress(OSError):
            yield (directory / name).read_text().strip()


def _directories(root: Path, controller: str) -> Iterator[Path]:
    """The cgroups that we are in, from ours up to the first: each may have a limit."""
    mounted = root / "sys/fs/cgroup" / controller
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            inner = mounted / path.lstrip("/")
            yield from (inner, *inner.parents[: len(Path(path).parts) - 1])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
