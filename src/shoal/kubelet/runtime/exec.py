"""Descriptors of a command that runs beside us: what it reads and what it writes, on any event loop.

Another command in a container that runs, with pipes or with a terminal.
"""

import asyncio
import fcntl
import os
import signal
import struct
import termios
from contextlib import suppress
from typing import Any, Final

from shoal.kubelet.runtime.processes import Watched, spawn

_BLOCK: Final = 1 << 16
_AHEAD: Final = 1 << 18
"""Bytes that are read ahead, about, of what nobody has asked for yet."""


class Stdin:
    """What a command reads."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()

    async def write(self, data: bytes) -> None:
        """Write all of it; BrokenPipeError if nobody reads any more."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                await self._writable()
            except OSError as problem:  # a terminal without processes says EIO, one that was closed EBADF
                raise BrokenPipeError(problem.errno, problem.strerror) from problem

    def close(self) -> None:
        """Say that nothing more comes."""
        if self._descriptor >= 0:
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    async def _writable(self) -> None:
        ready = asyncio.Event()
        self._loop.add_writer(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_writer(self._descriptor)


class Output(asyncio.ReadTransport):
    """What a command writes: a pipe or a terminal, whose end asyncio itself would take for an error."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._paused = self._ending = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read)
        self.reader: Final = asyncio.StreamReader(limit=_AHEAD)
        self.reader.set_transport(self)

    def pause_reading(self) -> None:
        self._paused = True
        self._loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        self._paused = False
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._read)
            self._read()

    def end(self) -> None:
        """The command has ended: what is there is still read, but nobody is waited for who may write yet."""
        self._ending = True
        if not self._paused and self._descriptor >= 0:
            self._read()

    def close(self) -> None:
        """Read no more."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self.reader.feed_eof()

    def _read(self) -> None:
        """Read once; at the end of a command, until nothing is left or enough is read ahead."""
        while self._read_once() and self._ending and not self._paused:
            pass

    def _read_once(self) -> bool:
        try:
            data = os.read(self._descriptor, _BLOCK)
        except BlockingIOError:
            data, over = b"", self._ending
        except OSError:  # EIO: nobody has the terminal any more
            data, over = b"", True
        else:
            over = not data
        if over:
            self.close()
        elif data:
            self.reader.feed_data(data)
        return bool(data)


_SIZE: Final = (24, 80)
"""Rows and columns of a terminal of which nobody says how large it is."""


class Execution:
    """A command that was started in a container. With a terminal both its streams are `stdout`."""

    def __init__(self, pid: int, stdin: Stdin | None, outputs: list[Output], terminal: int | None) -> None:
        self.stdin: Final = stdin
        self.stdout: Final = outputs[0].reader
        self.stderr: Final = outputs[1].reader if len(outputs) > 1 else None
        self._pid, self._outputs, self._terminal = pid, outputs, terminal
        self._process = Watched(os.pidfd_open(pid))
        self._care = asyncio.create_task(self._look_after())

    async def wait(self) -> int:
        """Its exit code, as a shell has it: 128 and the signal, if one ended it."""
        return await asyncio.shield(self._care)

    def resize(self, rows: int, columns: int) -> None:
        """Tell the terminal its size, and whoever is in front of it that it has changed."""
        if self._terminal is not None:
            _resize(self._terminal, rows, columns)

    def terminate(self) -> None:
        """End it with all of its group; what it has written can still be read."""
        if not self._process.over:
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)

    def kill(self) -> None:
        """End it when nobody reads any more."""
        self.terminate()
        for output in self._outputs:
            output.close()

    async def _look_after(self) -> int:
        code = await self._process.ended()
        for output in self._outputs:
            output.end()
        if self.stdin:
            self.stdin.close()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None
        return code


def execute(
    name: str, plan: dict[str, Any], *, tty: bool, stdin: bool, size: tuple[int, int] | None
) -> Execution:
    """Start a command. It dies with the thread that starts it: with the event loop's, that is, the daemon."""
    plan = {**plan, "tty": tty, "parent": os.getpid()}
    return _with_terminal(name, plan, size or _SIZE) if tty else _with_pipes(name, plan, stdin=stdin)


def _with_terminal(name: str, plan: dict[str, Any], size: tuple[int, int]) -> Execution:
    terminal, inner = os.openpty()
    try:
        _resize(terminal, *size)
        pid = spawn("execute", name, plan, dict.fromkeys(range(3), inner))
    except BaseException:
        os.close(terminal)
        raise
    finally:
        os.close(inner)
    return Execution(pid, Stdin(os.dup(terminal)), [Output(os.dup(terminal))], terminal)


def _with_pipes(name: str, plan: dict[str, Any], *, stdin: bool) -> Execution:
    outer, inner = {}, {}
    for number in (0, 1, 2) if stdin else (1, 2):
        reader, writer = os.pipe2(os.O_CLOEXEC)
        outer[number], inner[number] = (writer, reader) if number == 0 else (reader, writer)
    try:
        pid = spawn("execute", name, plan, inner)
    except BaseException:
        for descriptor in outer.values():
            os.close(descriptor)
        raise
    finally:
        for descriptor in inner.values():
            os.close(descriptor)
    outputs = [Output(outer[1]), Output(outer[2])]
    return Execution(pid, Stdin(outer[0]) if stdin else None, outputs, None)


def _resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
