"""The example of a TYJob: a learner trains from workers, of which some join late and some fail."""

import os
import subprocess
from pathlib import Path

from tests.cli.process import SHOAL_IN_SHELL

RUN = Path(__file__).parents[1] / "examples" / "tyjob" / "run.sh"


def test_the_example_trains_with_all_workers_and_cleans_up(tmp_path: Path) -> None:
    shoal, directory = tmp_path / "shoal", tmp_path / "directory"
    shoal.write_text(f'#!/bin/sh\nexec {SHOAL_IN_SHELL} "$@"\n')
    shoal.chmod(0o755)
    directory.mkdir()
    environment = {**os.environ, "SHOAL": str(shoal), "TMPDIR": str(directory)}
    done = subprocess.run([RUN], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    states = [
        line.split()[1:4] for line in done.stdout.splitlines() if line.startswith("tyjob.tyrl.io/cliff   ")
    ]
    (running, partly, ready), (succeeded, *_) = states
    assert (running, partly, succeeded) == ("Running", "ScheduledPartly", "Succeeded")
    assert ready in ("2/5", "3/5"), "the others wait for room"
    assert '"learner":1' in done.stdout, "it failed once"
    assert "learning again from episode 250" in done.stdout
    assert "episodes of 5 workers: -9, and -9 is best" in done.stdout
    assert list(directory.iterdir()) == []
