"""Commands that last: they run until they are told to stop, and keep many objects meanwhile.

Running a command in the background: it is on its own before the foreground returns.

with detached(log) as tell:   # the process that goes on is in here; the one that was called waits
...
tell("ready")             # what the one that was called prints, and returns

The daemon of an embedded home, as other commands find it: whether it lives, and what it says of itself.
"""

import asyncio
import contextlib
import fcntl
import gc
import json
import logging.handlers
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import click

_YOUNG, _OLDER, _OLD = 50_000, 20, 100
"""How many objects come to be before the collector looks for those that only hold each other."""

_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


def stop_event() -> asyncio.Event:
    """Is set when the process is told to stop (Ctrl-C, SIGTERM), from now on."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in _STOPPING:
        loop.add_signal_handler(number, told.set)
    return told


def tune_garbage_collection() -> None:
    """Do not look through a whole world for garbage again and again: there is little of it in there."""
    gc.set_threshold(_YOUNG, _OLDER, _OLD)


_SIZE: Final = 10 * 1024 * 1024
_FILES: Final = 3
_WELL: Final = b"+"


@contextlib.contextmanager
def detached(log: Path) -> Iterator[Callable[[str], None]]:
    """Go on in a process of its own; the one that was called prints what it is told, and exits.

    If the block fails before it has told anything, its one line is printed and the exit code is 1.
    """
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        _report(reader)
    os.close(reader)
    os.setsid()
    if os.fork():
        os._exit(0)  # so that it never has a terminal again
    _write_to(Path(os.devnull))
    with os.fdopen(writer, "wb", buffering=0) as pipe:

        def tell(message: str) -> None:
            _keep(log)
            _tell(pipe, _WELL + message.encode())

        try:
            yield tell
        except click.ClickException as error:
            _tell(pipe, error.format_message().encode())
            raise
        except BaseException as error:
            _tell(pipe, str(error).encode())
            raise


def _report(reader: int) -> None:
    """Wait for word of the process that goes on, pass it on, and exit."""
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    if said.startswith(_WELL):
        click.echo(said[1:].decode())
        sys.exit(0)
    raise click.ClickException(said.decode() or "it ended before it was ready: its log says more")


def _tell(pipe: IO[bytes], message: bytes) -> None:
    """Say the one thing that is waited for; nothing, if it was said already."""
    if pipe.closed:  # its number may be another file's by now
        return
    with contextlib.suppress(OSError):  # nobody listens
        pipe.write(message)
    pipe.close()


def _keep(log: Path) -> None:
    """Have all that is said from now on go to a log, which is kept small."""
    _write_to(log)
    handler = logging.handlers.RotatingFileHandler(log, maxBytes=_SIZE, backupCount=_FILES)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)


def _write_to(path: Path) -> None:
    """Have what is printed go to a file, and nothing be read."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, nothing), (1, file), (2, file)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(file)


DAEMON_FILE: Final = "daemon.json"
LOG_FILE: Final = "daemon.log"
KEEP_PODS_SIGNAL: Final = signal.SIGUSR1
"""What tells a daemon to stop and to let its pods run on."""
STATUS_PATH: Final = "/shoal/status"
"""Where the API says how the daemon is."""


def write_daemon_info(home: Path, **facts: object) -> None:
    """Say who serves a home, for whoever looks for it."""
    aside = home / f".{DAEMON_FILE}"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(facts, file)
    aside.replace(home / DAEMON_FILE)


def remove_daemon_info(home: Path) -> None:
    """Nobody serves the home any more."""
    (home / DAEMON_FILE).unlink(missing_ok=True)


def read_daemon_info(home: Path) -> dict[str, Any] | None:
    """What the daemon of a home says of itself; None if none is up. A dead one's word does not count."""
    if not is_locked(home):
        return None
    with contextlib.suppress(OSError, ValueError):
        said: dict[str, Any] = json.loads((home / DAEMON_FILE).read_text())
        return said
    return None


def is_locked(directory: Path) -> bool:
    """Whether a process has the state of a home, or a container lives in the directory of a run."""
    try:
        descriptor = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def require_daemon(home: Path) -> dict[str, Any]:
    """What the daemon of a home says of itself; exits with 1 and one line if there is none."""
    facts = read_daemon_info(home)
    if facts is None:
        raise click.ClickException(f"{home} is not served: `shoal up -d` starts it")
    return facts
