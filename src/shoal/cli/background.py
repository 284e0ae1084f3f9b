"""Running a command in the background: it is on its own before the foreground returns.

with detached(log) as tell:   # the process that goes on is in here; the one that was called waits
...
tell("ready")             # what the one that was called prints, and returns
"""

import contextlib
import logging.handlers
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

import click

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
        except click.ClickException as problem:
            _tell(pipe, problem.format_message().encode())
            raise
        except BaseException as problem:
            _tell(pipe, str(problem).encode())
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
