"""Annotations by which nodes of an embedded home are known, and told what to play.

This machine as a node, or as several.
"""

import contextlib
import math
import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from shoal import __version__
from shoal.api.quantity import NANO, Quantity, format_bytes, format_decimal
from shoal.cluster.node_status import ready_node
from shoal.cluster.resources import Object
from shoal.cluster.schemas.core import KUBERNETES_VERSION

MACHINE_ANNOTATION: Final = "shoal.io/machine"
"""On nodes that an agent plays: the name of its machine."""
STOPPED_ANNOTATION: Final = "shoal.io/stopped"
"""On a node that is to be as if it were lost: `power` or `network`."""


GPU_RESOURCE: Final = "nvidia.com/gpu"
PODS: Final = 110
"""How many pods a node takes at once, as kubelets have it."""

_NO_NAME: Final = re.compile(r"[^a-z0-9.-]+")
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class LocalNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node: its name and what it has to give."""

    name: str
    cpu: int
    """Thousandths."""
    memory: int
    gpus: tuple[int, ...] = ()
    """The numbers of its devices, as the driver counts them."""

    @property
    def capacity(self) -> dict[str, str]:
        """What it has, as nodes say it."""
        amounts = {"cpu": format_decimal(self.cpu), "memory": format_bytes(self.memory), "pods": str(PODS)}
        return amounts | ({GPU_RESOURCE: str(len(self.gpus))} if self.gpus else {})


LocalNodes = tuple[LocalNode, ...]


def local_nodes(
    count: int | None = None, *, cpu: str = "", memory: str = "", gpus: int | None = None
) -> LocalNodes:
    """This machine as so many nodes. What a node has is its share of the machine, unless it is said."""
    names = [_hostname()] if count is None else [f"node-{i}" for i in range(count)]
    shares = len(names)
    each = detect_gpus() // shares if gpus is None else gpus
    milli = _milli(cpu) if cpu else int(detect_cpus() * 1000) // shares
    size = _whole(memory) if memory else detect_memory() // shares
    return tuple(
        LocalNode(name=name, cpu=milli, memory=size, gpus=tuple(range(i * each, (i + 1) * each)))
        for i, name in enumerate(names)
    )


def build_node(local: LocalNode, now: float) -> Object:
    """The node that says what a machine has."""
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": architecture}
    body = ready_node(local.name, local.capacity, labels, now)
    body["metadata"]["annotations"] = {MACHINE_ANNOTATION: _hostname()}
    body["status"]["nodeInfo"] = _about(architecture)
    return body


def _about(architecture: str) -> dict[str, str]:
    """What `kubectl get nodes -o wide` shows of the system."""
    known = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    return {
        "architecture": architecture,
        "operatingSystem": "linux",
        "osImage": known.get("PRETTY_NAME", "Linux"),
        "kernelVersion": platform.release(),
        "containerRuntimeVersion": f"shoal://{__version__}",
        "kubeletVersion": f"v{KUBERNETES_VERSION}",
    }


def _hostname() -> str:
    """The name of this machine, as a node can have it."""
    return _NO_NAME.sub("-", socket.gethostname().lower()).strip("-.")[:63] or "localhost"


def _milli(text: str) -> int:
    return Quantity(text).nano // (NANO // 1000)


def _whole(text: str) -> int:
    return Quantity(text).nano // NANO


_PATIENCE: Final = 10.0
"""Seconds that the driver of a GPU may take to answer."""
_NO_LIMIT: Final = 2**60
"""The first cgroups write a huge number where there is no limit."""


def detect_cpus(root: Path = Path("/")) -> float:
    """How many CPUs there are for us: those that we may run on, or what the cgroup grants of them."""
    return min(float(len(os.sched_getaffinity(0))), *_quotas(root), math.inf)


def detect_memory(root: Path = Path("/")) -> int:
    """How many bytes of memory there are for us: all of it, or what the cgroup grants."""
    total = next(
        int(line.split()[1]) * 1024
        for line in (root / "proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    return min([total, *(limit for limit in _memory_limits(root) if limit < _NO_LIMIT)])


def detect_gpus(root: Path = Path("/")) -> int:
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
