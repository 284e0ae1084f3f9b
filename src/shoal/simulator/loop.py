"""An event loop on virtual time: when nothing is ready, time jumps to the next timer.

It is asyncio's own loop with another way to wait: code for asyncio runs on it unchanged. A run depends on its
code and its random seed only. There are no threads, sockets or processes: to ask for one is an error. Tasks
and futures are hashed by a number instead of their address, so that even a set of them has the same order in
every run.

A run that waits for something that can never happen ends with StuckError, which names the waiting tasks, and
so does one in which time does not advance.
"""

import asyncio
import contextvars
import heapq
import math
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

Ts = TypeVarTuple("Ts")
T = TypeVar("T")

_MAX_ITERATIONS: Final = 1_000_000
"""Iterations of the loop without time passing, after which the run is stuck."""


PROCESS: Final = contextvars.ContextVar[object]("PROCESS", default=None)
"""The simulated process of the current task: a task belongs to the process that started it."""


class StuckError(RuntimeError):
    """Raised when a simulated run cannot go on: all tasks wait for each other, or time does not advance."""


class NotSimulatedError(RuntimeError):
    """Raised when a simulated run uses something real: a thread, a socket, a process, a signal."""


class Task(asyncio.Task[T]):
    """A task with a number: its hash and its name are the same in every run. It knows its process."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, T], **more: Any) -> None:  # noqa: ANN401
        self.number: Final = number
        context = more.get("context")
        self.process: Final = PROCESS.get() if context is None else context.get(PROCESS)
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
    """A loop whose time begins at 0 seconds and that never sleeps."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._selector = _TimeSelector(self)
        self._seconds = 0.0
        self.advance(0.0)
        self._numbers = 0
        self._thread = threading.get_ident()
        self._frozen: dict[object, list[asyncio.Handle]] = {}
        self.set_task_factory(self._task)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Let time pass. No timer may fire early: it could be set again and again, without end."""
        self._seconds += seconds
        self._clock_resolution = math.ulp(self._seconds)

    def freeze(self, process: object, seconds: float) -> None:
        """Run nothing of a process for some seconds. If it is frozen already, the first end counts."""
        self._frozen.setdefault(process, [])
        self.call_later(seconds, self.thaw, process, context=contextvars.Context())

    def thaw(self, process: object) -> None:
        """Let a process continue, if it is frozen: first what was ready, then timers that are due."""
        for handle in self._frozen.pop(process, ()):
            if isinstance(handle, asyncio.TimerHandle):
                heapq.heappush(self._scheduled, handle)
            else:
                self._ready.append(handle)

    def _run_once(self) -> None:
        if self._frozen:
            self._park_frozen()
        super()._run_once()  # type: ignore[misc]  # asyncio's own, as the attributes above

    def _park_frozen(self) -> None:
        """Put the callbacks and timers of frozen processes aside."""
        self._ready = deque(handle for handle in self._ready if not self._park(handle))
        self._scheduled = [handle for handle in self._scheduled if not self._park(handle)]
        heapq.heapify(self._scheduled)

    def _park(self, handle: asyncio.Handle) -> bool:
        context: contextvars.Context = handle._context  # type: ignore[attr-defined]  # noqa: SLF001
        parked = self._frozen.get(context.get(PROCESS))
        if parked is not None:
            parked.append(handle)
        return parked is not None

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(self._next_number(), loop=self)

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Same as `call_soon`: there is only one thread."""
        if threading.get_ident() != self._thread:
            _raise_not_simulated("call_soon_threadsafe from another thread")
        return self.call_soon(callback, *args, context=context)

    def tasks(self) -> list[Task[Any]]:
        """Return all unfinished tasks, oldest first."""
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
        """Do nothing: there are no events from outside."""

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps, and need not be woken."""


class _TimeSelector:
    """Stands in for a selector: advances time instead of waiting."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop: Final = loop
        self._iterations = 0

    def select(self, seconds: float | None) -> list[object]:
        """Advance time by some seconds; None: no timer is set, and nothing can happen any more."""
        if seconds is None:
            raise StuckError(f"no timer is set and no task can go on: {_waiting(self._loop)}")
        if seconds > 0:
            self._loop.advance(seconds)
            self._iterations = 0
        self._iterations += 1
        if self._iterations > _MAX_ITERATIONS:
            self._iterations = 0  # so that the tasks can be cancelled
            raise StuckError(f"time does not advance from {self._loop.time():.6f} s: {_waiting(self._loop)}")
        return []


def _waiting(loop: VirtualLoop) -> str:
    """Return the names of unfinished tasks."""
    names = [f"{task.get_name()} ({_coroutine_name(task)})" for task in loop.tasks()]
    return f"unfinished tasks: {', '.join(names) or 'none'}"


def _coroutine_name(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", "unnamed")


# --- not simulated -----------------------------------------------------------------------------------------


def _raise_not_simulated(name: str) -> NoReturn:
    raise NotSimulatedError(f"{name} is not simulated: a run has no threads, sockets, processes or signals")


def _not_simulated(name: str) -> Callable[..., NoReturn]:
    def method(*_: object, **__: object) -> NoReturn:
        _raise_not_simulated(name)

    return method


for _name in (
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
    setattr(VirtualLoop, _name, _not_simulated(_name))
