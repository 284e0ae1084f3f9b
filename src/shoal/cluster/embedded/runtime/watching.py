"""Processes watched through descriptors of theirs: no thread for each, and no handler of signals.

It works alike for our children, which are reaped, and for those of an earlier daemon.
"""

import asyncio
import os
import signal
from contextlib import suppress
from typing import Final

_TEXT: Final = 4096


class Watched:
    """A process that is watched until it ends or we let go of it."""

    def __init__(self, descriptor: int) -> None:
        """Watch the process of a pidfd, which is closed in the end."""
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._end)
        self._code: asyncio.Future[int] = self._loop.create_future()

    @property
    def over(self) -> bool:
        return self._code.done()

    async def ended(self) -> int:
        """Its exit code, once it has ended: 128 and the signal, if one ended it; 0 if it is not our child."""
        return await asyncio.shield(self._code)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it, and to nobody who may have its number after it."""
        if self._descriptor >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def let_go(self) -> None:
        """Watch it no longer; it goes on."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _end(self) -> None:
        code = _reaped(self._descriptor)
        self.let_go()
        self._code.set_result(code)


def _reaped(descriptor: int) -> int:
    try:
        result = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return 0
    if result is None:
        return 0
    return result.si_status if result.si_code == os.CLD_EXITED else 128 + result.si_status


async def text_of(pipe: int) -> bytes:
    """What comes through a pipe at first, which is closed then; nothing if its other end was closed."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe, ready.set)
    try:
        await ready.wait()
        return os.read(pipe, _TEXT)
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)
