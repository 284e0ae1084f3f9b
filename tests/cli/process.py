"""Run the real command as a separate process."""

import subprocess
import sys
from pathlib import Path
from typing import IO

SHOAL = (sys.executable, "-c", "from shoal.cli.main import main; main()")
SHOAL_IN_SHELL = f"'{sys.executable}' -c 'from shoal.cli.main import main; main()'"


def run(
    command: list[str],
    *,
    stdin: bytes = b"",
    stdout: IO[bytes] | int = subprocess.PIPE,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command until it exits, and decode its output."""
    done = subprocess.run(  # noqa: S603 - our own command, and the shell around it
        command, input=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=120, check=False, cwd=cwd
    )
    return subprocess.CompletedProcess(
        command, done.returncode, (done.stdout or b"").decode(), done.stderr.decode()
    )


def shoal(*arguments: str, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `shoal`."""
    return run([*SHOAL, *arguments], stdin=stdin, cwd=cwd)


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script."""
    return run(["/bin/sh", "-c", script])
