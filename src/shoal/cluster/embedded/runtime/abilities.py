"""What containers can have on this machine, for this user: found by trying."""

import os
import subprocess
from pathlib import Path

from shoal.cluster.embedded.runtime.cgroups import Hierarchies
from shoal.cluster.embedded.runtime.spawning import PROGRAM
from shoal.cluster.embedded.runtime.spec import Abilities


def probe(home: Path, hierarchies: Hierarchies) -> Abilities:
    """Say what can be done, and what not and why."""
    problem = _mount_problem(home)
    root = os.geteuid() == 0
    notes = [hierarchies.note] if hierarchies.note else []
    if problem:
        notes.append(f"volumes and host names cannot be mounted: {problem}")
    if not root:
        notes.append("containers cannot run as other users: shoal was not started by root")
    return Abilities(mounts=not problem, cgroups=hierarchies.version, users=root, notes=notes)


def _mount_problem(home: Path) -> str:
    """What is in the way of mounts in a container, if anything is: a process of its own has tried."""
    tried = subprocess.run([*PROGRAM, "probe", home], capture_output=True, text=True, check=False)  # noqa: S603
    return "" if tried.returncode == 0 else tried.stderr.strip().rpartition("\n")[2] or "for no known reason"
