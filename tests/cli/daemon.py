"""`shoal up` as a process of its own, for as long as a block lasts."""

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cli.running import SHOAL

Daemon = subprocess.Popen[str]


@contextlib.contextmanager
def up(home: Path, *options: str) -> Iterator[Daemon]:
    """Start it, and wait until it says that it is up; it is stopped at the end, unless it has ended."""
    command = [*SHOAL, "up", "--home", str(home), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as daemon:  # noqa: S603
        try:
            assert daemon.stdout
            first = daemon.stdout.readline()
            if not first.startswith("Shoal is up at https://"):
                _, said = daemon.communicate()
                raise AssertionError(f"shoal up said {first!r} and then {said!r}")
            yield daemon
        finally:
            daemon.send_signal(signal.SIGTERM)


def url(home: Path) -> str:
    """Where the last daemon of a home listens."""
    config = json.loads((home / "kubeconfig").read_text())
    return str(config["clusters"][0]["cluster"]["server"])
