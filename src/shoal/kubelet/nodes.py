"""Annotations by which nodes of an embedded home are known, and told what to play.

This machine as a node, or as several.
"""

import platform
import re
import socket
from pathlib import Path
from typing import Final

import msgspec

from shoal import __version__
from shoal.api.quantity import NANO, Quantity, format_bytes, format_decimal
from shoal.cluster.node_status import node
from shoal.cluster.resources import Object
from shoal.cluster.schemas.core import VERSION
from shoal.kubelet import detection

OURS: Final = "shoal.io/machine"
"""On nodes that an agent plays: the name of its machine."""
STOPPED: Final = "shoal.io/stopped"
"""On a node that is to be as if it were lost: `power` or `network`."""


GPU: Final = "nvidia.com/gpu"
PODS: Final = 110
"""How many pods a node takes at once, as kubelets have it."""

_NO_NAME: Final = re.compile(r"[^a-z0-9.-]+")
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
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
        return amounts | ({GPU: str(len(self.gpus))} if self.gpus else {})


Machines = tuple[Machine, ...]


def machines(
    count: int | None = None, *, cpu: str = "", memory: str = "", gpus: int | None = None
) -> Machines:
    """This machine as so many nodes. What a node has is its share of the machine, unless it is said."""
    names = [_hostname()] if count is None else [f"node-{i}" for i in range(count)]
    shares = len(names)
    each = detection.gpus() // shares if gpus is None else gpus
    milli = _milli(cpu) if cpu else int(detection.cpus() * 1000) // shares
    size = _whole(memory) if memory else detection.memory() // shares
    return tuple(
        Machine(name=name, cpu=milli, memory=size, gpus=tuple(range(i * each, (i + 1) * each)))
        for i, name in enumerate(names)
    )


def node_of(machine: Machine, now: float) -> Object:
    """The node that says what a machine has."""
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": architecture}
    body = node(machine.name, machine.capacity, labels, now)
    body["metadata"]["annotations"] = {OURS: _hostname()}
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
        "kubeletVersion": f"v{VERSION}",
    }


def _hostname() -> str:
    """The name of this machine, as a node can have it."""
    return _NO_NAME.sub("-", socket.gethostname().lower()).strip("-.")[:63] or "localhost"


def _milli(text: str) -> int:
    return Quantity(text).nano // (NANO // 1000)


def _whole(text: str) -> int:
    return Quantity(text).nano // NANO
