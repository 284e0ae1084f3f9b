"""The demonstration (`make demo`): it runs to its end and leaves nothing behind."""

import os
import subprocess
from pathlib import Path

from tests.cli.process import SHOAL_IN_SHELL

DEMO = Path(__file__).parents[1] / "examples" / "demo" / "run.sh"
JOBS = {"sweep": 12, "allreduce": 4, "decode": 4}


def test_the_demonstration_borrows_reclaims_completes_and_cleans_up(tmp_path: Path) -> None:
    shoal, directory = tmp_path / "shoal", tmp_path / "directory"
    shoal.write_text(f'#!/bin/sh\nexec {SHOAL_IN_SHELL} "$@"\n')
    shoal.chmod(0o755)
    directory.mkdir()
    environment = {**os.environ, "SHOAL": str(shoal), "TMPDIR": str(directory)}
    done = subprocess.run([DEMO], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert "Reclaimed" in done.stdout
    ended = [line.split()[:3] for line in done.stdout.splitlines()]
    assert all([job, "Complete", f"{pods}/{pods}"] in ended for job, pods in JOBS.items()), done.stdout
    assert list(directory.iterdir()) == []
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(directory) in _text(path)]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process has ended
        return ""
