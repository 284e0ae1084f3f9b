"""The daemon of an embedded home, as other commands find it: whether it lives, and what it says of itself."""

import contextlib
import fcntl
import json
import os
import signal
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import click

FILE: Final = "daemon.json"
LOG: Final = "daemon.log"
LEAVE_PODS: Final = signal.SIGUSR1
"""What tells a daemon to stop and to let its pods run on."""
STATUS_PAGE: Final = "/shoal/status"
"""Where the API says how the daemon is."""
_PATIENCE: Final = 10.0
"""Seconds that the daemon may take to answer."""


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


def ask(
    home: Path, url: str, path: str, *, method: str = "GET", body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What the API of a home answers; exits with 1 and one line if it refuses."""
    import ssl
    from http.client import HTTPException, HTTPSConnection
    from urllib.parse import urlsplit

    where = urlsplit(url)
    headers = {"Content-Type": f"application/{'merge-patch+' if method == 'PATCH' else ''}json"}
    try:
        headers["Authorization"] = f"Bearer {(home / 'token').read_text().strip()}"
        trusted = ssl.create_default_context(cafile=home / "ca.crt")
        connection = HTTPSConnection(where.hostname or "", where.port, context=trusted, timeout=_PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            said: dict[str, Any] = json.loads(answer.read())
    except (OSError, HTTPException, ValueError) as problem:
        raise click.ClickException(f"the daemon at {url} does not answer: {problem}") from None
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise click.ClickException(str(said.get("message", answer.reason)))
    return said
