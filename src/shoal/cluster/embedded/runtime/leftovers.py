"""What a killed shim leaves behind: its container dies with it, but not all that the container started."""

import os
import signal
import time
from collections.abc import Iterator
from typing import Final

from shoal.cluster.embedded.runtime.launching import MARKER
from shoal.cluster.embedded.runtime.records import ShimRecord
from shoal.cluster.embedded.shim import cgroup, process

_PAUSE: Final = 0.01
_ROUNDS: Final = 1000


def kill_leftovers(record: ShimRecord, marker: str) -> bool:
    """Kill every process of a run; whether all are gone. It takes as long as that takes, within bounds."""
    if record.boot != process.boot_id():
        return True
    for _ in range(_ROUNDS):
        found = [pid for pid in process.everybody() if _belongs(pid, record, marker)]
        if not found:
            return True
        for pid in found:
            _kill(pid, record, marker)
        time.sleep(_PAUSE)
    return False


def _kill(pid: int, record: ShimRecord, marker: str) -> None:
    """Kill it only if it is still the one that was found."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _belongs(pid, record, marker):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _belongs(pid: int, record: ShimRecord, marker: str) -> bool:
    """Whether a process is alive and of this run: by its cgroup, its session, or its environment."""
    found = process.stat(pid)
    if found is None or not found.alive or found.started < record.start or pid == os.getpid():
        return False
    if record.container is not None and found.session == record.container:
        return True
    return pid in cgroup.members(record.cgroups) or any(_variables(pid, marker))


def _variables(pid: int, marker: str) -> Iterator[bool]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as everywhere with /proc
            yield f"{MARKER}={marker}".encode() in file.read().split(b"\0")
    except OSError:
        return
