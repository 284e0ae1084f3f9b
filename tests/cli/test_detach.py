"""A detached daemon reports to its caller until it is ready, and to its log afterwards."""

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


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, str(home), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)  # noqa: S603


def test_a_failure_before_ready_is_reported_to_the_caller(tmp_path: Path) -> None:
    result = run(tmp_path, "early")
    assert result.returncode == 1
    assert "too early" in result.stderr


def test_a_later_failure_goes_only_to_the_log(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.returncode == 0
    deadline = time.monotonic() + LIMIT
    while Path(f"/proc/{int(result.stdout)}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "too late" in (tmp_path / "log").read_text()
    assert {path.stat().st_size for path in tmp_path.glob("file-*")} == {0}
