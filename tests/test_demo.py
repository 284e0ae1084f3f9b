"""The demonstration (`make demo`): it runs to its end and leaves nothing behind."""

import os
import subprocess
from pathlib import Path

from tests.cli.process import SHOAL_IN_SHELL

DEMO = Path(__file__).parents[1] / "examples" / "demo" / "run.sh"
ENDED = (
    ["dijob.diengine.opendilab.org/cartpole", "Succeeded", "4"],
    ["tyjob.tyrl.io/align", "Succeeded", "ScheduledSucceed"],
    ["trainingjob.paddlepaddle.org/recognise", "Succeeded", "4"],
    ["job.batch/sweep", "Complete", "12/12"],
)
GIVES_WAY = ["Shrunk", "for", "TYJob/default/align"]


def test_the_demonstration_shows_all_kinds_and_cleans_up(tmp_path: Path) -> None:
    shoal, directory = tmp_path / "shoal", tmp_path / "directory"
    shoal.write_text(f'#!/bin/sh\nexec {SHOAL_IN_SHELL} "$@"\n')
    shoal.chmod(0o755)
    directory.mkdir()
    environment = {**os.environ, "SHOAL": str(shoal), "TMPDIR": str(directory)}
    done = subprocess.run([DEMO], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert "Reclaimed" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [row for row in ENDED if row not in [line[:3] for line in lines]] == [], done.stdout
    resizes = [line[1:] for line in lines if line[3:4] == ["Grown"] or line[3:] == GIVES_WAY]
    assert resizes[0] == ["1", "4", "Grown"], done.stdout
    assert ["4", "2", *GIVES_WAY] in resizes, done.stdout
    assert resizes[-1][1:] == ["4", "Grown"], done.stdout
    assert list(directory.iterdir()) == []
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(directory) in _text(path)]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process has ended
        return ""
