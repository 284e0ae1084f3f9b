"""Detection of runtime features: as an ordinary user, and in a chroot."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.kubelet.runtime.unprivileged import NOBODY

REPOSITORY = Path(__file__).parents[3]
NO_USERS = "containers cannot run as other users: shoal was not started as root"
NO_LIMITS = "CPU and memory limits are not enforced: no cgroups (this user may not create any)"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to switch users")


def run_unprivileged(home: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.kubelet.runtime.unprivileged", *options, str(home)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = msgspec.json.decode(done.stdout)
    return results


def test_an_ordinary_user_has_mounts_if_user_namespaces_are_allowed(tmp_path: Path) -> None:
    results = run_unprivileged(tmp_path / "home")
    if not results["features"]["mounts"]:
        pytest.skip(f"not here: {results['features']['notes']}")
    assert results.pop("features") == {
        "mounts": True,
        "cgroups": "",
        "users": False,
        "notes": [NO_LIMITS, NO_USERS],
    }
    assert results == {
        "plain": [3, f"{NOBODY}\n"],
        "mounted": [0, f"file\n{NOBODY}\n"],
        "another": [128, "cannot run as user 1 and group None: Operation not permitted"],
        "itself": [0, f"{NOBODY}\n"],
        "executed": "file\n",
    }


def test_missing_user_namespaces_are_reported(tmp_path: Path) -> None:
    results = run_unprivileged(tmp_path / "home", "--confined")
    error = "Operation not permitted (unshare)"
    assert results.pop("features") == {
        "mounts": False,
        "cgroups": "",
        "users": False,
        "notes": [NO_LIMITS, f"volumes and hosts files cannot be mounted: {error}", NO_USERS],
    }
    assert results == {
        "plain": [3, f"{NOBODY}\n"],
        "mounted": [128, f"cannot mount the container's volumes: {error}"],
        "another": [128, "cannot run as user 1 and group None: Operation not permitted"],
        "itself": [0, f"{NOBODY}\n"],
    }
