"""Descriptors of a command that runs beside us: what it reads and what it writes, on any event loop."""

import asyncio
import os
from typing import Final

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
