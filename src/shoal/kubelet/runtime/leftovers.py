"""What a killed shim leaves behind: its container dies with it, but not all that the container started."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from shoal.kubelet.runtime.launch import MARKER
from shoal.kubelet.runtime.records import ShimRecord
from shoal.kubelet.shim import process

_PAUSE: Final = 0.01
_ROUNDS: Final = 1000


def kill_leftovers(record: ShimRecord, marker: str) -> bool:
    """Kill every process of a run; whether all are gone. It takes as long as that takes, within bounds."""
    if record.boot != process.boot_id():
        return True
    for _ in range(_ROUNDS):
        found = _members(record, marker)
        if not found:
            return True
        for pid, started in found.items():
            _kill(pid, started)
        time.sleep(_PAUSE)
    return False


def _members(record: ShimRecord, marker: str) -> dict[int, int]:
    """Who lives and is of this run, by cgroup, session or environment; and when each was started."""
    grouped, session = process.members(record.cgroups), _session(record)
    found = {}
    for pid in process.everybody():
        stat = process.stat(pid)
        if stat is None or not stat.alive or stat.started < record.start:
            continue
        if pid in grouped or stat.session == session or _is_marked(pid, marker):
            found[pid] = stat.started
    return found


def _session(record: ShimRecord) -> int | None:
    """The session that the container began, unless its number is another's by now."""
    leader = process.stat(record.container) if record.container else None
    return record.container if leader is None or leader.started == record.container_start else None


def _is_marked(pid: int, marker: str) -> bool:
    try:
        return f"{MARKER}={marker}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, or not ours
        return False


def _kill(pid: int, started: int) -> None:
    """Kill it only if it is still the one that was found."""
    with suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(pid)
        try:
            if process.start_time(pid) == started:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
