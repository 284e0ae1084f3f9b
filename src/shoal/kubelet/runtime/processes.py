"""Processes of the runtime: spawn shims, watch processes through pidfds, kill what a dead shim leaves.

Watching needs no thread per process and no signal handler. It works for children, which are reaped, and for
processes of an earlier daemon.
"""

import asyncio
import fcntl
import os
import signal
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from shoal.kubelet.runtime.records import RunDirectory, ShimRecord
from shoal.kubelet.runtime.spec import ContainerSpec
from shoal.kubelet.shim import process, records

SHIM_COMMAND: Final = (sys.executable, "-I", "-S", str(Path(records.__file__).with_name("start.py")))
_CONFIG: Final = 3
_FIRST_FREE: Final = 16
"""Passed descriptors are first duplicated to this number or above, so that none collides with a target."""
_MAX_MESSAGE: Final = 4096
MARKER_VARIABLE: Final = "SHOAL_RUN"
"""Environment variable that all processes of a run inherit: leftover processes are recognised by it."""
_LOCK: Final = 4
_READY: Final = 5
_POLL_INTERVAL: Final = 0.01
_MAX_ROUNDS: Final = 1000


def spawn_shim(
    mode: str,
    name: str,
    config: dict[str, Any],
    descriptors: Mapping[int, int],
    *,
    blocked: Collection[signal.Signals] = (),
) -> int:
    """Start the shim program in a new session; return its pid.

    `descriptors` maps descriptor numbers in the shim to ours. `name` only shows in the list of processes.
    """
    copy = records.send_config(config)
    copies: dict[int, int] = {}
    try:
        for target, source in {**descriptors, _CONFIG: copy}.items():
            copies[target] = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
        actions = [
            *((os.POSIX_SPAWN_OPEN, target, os.devnull, os.O_RDWR, 0) for target in range(_CONFIG)),
            *((os.POSIX_SPAWN_DUP2, source, target) for target, source in copies.items()),
        ]
        arguments = [*SHIM_COMMAND, mode, name]
        return os.posix_spawn(
            arguments[0],
            arguments,
            {},
            file_actions=actions,
            setsid=True,
            setsigmask=blocked,
            setsigdef=signal.valid_signals(),
        )
    finally:
        for descriptor in (copy, *copies.values()):
            os.close(descriptor)


class WatchedProcess:
    """A process that is watched until it exits or is detached."""

    def __init__(self, descriptor: int) -> None:
        """Watch the process of a pidfd, which is closed in the end."""
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._on_exit)
        self._code: asyncio.Future[int] = self._loop.create_future()

    @property
    def exited(self) -> bool:
        return self._code.done()

    async def wait(self) -> int:
        """Wait for the exit code: 128 plus the signal number if a signal ended it.

        0 if it is not a child of ours.
        """
        return await asyncio.shield(self._code)

    def send(self, number: signal.Signals) -> None:
        """Send a signal; never to another process that reuses the pid."""
        if self._descriptor >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def detach(self) -> None:
        """Stop watching; the process continues."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _on_exit(self) -> None:
        code = _reap(self._descriptor)
        self.detach()
        self._code.set_result(code)


def _reap(descriptor: int) -> int:
    try:
        result = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return 0
    if result is None:
        return 0
    return result.si_status if result.si_code == os.CLD_EXITED else 128 + result.si_status


async def read_pipe(pipe: int) -> bytes:
    """Wait for the first data of a pipe and close it; empty if the other end was closed."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe, ready.set)
    try:
        await ready.wait()
        return os.read(pipe, _MAX_MESSAGE)
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)


class LaunchedShim(NamedTuple):
    """A started shim: its pid, and a pipe that is closed once the container runs or has failed to start."""

    pid: int
    ready: int


def launch_shim(directory: RunDirectory, spec: ContainerSpec, cgroups: list[str]) -> LaunchedShim:
    """Write the intent, take the lock, start the shim of a new run; OSError if the system refuses.

    May run in a thread.
    """
    directory.write_intent(spec)
    lock = directory.lock()
    if lock is None:
        raise BlockingIOError(f"{directory.path} is locked: another daemon serves this home")
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        config, descriptors = _config(directory, spec, cgroups), {_LOCK: lock, _READY: writer}
        # SIGTERM stays blocked until the shim has its handler.
        pid = spawn_shim("run", run_marker(spec), config, descriptors, blocked=[signal.SIGTERM])
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(lock)
        os.close(writer)
    return LaunchedShim(pid, reader)


def run_marker(spec: ContainerSpec) -> str:
    """The value of `MARKER_VARIABLE` in the processes of a run."""
    return f"{spec.pod}/{spec.container}/{spec.attempt}"


def process_attributes(spec: ContainerSpec) -> dict[str, Any]:
    """Environment, directory and user of all processes of a container: shared by runs and executions."""
    return {
        "env": {**spec.env, MARKER_VARIABLE: run_marker(spec)},
        "cwd": spec.cwd,
        "user": spec.user,
        "group": spec.group,
        "groups": spec.groups,
    }


def _config(directory: RunDirectory, spec: ContainerSpec, cgroups: list[str]) -> dict[str, Any]:
    return {
        **process_attributes(spec),
        "directory": str(directory.path),
        "argv": spec.argv,
        "grace": spec.grace,
        "mounts": [(mount.source, mount.target, mount.read_only) for mount in spec.mounts],
        "cgroups": cgroups,
        "log_size": spec.log_size,
        "log_files": spec.log_files,
    }


def kill_leftovers(record: ShimRecord, marker: str) -> bool:
    """Kill all processes of a run whose shim is dead; return whether all are gone.

    Blocks until then, for 10 s at most.

    A container's first process dies with its shim, but processes that it started may not.
    """
    if record.boot != process.boot_id():
        return True
    for _ in range(_MAX_ROUNDS):
        found = _find_processes(record, marker)
        if not found:
            return True
        for pid, started in found.items():
            _kill(pid, started)
        time.sleep(_POLL_INTERVAL)
    return False


def _find_processes(record: ShimRecord, marker: str) -> dict[int, int]:
    """Living processes of a run with their start times, found by cgroup, session or environment."""
    grouped, session = process.cgroup_members(record.cgroups), _session(record)
    found = {}
    for pid in process.list_pids():
        stat = process.stat(pid)
        if stat is None or not stat.alive or stat.started < record.start:
            continue
        if pid in grouped or stat.session == session or _is_marked(pid, marker):
            found[pid] = stat.started
    return found


def _session(record: ShimRecord) -> int | None:
    """The session that the container created, unless its pid was reused."""
    leader = process.stat(record.container) if record.container else None
    return record.container if leader is None or leader.started == record.container_start else None


def _is_marked(pid: int, marker: str) -> bool:
    try:
        return f"{MARKER_VARIABLE}={marker}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(
            b"\0"
        )
    except OSError:  # gone, or not permitted
        return False


def _kill(pid: int, started: int) -> None:
    """Kill a process only if it is still the one that was found."""
    with suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(pid)
        try:
            if process.start_time(pid) == started:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
