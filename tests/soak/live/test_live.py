"""Jobs of all kinds with real processes, while the daemon is killed again and again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.live import worker
from tests.soak.live.checks import LiveChecker
from tests.soak.live.runs import run_live

_SECONDS = 60.0
UID = "5f3a"


def start(directory: Path, seconds: float, codes: str = "0", uid: str = UID) -> subprocess.Popen[bytes]:
    """Start the program of a pod, in slot 0 of a job."""
    (directory / worker.SLOTS).mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-I",
        "-S",
        worker.__file__,
        str(directory),
        "train",
        str(seconds),
        codes,
        "143",
    ]
    variables = {"SHOAL_ROLE": "worker", "SHOAL_INDEX": "0", "SHOAL_RUN": f"{uid}/main/0"}
    return subprocess.Popen(command, env=variables)  # noqa: S603 - our own program


def entries(directory: Path) -> list[tuple[str, int | None]]:
    lines = (directory / worker.SLOTS / "train.worker.0").read_text().splitlines()
    return [(entry["event"], entry["code"]) for entry in map(json.loads, lines)]


def test_runs_in_a_slot_exit_with_their_codes_in_turn(tmp_path: Path) -> None:
    codes = [start(tmp_path, 0, "3,0", uid).wait() for uid in ("a", "b", "c")]
    assert codes == [3, 0, 0]
    assert entries(tmp_path) == [("start", None), ("end", 3), *[("start", None), ("end", 0)] * 2]


def test_a_second_process_in_a_slot_is_a_violation(tmp_path: Path) -> None:
    with start(tmp_path, 60, uid="a") as first:
        while not (tmp_path / worker.SLOTS / "train.worker.0").exists() or not entries(tmp_path):
            pass
        assert start(tmp_path, 0, uid="b").wait() == 0
        assert "slot train.worker.0: its process is still running" in found(tmp_path)
        first.terminate()
    assert first.returncode == 143
    assert entries(tmp_path)[-1] == ("stop", 143)
    assert "slot train.worker.0 has two processes: b/main/0 is the second" in found(tmp_path)


def test_processes_that_the_history_does_not_know_are_violations(tmp_path: Path) -> None:
    start(tmp_path, 0).wait()
    assert f"slot train.worker.0: pod {UID} never existed" in found(tmp_path)


def found(directory: Path) -> list[str]:
    return list(LiveChecker(directory).processes_agree())


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_no_invariant_is_violated_while_the_daemon_is_killed(tmp_path: Path, seed: int) -> None:
    outcome = run_live(tmp_path, seed, _SECONDS)
    assert not outcome.violations
    assert outcome.jobs
    assert outcome.kills
