"""The example of a TrainingJob: the loss falls while trainers come and go, and a parameter server fails."""

import os
import re
import subprocess
from pathlib import Path

from tests.cli.process import SHOAL_IN_SHELL

RUN = Path(__file__).parents[1] / "examples" / "trainingjob" / "run.sh"


def test_the_example_trains_while_trainers_come_and_go_and_cleans_up(tmp_path: Path) -> None:
    shoal, directory = tmp_path / "shoal", tmp_path / "directory"
    shoal.write_text(f'#!/bin/sh\nexec {SHOAL_IN_SHELL} "$@"\n')
    shoal.chmod(0o755)
    directory.mkdir()
    environment = {**os.environ, "SHOAL": str(shoal), "TMPDIR": str(directory)}
    done = subprocess.run([RUN], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    passes = re.findall(r"^pass +(\d+): loss +([0-9.]+), (\d) trainers$", done.stdout, re.MULTILINE)
    assert [int(number) for number, *_ in passes] == list(range(1, 41)), done.stdout
    losses, trainers = [float(loss) for _, loss, _ in passes], [int(number) for *_, number in passes]
    assert losses[-1] < losses[0] / 100, losses
    assert trainers[-1] == 6, "it has grown"
    assert min(trainers) < 6, "after the other work had ended"
    assert "trainingjob.paddlepaddle.org/regression   Succeeded" in done.stdout
    assert "Failed:     1" in done.stdout, "a parameter server failed once"
    assert list(directory.iterdir()) == []
