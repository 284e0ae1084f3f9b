"""The demonstration: what `make demo` runs, to its end, and what is left of it."""

import os
import subprocess
from pathlib import Path

from tests.cli.process import SHOAL_IN_SHELL

DEMO = Path(__file__).parents[1] / "examples" / "demo" / "run.sh"
JOBS = {"sweep": 12, "allreduce": 4, "decode": 4}


def test_the_demonstration_borrows_reclaims_finishes_and_leaves_nothing(tmp_path: Path) -> None:
    shoal, room = tmp_path / "shoal", tmp_path / "room"
    shoal.write_text(f'#!/bin/sh\nexec {SHOAL_IN_SHELL} "$@"\n')
    shoal.chmod(0o755)
    room.mkdir()
    around = {**os.environ, "SHOAL": str(shoal), "TMPDIR": str(room)}
    done = subprocess.run([DEMO], env=around, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert "Reclaimed" in done.stdout
    ended = [line.split()[:3] for line in done.stdout.splitlines()]
    assert all([job, "Complete", f"{pods}/{pods}"] in ended for job, pods in JOBS.items()), done.stdout
    assert list(room.iterdir()) == []
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(room) in _text(path)]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""
