"""The daemon of an embedded home, as other commands find it: whether it lives, and what it says of itself."""

import contextlib
import fcntl
import json
import os
import signal
from pathlib import Path
from typing import Any, Final

import click

FILE: Final = "daemon.json"
LOG: Final = "daemon.log"
LEAVE_PODS: Final = signal.SIGUSR1
"""What tells a daemon to stop and to let its pods run on."""
STATUS_PAGE: Final = "/shoal/status"
"""Where the API says how the daemon is."""


def write_facts(home: Path, **facts: object) -> None:
    """Say who serves a home, for whoever looks for it."""
    aside = home / f".{FILE}"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(facts, file)
    aside.replace(home / FILE)


def remove_facts(home: Path) -> None:
    """Nobody serves the home any more."""
    (home / FILE).unlink(missing_ok=True)


def facts_of(home: Path) -> dict[str, Any] | None:
    """What the daemon of a home says of itself; None if none is up. A dead one's word does not count."""
    if not is_locked(home):
        return None
    with contextlib.suppress(OSError, ValueError):
        said: dict[str, Any] = json.loads((home / FILE).read_text())
        return said
    return None


def is_locked(home: Path) -> bool:
    """Whether a process has the state of a home."""
    try:
        descriptor = os.open(home / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def must_be_up(home: Path) -> dict[str, Any]:
    """What the daemon of a home says of itself; exits with 1 and one line if there is none."""
    facts = facts_of(home)
    if facts is None:
        raise click.ClickException(f"{home} is not served: `shoal up -d` starts it")
    return facts
