"""Cgroups: limits and usage of containers, and a reliable way to find all processes of a container.

Version 2 is used where it has the controllers, else version 1. The cgroups are created below the one of this
process, or below its nearest ancestor where this user may create some: an ordinary user may where systemd has
delegated a subtree. Without cgroups usage is summed over processes.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from shoal.kubelet.runtime.records import ShimRecord
from shoal.kubelet.runtime.spec import Limits, UsageCounters
from shoal.kubelet.shim import process

_CPU_PERIOD: Final = 100_000
"""Microseconds over which a CPU limit is enforced."""
_V1_CONTROLLERS: Final = ("cpu", "memory", "cpuacct")
_V2_CONTROLLERS: Final = ("cpu", "memory")
_USAGE_FILES: Final = ("cpu.stat", "cpuacct.usage", "memory.current", "memory.usage_in_bytes", "memory.stat")
"""Files of both versions; each cgroup has some of them."""
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")


class CgroupHierarchies(NamedTuple):
    """Where cgroups can be created: one base directory for version 2, one per controller for version 1."""

    version: Literal["v2", "v1", ""]
    bases: tuple[Path, ...]
    note: str = ""


class CgroupManager:
    """Creates the cgroups of the containers of one home."""

    def __init__(self, hierarchies: CgroupHierarchies) -> None:
        self._bases = hierarchies.bases

    def close(self) -> None:
        """Remove the base directories, unless a container is still running."""
        remove_cgroups([str(base) for base in self._bases])

    def create(self, name: str, limits: Limits) -> list[str]:
        """Create the cgroups of one run, with limits; OSError if the system refuses."""
        directories = []
        for base in self._bases:
            directory = base / name
            directory.mkdir(exist_ok=True)
            directories.append(str(directory))
            for file, value in _settings(limits).items():
                if (directory / file).exists():  # each controller and version has its own files
                    (directory / file).write_text(value)
        return directories


def remove_cgroups(directories: list[str]) -> None:
    """Remove the cgroups of a run that has ended; those still in use are left."""
    for directory in directories:
        with suppress(OSError):
            os.rmdir(directory)  # noqa: PTH106 - its files go with it


def _settings(limits: Limits) -> Mapping[str, str]:
    """Files to write for limits, in the order the kernel requires.

    Missing files are skipped by the caller.
    """
    settings: dict[str, str] = {}
    if limits.cpu is not None:
        quota = max(1000, round(limits.cpu * _CPU_PERIOD))  # the kernel's minimum
        settings |= {"cpu.max": f"{quota} {_CPU_PERIOD}", "cpu.cfs_period_us": str(_CPU_PERIOD)}
        settings |= {"cpu.cfs_quota_us": str(quota)}
    if limits.memory is not None:
        amount = str(limits.memory)
        settings |= {"memory.max": amount, "memory.swap.max": "0", "memory.oom.group": "1"}
        settings |= {"memory.limit_in_bytes": amount, "memory.memsw.limit_in_bytes": amount}
    return settings


# --- hierarchies -------------------------------------------------------------------------------------------


def find_hierarchies(name: str) -> CgroupHierarchies:
    """Find where cgroups can be created, by creating directories of this name."""
    mounts, own = _mounts(), _own_cgroups()
    if unified := mounts.get(""):
        base = _first_usable(unified, own.get("", "/"), name, _V2_CONTROLLERS)
        if base:
            return CgroupHierarchies("v2", (base,))
    mount_points = {kind: mounts[kind] for kind in _V1_CONTROLLERS if kind in mounts}
    bases = {_first_usable(root, own.get(kind, "/"), name, ()) for kind, root in mount_points.items()}
    if mount_points and None not in bases:
        return CgroupHierarchies("v1", tuple(sorted(base for base in bases if base)))
    reason = "this user may not create any" if unified or mount_points else "the system has none"
    return CgroupHierarchies("", (), f"CPU and memory limits are not enforced: no cgroups ({reason})")


def _mounts() -> dict[str, Path]:
    """Mount point of each version 1 controller and, under the empty name, of version 2."""
    found = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, path, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found[""] = Path(path)
        elif kind == "cgroup":
            found |= {option: Path(path) for option in options.split(",") if option in _V1_CONTROLLERS}
    return found


def _own_cgroups() -> dict[str, str]:
    """The cgroup of this process, by controller."""
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    return {name: path for _, names, path in lines for name in names.split(",")}


def _first_usable(root: Path, own: str, name: str, controllers: tuple[str, ...]) -> Path | None:
    """Create a base directory in the cgroup of this process, or in its nearest ancestor where that works."""
    start = root / own.lstrip("/")
    for parent in _ancestors(start if start.is_dir() else root, root):
        with suppress(OSError):
            base = parent / name
            base.mkdir(exist_ok=True)
            if _is_usable(parent, base, controllers):
                return base
            base.rmdir()
    return None


def _is_usable(parent: Path, base: Path, controllers: tuple[str, ...]) -> bool:
    """Whether cgroups below `base` would have these controllers, and processes may be moved there."""
    enable = " ".join(f"+{name}" for name in controllers)
    try:
        for level in (parent, base) if controllers else ():
            level.joinpath("cgroup.subtree_control").write_text(enable)
    except OSError:  # controllers missing or not delegated, or the cgroup has processes
        return False
    return os.access(parent / "cgroup.procs", os.W_OK)


def _ancestors(start: Path, root: Path) -> Iterator[Path]:
    yield start
    while start != root:
        start = start.parent
        yield start


def read_usage(record: ShimRecord) -> UsageCounters:
    """CPU seconds used so far, and the working set in bytes.

    From cgroups if there are any, else from /proc.
    """
    return _cgroup_usage(record.cgroups) or _process_usage(record.pid)


def _cgroup_usage(directories: list[str]) -> UsageCounters | None:
    counters: dict[str, int] = {}
    for directory in directories:
        for file in _USAGE_FILES:
            counters |= _read_counters(Path(directory, file))
    memory = counters.get("memory.current", counters.get("memory.usage_in_bytes"))
    if memory is None:
        return None
    cpu = counters["usage_usec"] / 1e6 if "usage_usec" in counters else counters.get("cpuacct.usage", 0) / 1e9
    idle = counters.get("total_inactive_file", counters.get("inactive_file", 0))
    return UsageCounters(cpu, max(0, memory - idle))


def _read_counters(path: Path) -> dict[str, int]:
    """The counters of a file by name; a file with a single number is counted under its own name."""
    try:
        lines = [line.split() for line in path.read_text("ascii").splitlines()]
    except OSError:
        return {}
    return {line[0] if len(line) > 1 else path.name: int(line[-1]) for line in lines}


def _process_usage(shim: int) -> UsageCounters:
    """Sum over the descendants of the shim: it adopts orphans, so they are all processes of the container."""
    found = [stat for pid in process.descendants(shim) if (stat := process.stat(pid))]
    return UsageCounters(
        sum(stat.ticks for stat in found) / _TICKS_PER_SECOND, sum(stat.pages for stat in found) * _PAGE_SIZE
    )
