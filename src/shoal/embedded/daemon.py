"""Long-running commands: stop signals, running in the background, and the daemon of an embedded home.

    with detached(log) as report:  # continues in a background process; the caller's process waits
        ...
        report("ready")            # the caller's process prints this and exits

A daemon writes `daemon.json` into its home, by which other commands find it; a lock tells whether it is
alive.
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

_GC_THRESHOLDS: Final = (50_000, 20, 100)
"""Thresholds of the garbage collector, by generation."""

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_MAX_LOG_SIZE: Final = 10 * 1024 * 1024
_LOG_FILES: Final = 3
_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OK: Final = b"+"
DAEMON_FILE: Final = "daemon.json"
LOG_FILE: Final = "daemon.log"
KEEP_PODS_SIGNAL: Final = signal.SIGUSR1
"""Signal that stops a daemon but leaves its pods running."""
STATUS_PATH: Final = "/shoal/status"
"""Path of the daemon's status page in the API."""


def stop_event() -> asyncio.Event:
    """Return an event that is set when the process receives SIGINT (Ctrl-C) or SIGTERM."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    return stop


def tune_garbage_collection() -> None:
    """Collect garbage less often: the many long-lived objects contain few reference cycles."""
    gc.set_threshold(*_GC_THRESHOLDS)


@contextlib.contextmanager
def detached(log: Path) -> Iterator[Callable[[str], None]]:
    """Continue in a background process; the calling process prints what is reported, and exits.

    If the block fails before it has reported anything, the error is printed and the exit code is 1.
    """
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        _relay(reader)
    os.close(reader)
    os.setsid()
    if os.fork():
        os._exit(0)  # so that it can never get a controlling terminal
    _redirect_output(Path(os.devnull))
    with os.fdopen(writer, "wb", buffering=0) as pipe:

        def report(message: str) -> None:
            _log_to(log)
            _send(pipe, _OK + message.encode())

        try:
            yield report
        except click.ClickException as error:
            _send(pipe, error.format_message().encode())
            raise
        except BaseException as error:
            _send(pipe, str(error).encode())
            raise


def _relay(reader: int) -> None:
    """Wait for the report of the background process, print it, and exit."""
    with os.fdopen(reader, "rb") as pipe:
        message = pipe.read()
    if message.startswith(_OK):
        click.echo(message[1:].decode())
        sys.exit(0)
    raise click.ClickException(message.decode() or "the daemon ended before it was ready; see its log")


def _send(pipe: IO[bytes], message: bytes) -> None:
    """Send the one report that the calling process waits for; later reports are dropped."""
    if pipe.closed:  # closed: its descriptor number may be reused
        return
    with contextlib.suppress(OSError):  # the calling process is gone
        pipe.write(message)
    pipe.close()


def _log_to(log: Path) -> None:
    """Redirect output and logging to a log file, which is rotated."""
    _redirect_output(log)
    handler = logging.handlers.RotatingFileHandler(log, maxBytes=_MAX_LOG_SIZE, backupCount=_LOG_FILES)
    logging.basicConfig(handlers=[handler], level=logging.INFO, format=_LOG_FORMAT)


def log_to_stderr() -> None:
    """Log to stderr, each line with its time."""
    logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT)


def _redirect_output(path: Path) -> None:
    """Redirect stdout and stderr to a file, and stdin to /dev/null."""
    null = os.open(os.devnull, os.O_RDONLY)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, file), (2, file)):
        os.dup2(source, target)
    os.close(null)
    os.close(file)


def write_daemon_info(home: Path, **info: object) -> None:
    """Write `daemon.json`, by which other commands find the daemon of a home."""
    temporary = home / f".{DAEMON_FILE}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(info, file)
    temporary.replace(home / DAEMON_FILE)


def remove_daemon_info(home: Path) -> None:
    """Remove `daemon.json`: the home is not served any more."""
    (home / DAEMON_FILE).unlink(missing_ok=True)


def read_daemon_info(home: Path) -> dict[str, Any] | None:
    """The contents of `daemon.json`; None if no daemon is running. The file of a dead daemon is ignored."""
    if not is_locked(home):
        return None
    with contextlib.suppress(OSError, ValueError):
        message: dict[str, Any] = json.loads((home / DAEMON_FILE).read_text())
        return message
    return None


def is_locked(directory: Path) -> bool:
    """Whether a directory is in use: a home by a daemon, or the directory of a run by a shim."""
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
    """Like `read_daemon_info`, but a ClickException if no daemon is running."""
    info = read_daemon_info(home)
    if info is None:
        raise click.ClickException(f"no daemon serves {home}; start one with `shoal up -d`")
    return info
