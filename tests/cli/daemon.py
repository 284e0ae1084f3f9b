"""`shoal up` as a separate process, for the duration of a block."""

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.cli.process import SHOAL

Daemon = subprocess.Popen[str]


@contextlib.contextmanager
def up(home: Path, *options: str, prefix: Sequence[str] = ()) -> Iterator[Daemon]:
    """Start the daemon, and wait until it announces its URL; it is stopped at the end.

    `prefix` is a command that executes the one behind it.
    """
    command = [*prefix, *SHOAL, "up", "--home", str(home), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as daemon:  # noqa: S603
        try:
            assert daemon.stdout
            first = daemon.stdout.readline()
            if not first.startswith("Shoal is up at https://"):
                _, errors = daemon.communicate()
                raise AssertionError(f"shoal up printed {first!r}, and on standard error {errors!r}")
            yield daemon
        finally:
            daemon.send_signal(signal.SIGTERM)


def url(home: Path) -> str:
    """URL of the last daemon of a home."""
    config = json.loads((home / "kubeconfig").read_text())
    return str(config["clusters"][0]["cluster"]["server"])
