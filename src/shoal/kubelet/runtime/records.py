"""The directory of one run: what is written there, by whom, and what it means together.

`intent.json` is the daemon's and comes first. `lock` is locked for as long as the shim lives. `shim.json` is
written before the container is forked, `exit.json` when it is over. So a daemon that starts can tell what
became of every run that an earlier one began, wherever either was killed.
"""

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec
from msgspec import Struct

from shoal.kubelet.runtime.spec import ContainerSpec, Exit
from shoal.kubelet.shim import process
from shoal.kubelet.shim.records import sync_directory, write_whole

T = TypeVar("T")

PODS: Final = "pods"
RUNS: Final = "runs"


class ShimRecord(Struct, frozen=True, rename="camel"):
    """Who a shim is and, once it runs, who its container is."""

    boot: str
    pid: int
    start: int
    container: int | None
    container_start: int | None
    started: float | None
    cgroups: list[str]

    def open(self) -> int | None:
        """A descriptor of the shim's process, if it lives and is the one that was meant."""
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


_FORGOTTEN: Final = ShimRecord(
    boot="", pid=0, start=0, container=None, container_start=None, started=None, cgroups=[]
)


class RunDirectory:
    """The files of one run."""

    def __init__(self, home: Path, pod: str, container: str, attempt: int) -> None:
        self.path: Final = home / PODS / pod / RUNS / container / str(attempt)
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
        """Who its shim is, or was; nobody of this boot if a power cut has left of the file only its name."""
        path = self.path / "shim.json"
        return _read(path, ShimRecord) or (_FORGOTTEN if path.exists() else None)

    def exit(self) -> Exit | None:
        return _read(self.path / "exit.json", Exit)

    def write_intent(self, spec: ContainerSpec) -> None:
        """Make the directory, and keep the intent in it: when this returns, both are on the disk."""
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(str(self.path / "intent.json"), msgspec.json.encode(spec), durable=True)
        for folder in made:
            sync_directory(str(folder.parent))

    def write_exit(self, end: Exit) -> None:
        write_whole(str(self.path / "exit.json"), msgspec.json.encode(end), durable=True)

    def remove(self) -> None:
        """Forget the run. Without its intent it is none, so that nobody takes half of it for a whole."""
        with suppress(OSError):
            self.path.joinpath("intent.json").unlink()
            shutil.rmtree(self.path)

    def shorten_stop(self, deadline: float) -> None:
        """Say by when, on the monotonic clock, the container must have ended; never later than was said."""
        path = self.path / "stop.json"
        earlier = _read(path, float)
        until = deadline if earlier is None else min(deadline, earlier)
        write_whole(str(path), msgspec.json.encode(until), durable=False)

    def stopping(self) -> bool:
        return (self.path / "stop.json").exists()

    def lock(self) -> int | None:
        """A descriptor that holds the lock, or nothing if a shim has it."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def is_locked(self) -> bool:
        """Whether a shim lives here."""
        descriptor = self.lock()
        if descriptor is None:
            return True
        os.close(descriptor)
        return False


def _read(path: Path, kind: type[T]) -> T | None:
    """What a file says; nothing if there is none, or if a power cut has torn it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def known_pods(home: Path) -> set[str]:
    """The pods that have a directory."""
    return {path.name for path in home.joinpath(PODS).glob("*") if path.is_dir()}


def known_runs(home: Path) -> list[RunDirectory]:
    """Every run that has a directory, by pod, container and attempt."""
    found = [path.parts[-4:] for path in home.joinpath(PODS).glob(f"*/{RUNS}/*/*") if path.name.isdigit()]
    keys = sorted((pod, container, int(attempt)) for pod, _, container, attempt in found)
    return [RunDirectory(home, *key) for key in keys]
