"""Cgroups: limits, consumption, and a sure way to find every process of a container.

Version 2 where it has the controllers, else version 1. Ours lie below the cgroup that this process is in, or
below the nearest one above it in which we may make some: an ordinary user may where systemd has delegated it.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from shoal.kubelet.runtime.spec import Limits

_PERIOD: Final = 100_000
"""Microseconds over which a limit of CPU is kept."""
_V1: Final = ("cpu", "memory", "cpuacct")
_V2: Final = ("cpu", "memory")


class Hierarchies(NamedTuple):
    """Where cgroups can be made: one base for version 2, one for each controller for version 1, else none."""

    version: Literal["v2", "v1", ""]
    bases: tuple[Path, ...]
    note: str = ""


class Cgroups:
    """The cgroups of the containers of one home."""

    def __init__(self, hierarchies: Hierarchies) -> None:
        self._bases = hierarchies.bases

    def close(self) -> None:
        """Leave nothing behind, unless some container lives on."""
        remove([str(base) for base in self._bases])

    def make(self, name: str, limits: Limits) -> list[str]:
        """Cgroups for one run; OSError if the system refuses."""
        made = []
        for base in self._bases:
            directory = base / name
            directory.mkdir(exist_ok=True)
            made.append(str(directory))
            for file, value in _settings(limits).items():
                if (directory / file).exists():  # every controller and version has its own
                    (directory / file).write_text(value)
        return made


def remove(directories: list[str]) -> None:
    """Remove the cgroups of a run that has ended; one that is still in use is left."""
    for directory in directories:
        with suppress(OSError):
            os.rmdir(directory)  # noqa: PTH106 - its files go with it


def _settings(limits: Limits) -> Mapping[str, str]:
    """What is written for limits, in the order in which it must be; files that are not there are left out."""
    settings: dict[str, str] = {}
    if limits.cpu is not None:
        quota = max(1000, round(limits.cpu * _PERIOD))  # less the kernel does not take
        settings |= {"cpu.max": f"{quota} {_PERIOD}", "cpu.cfs_period_us": str(_PERIOD)}
        settings |= {"cpu.cfs_quota_us": str(quota)}
    if limits.memory is not None:
        amount = str(limits.memory)
        settings |= {"memory.max": amount, "memory.swap.max": "0", "memory.oom.group": "1"}
        settings |= {"memory.limit_in_bytes": amount, "memory.memsw.limit_in_bytes": amount}
    return settings


# --- where -------------------------------------------------------------------------------------------------


def find(name: str) -> Hierarchies:
    """Where we may make cgroups, found by making some of this name."""
    mounts, own = _mounts(), _own()
    if unified := mounts.get(""):
        base = _first_usable(unified, own.get("", "/"), name, _V2)
        if base:
            return Hierarchies("v2", (base,))
    places = {kind: mounts[kind] for kind in _V1 if kind in mounts}
    bases = {_first_usable(place, own.get(kind, "/"), name, ()) for kind, place in places.items()}
    if places and None not in bases:
        return Hierarchies("v1", tuple(sorted(base for base in bases if base)))
    reason = "this user may make none here" if unified or places else "the system has none"
    return Hierarchies("", (), f"limits of cpu and memory are not enforced: no cgroups ({reason})")


def _mounts() -> dict[str, Path]:
    """Where each controller of version 1 is mounted and, under the empty name, version 2."""
    found = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found[""] = Path(place)
        elif kind == "cgroup":
            found |= {option: Path(place) for option in options.split(",") if option in _V1}
    return found


def _own() -> dict[str, str]:
    """The cgroup that we are in, by controller."""
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    return {name: path for _, names, path in lines for name in names.split(",")}


def _first_usable(root: Path, own: str, name: str, controllers: tuple[str, ...]) -> Path | None:
    """A directory of ours in the cgroup that we are in, or in the nearest above it where that works."""
    start = root / own.lstrip("/")
    for place in _upwards(start if start.is_dir() else root, root):
        with suppress(OSError):
            base = place / name
            base.mkdir(exist_ok=True)
            if _is_usable(place, base, controllers):
                return base
            base.rmdir()
    return None


def _is_usable(place: Path, base: Path, controllers: tuple[str, ...]) -> bool:
    """Whether containers below `base` would have these controllers, and a process may be moved there."""
    wanted = " ".join(f"+{name}" for name in controllers)
    try:
        for level in (place, base) if controllers else ():
            level.joinpath("cgroup.subtree_control").write_text(wanted)
    except OSError:  # no such controllers, not ours to give, or there are processes in it
        return False
    return os.access(place / "cgroup.procs", os.W_OK)


def _upwards(start: Path, root: Path) -> Iterator[Path]:
    yield start
    while start != root:
        start = start.parent
        yield start
