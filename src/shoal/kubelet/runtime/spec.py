"""What the runtime is asked for, and what it answers: plain data, as it lies on disk."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

MEBIBYTE = 1024 * 1024

Reason = Literal["Completed", "Error", "OOMKilled", "StartError", "Lost"]


class Mount(Struct, frozen=True):
    """A file or directory of this machine that a container sees at another place."""

    source: str
    target: str
    read_only: bool = False


class Limits(Struct, frozen=True):
    """What a container may use at most: cores, and bytes."""

    cpu: float | None = None
    memory: int | None = None


class ContainerSpec(Struct, frozen=True, kw_only=True):
    """One run of one container: the intent, which is on disk before anything is started."""

    pod: str
    container: str
    attempt: int
    argv: list[str]
    env: dict[str, str]
    """All of it: nothing is inherited."""
    cwd: str
    grace: float = 30.0
    """Seconds between SIGTERM and SIGKILL, if it is not the daemon that ends the container."""
    mounts: list[Mount] = []
    limits: Limits = Limits()
    user: int | None = None
    group: int | None = None
    groups: list[int] = []
    log_size: int = 10 * MEBIBYTE
    log_files: int = 5

    @property
    def key(self) -> tuple[str, int]:
        """Which run of its pod this is."""
        return self.container, self.attempt


class Exit(Struct, frozen=True):
    """How a run ended; times in seconds since the epoch."""

    code: int
    signal: int | None
    started: float | None
    finished: float
    reason: Reason
    message: str = ""


class Usage(Struct, frozen=True):
    """What a run has used: seconds of CPU so far, and bytes that it works with now."""

    cpu: float
    memory: int


class Abilities(Struct, frozen=True):
    """What containers can have on this machine, for this user; notes say what not, and why."""

    mounts: bool
    cgroups: Literal["v2", "v1", ""]
    users: bool
    notes: list[str]


class Load(Struct, frozen=True):
    """Cores in use, on average over the window of the measurement, and bytes of memory at its end."""

    cpu: float
    memory: int


class Consumption(Struct, frozen=True, kw_only=True):
    """One measurement of everything: when it was made, and over how many seconds."""

    at: float
    window: float
    nodes: Mapping[str, Load] = {}
    pods: Mapping[tuple[str, str], Mapping[str, Load]] = {}
    """By namespace and name of the pod, then by container."""


NOTHING: Final = Consumption(at=0, window=0)
