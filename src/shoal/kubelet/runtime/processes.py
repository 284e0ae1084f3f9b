"""Starts processes with the descriptors they need, and watches them through pidfds."""

import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from shoal.kubelet.shim import records

PROGRAM: Final = (sys.executable, "-I", "-S", str(Path(records.__file__).with_name("start.py")))
_PLAN: Final = 3
_ABOVE: Final = 16
"""Descriptors that are passed on are moved up to here first: none may lie where another is to go."""


def spawn(
    mode: str,
    name: str,
    plan: dict[str, Any],
    descriptors: Mapping[int, int],
    *,
    blocked: Collection[signal.Signals] = (),
) -> int:
    """Start the program in a session of its own, and return its number.

    `descriptors` maps those that it sees to ours. The name is for people who look at the list of processes.
    """
    copy = records.give_plan(plan)
    copies: dict[int, int] = {}
    try:
        for target, source in {**descriptors, _PLAN: copy}.items():
            copies[target] = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
        actions = [
            *((os.POSIX_SPAWN_OPEN, target, os.devnull, os.O_RDWR, 0) for target in range(_PLAN)),
            *((os.POSIX_SPAWN_DUP2, source, target) for target, source in copies.items()),
        ]
        arguments = [*PROGRAM, mode, name]
        return os.posix_spawn(
            arguments[0],
            arguments,
            {},
            file_actions=actions,
            setsid=True,
            setsigmask=blocked,
            setsigdef=signal.valid_signals(),
        )
    finally:
        for descriptor in (copy, *copies.values()):
            os.close(descriptor)


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
