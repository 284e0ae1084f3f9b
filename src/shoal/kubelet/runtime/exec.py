"""Commands in running containers (`kubectl exec`, exec probes), with pipes or with a terminal.

Their streams work on any event loop.
"""

import asyncio
import fcntl
import os
import signal
import struct
import termios
from contextlib import suppress
from typing import Any, Final

from shoal.kubelet.runtime.processes import WatchedProcess, spawn_shim

_READ_SIZE: Final = 1 << 16
_BUFFER_LIMIT: Final = 1 << 18
"""Bytes read ahead, approximately, before reading pauses."""
_DEFAULT_SIZE: Final = (24, 80)
"""Rows and columns of a terminal whose size the client does not say."""


class Stdin:
    """The standard input of a command."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()

    async def write(self, data: bytes) -> None:
        """Write all data; BrokenPipeError if the command has closed its input."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                await self._writable()
            except OSError as error:  # EIO: a terminal without processes; EBADF: closed
                raise BrokenPipeError(error.errno, error.strerror) from error

    def close(self) -> None:
        """Close the input: the command reads end-of-file."""
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


class OutputTransport(asyncio.ReadTransport):
    """Reads an output of a command: a pipe, or a terminal, whose end asyncio itself treats as an error."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._paused = self._draining = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read)
        self.reader: Final = asyncio.StreamReader(limit=_BUFFER_LIMIT)
        self.reader.set_transport(self)

    def pause_reading(self) -> None:
        self._paused = True
        self._loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        self._paused = False
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._read)
            self._read()

    def drain(self) -> None:
        """Read what is buffered: the command has ended.

        Do not wait for other processes that hold the pipe.
        """
        self._draining = True
        if not self._paused and self._descriptor >= 0:
            self._read()

    def close(self) -> None:
        """Stop reading."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self.reader.feed_eof()

    def _read(self) -> None:
        """Read once; when draining, until the pipe is empty or the buffer is full."""
        while self._read_once() and self._draining and not self._paused:
            pass

    def _read_once(self) -> bool:
        try:
            data = os.read(self._descriptor, _READ_SIZE)
        except BlockingIOError:
            data, over = b"", self._draining
        except OSError:  # EIO: no process has the terminal open any more
            data, over = b"", True
        else:
            over = not data
        if over:
            self.close()
        elif data:
            self.reader.feed_data(data)
        return bool(data)


class Execution:
    """A command started in a container. With a terminal, both output streams are `stdout`."""

    def __init__(
        self, pid: int, stdin: Stdin | None, outputs: list[OutputTransport], terminal: int | None
    ) -> None:
        self.stdin: Final = stdin
        self.stdout: Final = outputs[0].reader
        self.stderr: Final = outputs[1].reader if len(outputs) > 1 else None
        self._pid, self._outputs, self._terminal = pid, outputs, terminal
        self._process = WatchedProcess(os.pidfd_open(pid))
        self._supervision = asyncio.create_task(self._supervise())

    async def wait(self) -> int:
        """Wait for the command.

        Its exit code as a shell reports it: 128 plus the signal number if a signal ended it.
        """
        return await asyncio.shield(self._supervision)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal; the kernel signals the change to the foreground processes."""
        if self._terminal is not None:
            _resize(self._terminal, rows, columns)

    def terminate(self) -> None:
        """Kill the command and its process group; its output can still be read."""
        if not self._process.exited:
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the command and stop reading its output."""
        self.terminate()
        for output in self._outputs:
            output.close()

    async def _supervise(self) -> int:
        code = await self._process.wait()
        for output in self._outputs:
            output.drain()
        if self.stdin:
            self.stdin.close()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None
        return code


def start_execution(
    name: str, config: dict[str, Any], *, tty: bool, stdin: bool, size: tuple[int, int] | None
) -> Execution:
    """Start a command.

    It dies with the thread that starts it: the thread of the event loop, i.e. the daemon.
    """
    config = {**config, "tty": tty, "parent": os.getpid()}
    return (
        _with_terminal(name, config, size or _DEFAULT_SIZE) if tty else _with_pipes(name, config, stdin=stdin)
    )


def _with_terminal(name: str, config: dict[str, Any], size: tuple[int, int]) -> Execution:
    terminal, inner = os.openpty()
    try:
        _resize(terminal, *size)
        pid = spawn_shim("execute", name, config, dict.fromkeys(range(3), inner))
    except BaseException:
        os.close(terminal)
        raise
    finally:
        os.close(inner)
    return Execution(pid, Stdin(os.dup(terminal)), [OutputTransport(os.dup(terminal))], terminal)


def _with_pipes(name: str, config: dict[str, Any], *, stdin: bool) -> Execution:
    outer, inner = {}, {}
    for number in (0, 1, 2) if stdin else (1, 2):
        reader, writer = os.pipe2(os.O_CLOEXEC)
        outer[number], inner[number] = (writer, reader) if number == 0 else (reader, writer)
    try:
        pid = spawn_shim("execute", name, config, inner)
    except BaseException:
        for descriptor in outer.values():
            os.close(descriptor)
        raise
    finally:
        for descriptor in inner.values():
            os.close(descriptor)
    outputs = [OutputTransport(outer[1]), OutputTransport(outer[2])]
    return Execution(pid, Stdin(outer[0]) if stdin else None, outputs, None)


def _resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
