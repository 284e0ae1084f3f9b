"""The nodes of this machine: the machine as one node or as several, and the detection of its capacity.

CPUs and memory are what this process may use: affinity and cgroup limits count.
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
from shoal.api.quantity import NANO, Quantity, format_bytes, format_milli
from shoal.cluster.node_status import ready_node
from shoal.cluster.resources import Object
from shoal.cluster.schemas.core import KUBERNETES_VERSION

MACHINE_ANNOTATION: Final = "shoal.io/machine"
"""On nodes of an agent: the host name of its machine."""
STOPPED_ANNOTATION: Final = "shoal.io/stopped"
"""On a node that is simulated as failed: `power` or `network`."""


GPU_RESOURCE: Final = "nvidia.com/gpu"
MAX_PODS: Final = 110
"""Pods per node, the default of kubelets."""

_INVALID_NAME_CHARACTERS: Final = re.compile(r"[^a-z0-9.-]+")
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_DRIVER_TIMEOUT: Final = 10.0
"""Seconds that nvidia-smi may take."""
_V1_UNLIMITED: Final = 2**60
"""Cgroup version 1 writes a huge number if there is no limit."""


class LocalNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of this machine: its name and capacity."""

    name: str
    cpu: int
    """Millicores."""
    memory: int
    gpus: tuple[int, ...] = ()
    """Device numbers, as the driver counts them."""

    @property
    def capacity(self) -> dict[str, str]:
        """The capacity as in a node's status."""
        amounts = {
            "cpu": format_milli(self.cpu),
            "memory": format_bytes(self.memory),
            "pods": str(MAX_PODS),
        }
        return amounts | ({GPU_RESOURCE: str(len(self.gpus))} if self.gpus else {})


LocalNodes = tuple[LocalNode, ...]


def local_nodes(
    count: int | None = None, *, cpu: str = "", memory: str = "", gpus: int | None = None
) -> LocalNodes:
    """Divide this machine into nodes; None means one, named like the machine.

    By default each node has an equal share of the machine.
    """
    names = [_hostname()] if count is None else [f"node-{i}" for i in range(count)]
    shares = len(names)
    gpus_each = detect_gpus() // shares if gpus is None else gpus
    millicores = _parse_millicores(cpu) if cpu else int(detect_cpus() * 1000) // shares
    memory_bytes = _parse_bytes(memory) if memory else detect_memory() // shares
    return tuple(
        LocalNode(
            name=name,
            cpu=millicores,
            memory=memory_bytes,
            gpus=tuple(range(i * gpus_each, (i + 1) * gpus_each)),
        )
        for i, name in enumerate(names)
    )


def build_node(local: LocalNode, now: float) -> Object:
    """The node object of a local node."""
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": architecture}
    body = ready_node(local.name, local.capacity, labels, now)
    body["metadata"]["annotations"] = {MACHINE_ANNOTATION: _hostname()}
    body["status"]["nodeInfo"] = _node_info(architecture)
    return body


def _node_info(architecture: str) -> dict[str, str]:
    """System information that `kubectl get nodes -o wide` shows."""
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
    """The host name of this machine as a valid node name."""
    return _INVALID_NAME_CHARACTERS.sub("-", socket.gethostname().lower()).strip("-.")[:63] or "localhost"


def _parse_millicores(text: str) -> int:
    return Quantity(text).nano // (NANO // 1000)


def _parse_bytes(text: str) -> int:
    return Quantity(text).nano // NANO


def detect_cpus(root: Path = Path("/")) -> float:
    """The number of CPUs that this process may use: CPU affinity or cgroup quota."""
    return min(float(len(os.sched_getaffinity(0))), *_cpu_quotas(root), math.inf)


def detect_memory(root: Path = Path("/")) -> int:
    """Bytes of memory that this process may use: all of it or the cgroup limit."""
    total = next(
        int(line.split()[1]) * 1024
        for line in (root / "proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    return min([total, *(limit for limit in _memory_limits(root) if limit < _V1_UNLIMITED)])


def detect_gpus(root: Path = Path("/")) -> int:
    """The number of GPUs that the driver reports."""
    with contextlib.suppress(OSError):
        return len(list((root / "proc/driver/nvidia/gpus").iterdir()))
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, timeout=_DRIVER_TIMEOUT, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith(b"GPU ") for line in listed.stdout.splitlines())


# --- cgroups -----------------------------------------------------------------------------------------------


def _cpu_quotas(root: Path) -> Iterator[float]:
    for text in _read_cgroup_files(root, "", "cpu.max"):
        quota, _, period = text.partition(" ")
        if quota != "max":
            yield int(quota) / int(period)
    for directory in _cgroup_directories(root, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            allowed = int((directory / "cpu.cfs_quota_us").read_text())
            if allowed > 0:
                yield allowed / int((directory / "cpu.cfs_period_us").read_text())


def _memory_limits(root: Path) -> Iterator[int]:
    for text in _read_cgroup_files(root, "", "memory.max"):
        if text != "max":
            yield int(text)
    yield from map(int, _read_cgroup_files(root, "memory", "memory.limit_in_bytes"))


def _read_cgroup_files(root: Path, controller: str, name: str) -> Iterator[str]:
    for directory in _cgroup_directories(root, controller):
        with contextlib.suppress(OSError):
            yield (directory / name).read_text().strip()


def _cgroup_directories(root: Path, controller: str) -> Iterator[Path]:
    """The cgroup of this process and its ancestors: each may have a limit."""
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
