"""What a run uses: by its cgroups where it has some, else added up over its processes."""

import os
from pathlib import Path
from typing import Final

from shoal.kubelet.runtime.records import ShimRecord
from shoal.kubelet.runtime.spec import Usage
from shoal.kubelet.shim import process

_FILES: Final = ("cpu.stat", "cpuacct.usage", "memory.current", "memory.usage_in_bytes", "memory.stat")
"""Of both versions; each cgroup has some of them."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def usage(record: ShimRecord) -> Usage:
    """Seconds of CPU so far, and the memory that it works with."""
    return _of_cgroups(record.cgroups) or _of_processes(record.pid)


def _of_cgroups(directories: list[str]) -> Usage | None:
    numbers: dict[str, int] = {}
    for directory in directories:
        for file in _FILES:
            numbers |= _numbers(Path(directory, file))
    memory = numbers.get("memory.current", numbers.get("memory.usage_in_bytes"))
    if memory is None:
        return None
    cpu = numbers["usage_usec"] / 1e6 if "usage_usec" in numbers else numbers.get("cpuacct.usage", 0) / 1e9
    idle = numbers.get("total_inactive_file", numbers.get("inactive_file", 0))
    return Usage(cpu, max(0, memory - idle))


def _numbers(path: Path) -> dict[str, int]:
    """What a file counts: by name, or by its own name if it is one number only."""
    try:
        lines = [line.split() for line in path.read_text("ascii").splitlines()]
    except OSError:
        return {}
    return {line[0] if len(line) > 1 else path.name: int(line[-1]) for line in lines}


def _of_processes(shim: int) -> Usage:
    """Whoever descends from the shim is of its container: it adopts those whose parents die."""
    found = [stat for pid in process.descendants(shim) if (stat := process.stat(pid))]
    return Usage(sum(stat.ticks for stat in found) / _TICKS, sum(stat.pages for stat in found) * _PAGE)
