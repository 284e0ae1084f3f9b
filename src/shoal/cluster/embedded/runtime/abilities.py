"""What containers can have on this machine, for this user: found by trying."""

import os
from pathlib import Path
from typing import NamedTuple

from shoal.cluster.embedded.runtime.cgroups import Hierarchies
from shoal.cluster.embedded.runtime.spec import Abilities
from shoal.cluster.embedded.shim import mounts


def probe(hierarchies: Hierarchies) -> Abilities:
    """Try what cannot be known otherwise."""
    problem = _mount_problem()
    root = os.geteuid() == 0
    notes = [hierarchies.note] if hierarchies.note else []
    if problem:
        notes.append(f"volumes and host names are not mounted: no mount namespace ({problem})")
    if not root:
        notes.append("runAsUser and runAsGroup are not possible: shoal was not started by root")
    return Abilities(mounts=not problem, cgroups=hierarchies.version, users=root, notes=notes)
