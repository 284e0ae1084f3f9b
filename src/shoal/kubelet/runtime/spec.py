"""Input and output of the runtime: plain data, as it is stored on disk."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

MEBIBYTE = 1024 * 1024

ExitReason = Literal["Completed", "Error", "OOMKilled", "StartError", "Lost"]


class Mount(Struct, frozen=True):
    """A file or directory of this machine that a container sees at another path."""

    source: str
    target: str
    read_only: bool = False


class Limits(Struct, frozen=True):
    """Resource limits of a container: CPU in cores, memory in bytes."""

    cpu: float | None = None
    memory: int | None = None


class ContainerSpec(Struct, frozen=True, kw_only=True):
    """One run of one container: the intent, which is on disk before anything is started."""

    pod: str
    container: str
    attempt: int
    argv: list[str]
    env: dict[str, str]
    """The complete environment: nothing is inherited."""
    cwd: str
    grace: float = 30.0
    """Seconds between SIGTERM and SIGKILL, if the container is not stopped by the daemon."""
    mounts: list[Mount] = []
    limits: Limits = Limits()
    user: int | None = None
    group: int | None = None
    groups: list[int] = []
    log_size: int = 10 * MEBIBYTE
    log_files: int = 5

    @property
    def key(self) -> tuple[str, int]:
        """Unique key within the pod: container and attempt."""
        return self.container, self.attempt


class ExitStatus(Struct, frozen=True):
    """How a run ended; times in seconds since the epoch."""

    code: int
    signal: int | None
    started: float | None
    finished: float
    reason: ExitReason
    message: str = ""


class UsageCounters(Struct, frozen=True):
    """What a run has used: CPU seconds so far, and its working set in bytes now."""

    cpu: float
    memory: int


class RuntimeFeatures(Struct, frozen=True):
    """What containers can use on this machine, as this user; notes say what is missing, and why."""

    mounts: bool
    cgroups: Literal["v2", "v1", ""]
    users: bool
    notes: list[str]


class ResourceUsage(Struct, frozen=True):
    """CPU cores in use, averaged over the measurement window, and bytes of memory at its end."""

    cpu: float
    memory: int


class UsageReport(Struct, frozen=True, kw_only=True):
    """Usage of all nodes and pods: time of the measurement, and length of its window in seconds."""

    at: float
    window: float
    nodes: Mapping[str, ResourceUsage] = {}
    pods: Mapping[tuple[str, str], Mapping[str, ResourceUsage]] = {}
    """By namespace and name of the pod, then by container."""


NO_USAGE: Final = UsageReport(at=0, window=0)
