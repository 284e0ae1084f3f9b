"""The directory of one run: its files, and what they mean together.

`intent.json` is written first, by the daemon. `lock` is locked while the shim lives. The shim writes
`shim.json` before the container is forked and `exit.json` when it has ended. So a daemon can tell at its
start what became of every run of an earlier daemon, wherever either was killed.
"""

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec
from msgspec import Struct

from shoal.kubelet.runtime.spec import ContainerSpec, ExitStatus
from shoal.kubelet.shim import process
from shoal.kubelet.shim.records import fsync_directory, write_atomically

T = TypeVar("T")

PODS_DIRECTORY: Final = "pods"
RUNS_DIRECTORY: Final = "runs"


class ShimRecord(Struct, frozen=True, rename="camel"):
    """Identity of a shim and, once the container runs, of its first process."""

    boot: str
    pid: int
    start: int
    container: int | None
    container_start: int | None
    started: float | None
    cgroups: list[str]

    def open_process(self) -> int | None:
        """A pidfd of the shim; None if it is dead or its pid was reused."""
        if self.boot != process.boot_id():
            return None
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        found = process.stat(self.pid)
        if found is None or found.started != self.start:
            os.close(descriptor)
            return None
        return descriptor


_UNREADABLE: Final = ShimRecord(
    boot="", pid=0, start=0, container=None, container_start=None, started=None, cgroups=[]
)


class RunDirectory:
    """The files of one run."""

    def __init__(self, home: Path, pod: str, container: str, attempt: int) -> None:
        self.path: Final = home / PODS_DIRECTORY / pod / RUNS_DIRECTORY / container / str(attempt)
        self._home = home

    @classmethod
    def of(cls, home: Path, spec: ContainerSpec) -> Self:
        return cls(home, spec.pod, spec.container, spec.attempt)

    @property
    def log(self) -> Path:
        return self.path / "log"

    def intent(self) -> ContainerSpec | None:
        return _read(self.path / "intent.json", ContainerSpec)

    def shim(self) -> ShimRecord | None:
        """The shim's record.

        If a power failure has emptied the file, a record of no boot: the shim is dead.
        """
        path = self.path / "shim.json"
        return _read(path, ShimRecord) or (_UNREADABLE if path.exists() else None)

    def exit(self) -> ExitStatus | None:
        return _read(self.path / "exit.json", ExitStatus)

    def write_intent(self, spec: ContainerSpec) -> None:
        """Create the directory and write the intent; both are durable when this returns."""
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(str(self.path / "intent.json"), msgspec.json.encode(spec), durable=True)
        for folder in made:
            fsync_directory(str(folder.parent))

    def write_exit(self, end: ExitStatus) -> None:
        write_atomically(str(self.path / "exit.json"), msgspec.json.encode(end), durable=True)

    def remove(self) -> None:
        """Delete the run; the intent first, since a directory without one is not taken for a run."""
        with suppress(OSError):
            self.path.joinpath("intent.json").unlink()
            shutil.rmtree(self.path)

    def write_stop_deadline(self, deadline: float) -> None:
        """Write by when, on the monotonic clock, the container must have ended.

        Never later than an earlier deadline.
        """
        path = self.path / "stop.json"
        earlier = _read(path, float)
        until = deadline if earlier is None else min(deadline, earlier)
        write_atomically(str(path), msgspec.json.encode(until), durable=False)

    def is_stopping(self) -> bool:
        return (self.path / "stop.json").exists()

    def lock(self) -> int | None:
        """A descriptor that holds the lock; None if a shim holds it."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def is_locked(self) -> bool:
        """Whether a shim of this run is alive."""
        descriptor = self.lock()
        if descriptor is None:
            return True
        os.close(descriptor)
        return False


def _read(path: Path, kind: type[T]) -> T | None:
    """Decode a file; None if it does not exist or was torn by a power failure."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def list_pods(home: Path) -> set[str]:
    """The uids of pods that have a directory."""
    return {path.name for path in home.joinpath(PODS_DIRECTORY).glob("*") if path.is_dir()}


def list_runs(home: Path) -> list[RunDirectory]:
    """All runs that have a directory, sorted by pod, container and attempt."""
    found = [
        path.parts[-4:]
        for path in home.joinpath(PODS_DIRECTORY).glob(f"*/{RUNS_DIRECTORY}/*/*")
        if path.name.isdigit()
    ]
    keys = sorted((pod, container, int(attempt)) for pod, _, container, attempt in found)
    return [RunDirectory(home, *key) for key in keys]
