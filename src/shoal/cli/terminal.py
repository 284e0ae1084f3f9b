"""A terminal here, and a command elsewhere: what is typed goes there, what it prints comes here."""

import contextlib
import os
import shutil
import signal
import sys
import termios
import threading
import tty as terminals
from collections.abc import Iterator
from typing import Final

import msgspec

from shoal.client.streams import ENDED, STDERR, STDIN, STDOUT, Stream, exit_code
from shoal.cluster.errors import UnavailableError

_CHUNK: Final = 2**15


def converse(stream: Stream, *, stdin: bool, tty: bool) -> int:
    """Pass everything on until the command has ended; its exit code."""
    with _raw() if tty and stdin and sys.stdin.isatty() else contextlib.nullcontext():
        if tty:
            _tell_size(stream)
        if stdin:
            threading.Thread(target=_pass_input, args=(stream,), daemon=True).start()
        for channel, text in stream.messages():
            if channel == ENDED:
                return exit_code(msgspec.json.decode(text, type=dict[str, object]))
            if channel in (STDOUT, STDERR):
                _write(sys.stderr.fileno() if channel == STDERR else sys.stdout.fileno(), text)
    raise UnavailableError("the connection was lost before the command ended")


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Every key goes to the command, Ctrl-C too; the terminal is put right again in the end."""
    before = termios.tcgetattr(sys.stdin)
    try:
        terminals.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _tell_size(stream: Stream) -> None:
    """Tell the size of the terminal, now and whenever it changes."""

    def tell(*_: object) -> None:
        stream.resize(*shutil.get_terminal_size())

    signal.signal(signal.SIGWINCH, tell)
    tell()


def _pass_input(stream: Stream) -> None:
    while text := os.read(sys.stdin.fileno(), _CHUNK):
        stream.send(STDIN, text)
    stream.close_input()


def _write(file: int, text: bytes) -> None:
    while text:
        text = text[os.write(file, text) :]
