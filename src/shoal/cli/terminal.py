"""A terminal here, and a command elsewhere: what is typed goes there, what it prints comes here."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import termios
import threading
import tty as terminals
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Final

import msgspec

from shoal.client.streams import ENDED, STDERR, STDIN, STDOUT, Stream, exit_code
from shoal.cluster.errors import UnavailableError

_CHUNK: Final = 2**15


async def converse(stream: Stream, *, stdin: bool, tty: bool) -> int:
    """Pass everything on until the command has ended; its exit code."""
    with _raw() if tty and stdin and sys.stdin.isatty() else contextlib.nullcontext():
        if tty:
            await _tell_size(stream)
        if stdin:
            loop = asyncio.get_running_loop()
            threading.Thread(target=_pass_input, args=(stream, loop), daemon=True).start()
        async for channel, text in stream.messages():
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


async def _tell_size(stream: Stream) -> None:
    """Tell the size of the terminal, now and whenever it changes."""
    loop, telling = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def tell() -> None:
        telling.add(task := loop.create_task(stream.resize(*shutil.get_terminal_size())))
        task.add_done_callback(telling.discard)

    loop.add_signal_handler(signal.SIGWINCH, tell)
    await stream.resize(*shutil.get_terminal_size())


def _pass_input(stream: Stream, loop: asyncio.AbstractEventLoop) -> None:
    """Read in a thread of its own, as no event loop waits for files, and no faster than it is sent."""
    with contextlib.suppress(RuntimeError, CancelledError):  # the command has ended, and the loop with it
        while text := os.read(sys.stdin.fileno(), _CHUNK):
            asyncio.run_coroutine_threadsafe(stream.send(STDIN, text), loop).result()
        asyncio.run_coroutine_threadsafe(stream.close_input(), loop).result()


def _write(file: int, text: bytes) -> None:
    while text:
        text = text[os.write(file, text) :]
