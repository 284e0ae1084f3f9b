"""Processes of Shoal: whatever runs on a connection, which a crash ends all at once.

    await lasting(store, faults, shoal)     # `shoal(cluster)` runs, and begins anew after each crash

A process is a coroutine and every task that comes of it. A crash cancels them all, at once and as often as
they resist. Nothing that they do while they end comes through to the cluster: it is as if they were killed.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from shoal.cluster.port import Cluster
from shoal.simulator.connection import Connection
from shoal.simulator.faults import Faults
from shoal.simulator.loop import FAMILY, StuckError, Task, VirtualLoop
from shoal.simulator.schedule import Crash

T = TypeVar("T")

Program = Callable[[Cluster], Coroutine[Any, Any, T]]

_MOST_CANCELS: Final = 1000
"""How often a task may go on after it was cancelled, before it is taken to be immortal."""


class CrashedError(Exception):
    """Raised when a process was ended by a crash."""

    def __init__(self, fault: Crash) -> None:
        super().__init__("the process has crashed")
        self.fault: Final = fault


async def lasting(cluster: Cluster, faults: Faults, program: Program[T]) -> T:
    """What a program returns in the end; it begins anew after each crash, when it was down for a while."""
    while True:
        try:
            return await once(cluster, faults, program)
        except CrashedError as crashed:
            await asyncio.sleep(crashed.fault.down)


async def once(cluster: Cluster, faults: Faults, program: Program[T]) -> T:
    """What a program returns; CrashedError if it was ended before. All that it began ends with it."""
    process = _Process()
    connection = Connection(cluster, faults, process.kill)
    try:
        task = process.begin(program(connection))
        ends: list[asyncio.Future[Any]] = [task, process.killed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await process.end()
        faults.spare(connection)
    if connection.crashed is not None:
        raise CrashedError(connection.crashed)
    return task.result()


class _Process:
    """A family of tasks, which are told by what they were begun by."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise TypeError("processes are simulated on a VirtualLoop only")
        self._loop: Final = loop
        self.killed: Final[asyncio.Future[None]] = loop.create_future()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        context = contextvars.copy_context()
        context.run(FAMILY.set, self)
        return self._loop.create_task(work, context=context)

    def kill(self) -> None:
        """Cancel all tasks."""
        if not self.killed.done():
            self.killed.set_result(None)
        for task in self._tasks():
            task.cancel("killed")

    async def end(self) -> None:
        """Kill until nobody is left. No time passes."""
        for _ in range(_MOST_CANCELS):
            if not self._tasks():
                return
            self.kill()
            await asyncio.sleep(0)
        names = ", ".join(task.get_name() for task in self._tasks())
        raise StuckError(f"cancelled {_MOST_CANCELS} times and still at work: {names}")

    def _tasks(self) -> list[Task[Any]]:
        return [task for task in self._loop.tasks() if task.family is self]
