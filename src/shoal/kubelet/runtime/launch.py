"""Starting a shim's program with the descriptors that it is to have, and no others.

Starting a run: the intent, then the lock, then the shim. All of it may be done in a thread.
"""

import os
import signal
from typing import Any, Final, NamedTuple

from shoal.kubelet.runtime.processes import spawn
from shoal.kubelet.runtime.records import RunDirectory
from shoal.kubelet.runtime.spec import ContainerSpec

MARKER: Final = "SHOAL_RUN"
"""A variable that every process of a run has, unless it takes care not to: left-overs are known by it."""

_LOCK: Final = 4
_READY: Final = 5


class Launched(NamedTuple):
    """A shim that was started: its process, and a pipe that ends once the container runs or never will."""

    pid: int
    ready: int


def launch(directory: RunDirectory, spec: ContainerSpec, cgroups: list[str]) -> Launched:
    """Start the shim of a run that never ran; OSError if the system refuses."""
    directory.write_intent(spec)
    lock = directory.lock()
    if lock is None:
        raise BlockingIOError(f"{directory.path} is in use: another daemon has this home")
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        plan, given = _plan(directory, spec, cgroups), {_LOCK: lock, _READY: writer}
        # SIGTERM is kept back until the shim is ready for it.
        pid = spawn("run", marker(spec), plan, given, blocked=[signal.SIGTERM])
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(lock)
        os.close(writer)
    return Launched(pid, reader)


def marker(spec: ContainerSpec) -> str:
    """What `MARKER` is in the processes of a run."""
    return f"{spec.pod}/{spec.container}/{spec.attempt}"


def identity(spec: ContainerSpec) -> dict[str, Any]:
    """How every process of a container looks: the part of a plan that runs and executions share."""
    return {
        "env": {**spec.env, MARKER: marker(spec)},
        "cwd": spec.cwd,
        "user": spec.user,
        "group": spec.group,
        "groups": spec.groups,
    }


def _plan(directory: RunDirectory, spec: ContainerSpec, cgroups: list[str]) -> dict[str, Any]:
    return {
        **identity(spec),
        "directory": str(directory.path),
        "argv": spec.argv,
        "grace": spec.grace,
        "mounts": [(mount.source, mount.target, mount.read_only) for mount in spec.mounts],
        "cgroups": cgroups,
        "log_size": spec.log_size,
        "log_files": spec.log_files,
    }
