"""Simulated processes of Shoal: programs on a connection, which a crash ends as a whole.

    await run_with_restarts(store, faults, shoal)   # `shoal(cluster)` runs, and is restarted after each crash

A process is a coroutine and every task that it starts. A crash cancels them all, at once and as often as they
catch the cancellation. Nothing that they do while they end reaches the cluster, as if they were killed.
A frozen process runs none of its tasks, and its timers fire when it continues.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from shoal.cluster.port import Cluster
from shoal.simulator.connection import Connection
from shoal.simulator.faults import FaultInjector
from shoal.simulator.loop import PROCESS, StuckError, Task, VirtualLoop
from shoal.simulator.schedule import Crash

T = TypeVar("T")

Program = Callable[[Cluster], Coroutine[Any, Any, T]]

_MAX_CANCELS: Final = 1000
"""How often a task may catch its cancellation before the run is stuck."""


class CrashedError(Exception):
    """Raised when a process was ended by a crash."""

    def __init__(self, fault: Crash) -> None:
        super().__init__("the process has crashed")
        self.fault: Final = fault


async def run_with_restarts(cluster: Cluster, faults: FaultInjector, program: Program[T]) -> T:
    """Run a program to its end; after each crash it is restarted, once its down time is over."""
    while True:
        try:
            return await run_once(cluster, faults, program)
        except CrashedError as crashed:
            await asyncio.sleep(crashed.fault.down)


async def run_once(cluster: Cluster, faults: FaultInjector, program: Program[T]) -> T:
    """Run a program, and return its result; CrashedError if it crashed. Its tasks end with it."""
    process = _Process()
    connection = Connection(cluster, faults, process.kill, process.freeze)
    try:
        task = process.start(program(connection))
        ends: list[asyncio.Future[Any]] = [task, process.killed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await process.end()
        faults.unregister(connection)
    if connection.crashed is not None:
        raise CrashedError(connection.crashed)
    return task.result()


class _Process:
    """All tasks that descend from one task."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise TypeError("processes are simulated on a VirtualLoop only")
        self._loop: Final = loop
        self.killed: Final[asyncio.Future[None]] = loop.create_future()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        context = contextvars.copy_context()
        context.run(PROCESS.set, self)
        return self._loop.create_task(work, context=context)

    def kill(self) -> None:
        """Cancel all tasks, also of a process that is frozen."""
        self._loop.thaw(self)
        if not self.killed.done():
            self.killed.set_result(None)
        for task in self._tasks():
            task.cancel("killed")

    def freeze(self, seconds: float) -> None:
        """Run none of the tasks for some seconds."""
        self._loop.freeze(self, seconds)

    async def end(self) -> None:
        """Kill until no task is left. No time passes."""
        for _ in range(_MAX_CANCELS):
            if not self._tasks():
                return
            self.kill()
            await asyncio.sleep(0)
        names = ", ".join(task.get_name() for task in self._tasks())
        raise StuckError(f"tasks go on after {_MAX_CANCELS} cancellations: {names}")

    def _tasks(self) -> list[Task[Any]]:
        return [task for task in self._loop.tasks() if task.process is self]
