"""What goes on in the background says one thing to who called it, and nothing to anybody else."""

import subprocess
import sys
import time
from pathlib import Path

SCRIPT = """
import os, sys
from pathlib import Path
from shoal.embedded.daemon import detached

home = Path(sys.argv[1])
with detached(home / "log") as tell:
    if "early" in sys.argv:
        raise RuntimeError("too early")
    tell(str(os.getpid()))
    files = [open(home / f"file-{i}", "w") for i in range(16)]
    raise RuntimeError("too late")
"""
LIMIT = 60.0


def run(home: Path, *when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, str(home), *when]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)  # noqa: S603


def test_a_failure_before_it_is_ready_is_what_the_caller_hears(tmp_path: Path) -> None:
    said = run(tmp_path, "early")
    assert said.returncode == 1
    assert "too early" in said.stderr


def test_a_failure_afterwards_goes_to_the_log_and_into_no_other_file(tmp_path: Path) -> None:
    said = run(tmp_path)
    assert said.returncode == 0
    until = time.monotonic() + LIMIT
    while Path(f"/proc/{int(said.stdout)}").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert "too late" in (tmp_path / "log").read_text()
    assert {path.stat().st_size for path in tmp_path.glob("file-*")} == {0}
