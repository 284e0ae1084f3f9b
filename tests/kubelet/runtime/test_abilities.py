"""What can be had is found out by trying, and what cannot be had is said: by root, by nobody, in a chroot."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.kubelet.runtime.nobody import NOBODY

REPOSITORY = Path(__file__).parents[3]
NO_USERS = "containers cannot run as other users: shoal was not started as root"
NO_LIMITS = "CPU and memory limits are not enforced: no cgroups (this user may not create any)"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")


def lived(home: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.kubelet.runtime.nobody", *options, str(home)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found


def test_an_ordinary_user_has_mounts_where_user_namespaces_are_allowed(tmp_path: Path) -> None:
    found = lived(tmp_path / "home")
    if not found["abilities"]["mounts"]:
        pytest.skip(f"not here: {found['abilities']['notes']}")
    assert found.pop("abilities") == {
        "mounts": True,
        "cgroups": "",
        "users": False,
        "notes": [NO_LIMITS, NO_USERS],
    }
    assert found == {
        "plain": [3, f"{NOBODY}\n"],
        "mounted": [0, f"file\n{NOBODY}\n"],
        "another": [128, "cannot run as user 1 and group None: Operation not permitted"],
        "itself": [0, f"{NOBODY}\n"],
        "executed": "file\n",
    }


def test_where_they_are_not_allowed_it_is_said(tmp_path: Path) -> None:
    found = lived(tmp_path / "home", "--confined")
    refused = "Operation not permitted (unshare)"
    assert found.pop("abilities") == {
        "mounts": False,
        "cgroups": "",
        "users": False,
        "notes": [NO_LIMITS, f"volumes and hosts files cannot be mounted: {refused}", NO_USERS],
    }
    assert found == {
        "plain": [3, f"{NOBODY}\n"],
        "mounted": [128, f"cannot mount the container's volumes: {refused}"],
        "another": [128, "cannot run as user 1 and group None: Operation not permitted"],
        "itself": [0, f"{NOBODY}\n"],
    }
