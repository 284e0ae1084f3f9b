"""Another command in a container that runs: for `kubectl exec`, and for probes.

This process enters the container's cgroups and namespaces and becomes the command; its descriptors 0 to 2 are
in order already. It dies with the daemon, which is its parent.
"""

import fcntl
import os
import sys

from shoal.kubelet.shim import process, system
from shoal.kubelet.shim.container import StartError, become
from shoal.kubelet.shim.records import take_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PLAN = 3
_TIOCSCTTY = 0x540E
_NAMESPACES = (("user", system.CLONE_NEWUSER), ("mnt", system.CLONE_NEWNS))


def main() -> None:
    """Become the command, or say why not."""
    plan = take_plan(_PLAN)
    try:
        if plan["tty"]:
            fcntl.ioctl(0, _TIOCSCTTY, 0)
        _enter(plan)
        become(plan, plan["parent"])
    except (StartError, OSError) as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(problem.code if isinstance(problem, StartError) else 1)


def _enter(plan: "dict[str, Any]") -> None:
    """Join the process that the container began with, if it is still the one that was meant."""
    pid: int = plan["pid"]
    container = os.pidfd_open(pid)
    found = process.stat(pid)
    if found is None or found.started != plan["start"] or not found.alive:
        raise StartError("the container is not running")
    process.join(plan["cgroups"])
    flags = sum(flag for name, flag in _NAMESPACES if _namespace(pid, name) != _namespace("self", name))
    if flags:
        system.setns(container, flags)
    os.close(container)


def _namespace(pid: "int | str", name: str) -> int:
    return os.stat(f"/proc/{pid}/ns/{name}").st_ino
