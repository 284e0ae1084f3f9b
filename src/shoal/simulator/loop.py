"""An event loop on which waiting costs nothing: when nothing is ready, time jumps to the next timer.

It is asyncio's own loop with another way to wait: whatever is written for asyncio runs on it unchanged.
What a run does depends on nothing but its code and its dice. There are no threads, sockets or processes: to
ask for one is an error. Tasks and futures are told apart by a number instead of their address, so that even a
set of them has the same order in every run.

A run that waits for what can never happen is told so, with the names of those who wait, and so is one in
which time stands still.
"""

import asyncio
import contextvars
import math
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

Ts = TypeVarTuple("Ts")
T = TypeVar("T")

_MOST_TURNS: Final = 1_000_000
"""Turns of the loop at one moment, after which time is taken to stand still."""


FAMILY: Final = contextvars.ContextVar[object]("FAMILY", default=None)
"""Whose work is done here: a task belongs where it was begun."""


class StuckError(RuntimeError):
    """Raised when a simulated run cannot go on: everybody waits for somebody, or time stands still."""


class NotSimulatedError(RuntimeError):
    """Raised when a simulated run asks for something real: a thread, a socket, a process, a signal."""


class Task(asyncio.Task[T]):
    """A task with a number: its hash and its name are the same in every run. It knows its family."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, T], **more: Any) -> None:  # noqa: ANN401
        self.number: Final = number
        context = more.get("context")
        self.family: Final = FAMILY.get() if context is None else context.get(FAMILY)
        super().__init__(coroutine, **more)

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[T]):
    """A future with a number."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number: Final = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop that begins at 0 seconds and never waits."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Jumps(self)
        self._seconds = 0.0
        self.jump(0.0)
        self._numbers = 0
        self._thread = threading.get_ident()
        self.set_task_factory(self._task)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._seconds

    def jump(self, seconds: float) -> None:
        """Let time pass. No timer may run before its time: it could be set again and again, for ever."""
        self._seconds += seconds
        self._clock_resolution = math.ulp(self._seconds)

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(self._next_number(), loop=self)

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """As `call_soon`: there is one thread only."""
        if threading.get_ident() != self._thread:
            _refuse("call_soon_threadsafe from another thread")
        return self.call_soon(callback, *args, context=context)

    def tasks(self) -> list[Task[Any]]:
        """All tasks that are not done, oldest first."""
        mine = (task for task in asyncio.all_tasks(self) if isinstance(task, Task))
        return sorted(mine, key=lambda task: task.number)

    def _task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Any,  # noqa: ANN401 - as asyncio has it
        **more: Any,  # noqa: ANN401 - as asyncio has it
    ) -> Task[Any]:
        number = self._next_number()
        more["name"] = more.get("name") or f"task-{number}"
        return Task(number, coroutine, loop=loop, **more)

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _process_events(self, events: Iterable[object]) -> None:
        """Nothing comes from outside."""

    def _write_to_self(self) -> None:
        """Nobody need be woken who never sleeps."""


class _Jumps:
    """What the loop waits with, in the place of a selector."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop: Final = loop
        self._turns = 0

    def select(self, seconds: float | None) -> list[object]:
        """Nothing is ready for so long, or for ever."""
        if seconds is None:
            raise StuckError(f"nothing will ever happen any more: {_waiting(self._loop)}")
        if seconds > 0:
            self._loop.jump(seconds)
            self._turns = 0
        self._turns += 1
        if self._turns > _MOST_TURNS:
            self._turns = 0  # so that everybody can be ended
            raise StuckError(f"time stands still at {self._loop.time():.6f} s: {_waiting(self._loop)}")
        return []


def _waiting(loop: VirtualLoop) -> str:
    """Who has not finished."""
    names = [f"{task.get_name()} ({_called(task)})" for task in loop.tasks()]
    return f"{', '.join(names) or 'nobody'} at work"


def _called(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", "unnamed")


# --- what is real -----------------------------------------------------------------------------------------


def _refuse(what: str) -> NoReturn:
    raise NotSimulatedError(
        f"{what}: a simulated run has no threads, sockets, processes or signals, only its own time"
    )


def _refusing(what: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        _refuse(what)

    return refuse


for _real in (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_connection",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "run_in_executor",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
):
    setattr(VirtualLoop, _real, _refusing(_real))
