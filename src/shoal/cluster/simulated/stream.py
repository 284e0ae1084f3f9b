"""A watch as a process has it: the cluster's own, which may be late, break, or end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

import msgspec

from shoal.cluster.errors import ClusterError, UnavailableError
from shoal.cluster.port import Event
from shoal.cluster.resources import Resource
from shoal.cluster.simulated.faults import Faults
from shoal.cluster.simulated.schedule import Cut, Lose, Refuse, Slow

T = TypeVar("T")
U = TypeVar("U")

Watched = AbstractAsyncContextManager[AsyncIterator[Event[T]]]


class _Ending(msgspec.Struct, frozen=True):
    """When a stream is over, and with what error if it is one."""

    at: float
    error: ClusterError | None


class _Held(msgspec.Struct, Generic[T], frozen=True):
    """An event that is told at a time, and not before: it outlasts whoever gives up waiting for it."""

    event: Event[T]
    until: float


class Stream(Generic[T]):
    """One watch: a context, and within it an iterator."""

    def __init__(
        self,
        resource: Resource[T],
        watched: Watched[T],
        faults: Faults,
        admit: Callable[[], Awaitable[None]],
        among: dict["Stream[Any]", None],
    ) -> None:
        """Follow what is watched; `admit` returns when it may be opened: then it is `among` the open."""
        self.resource: Final = resource
        self._watched: Final = watched
        self._faults: Final = faults
        self._admit: Final = admit
        self._among: Final = among
        self._now: Final = asyncio.get_running_loop().time
        self._waits: asyncio.Timeout | None = None
        self._held: _Held[T] | None = None
        self._ending: _Ending | None = None

    async def __aenter__(self) -> "Stream[T]":
        await self._admit()
        self._events = await self._watched.__aenter__()
        self._among[self] = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._among.pop(self, None)
        return await self._watched.__aexit__(kind, error, trace)

    def __aiter__(self) -> "Stream[T]":
        return self

    async def __anext__(self) -> Event[T]:
        while self._ending is None:
            if self._held is None:
                await self._hold_next()
            elif self._held.until > self._now():
                await self._unless_it_ends(asyncio.sleep(self._held.until - self._now()))
            else:
                event, self._held = self._held.event, None
                return event
        await asyncio.sleep(max(self._ending.at - self._now(), 0.0))
        raise self._ending.error or StopAsyncIteration

    # --- how it ends --------------------------------------------------------------------------------------

    def cut(self, fault: Cut) -> None:
        """Tell nothing more, and be over when the fault says."""
        error = None if fault.clean else UnavailableError("simulated: the connection broke")
        self.end(error, fault.seconds)

    def end(self, error: ClusterError | None = None, seconds: float = 0.0) -> None:
        """Be over so much later."""
        if self._ending is None:
            self._ending = _Ending(self._now() + seconds, error)
            if self._waits is not None:
                self._waits.reschedule(self._now())

    # --- what comes next ----------------------------------------------------------------------------------

    async def _hold_next(self) -> None:
        """Wait for an event, and see what comes with it."""
        event = await self._unless_it_ends(anext(self._events))
        if event is None or self._ending is not None:
            return
        lost, late = False, 0.0
        for fault in self._faults.hits("event", self.resource.full_name):
            match fault:
                case Cut():
                    self.cut(fault)
                case Refuse():
                    self.end(fault.error())
                case Slow(seconds=seconds):
                    late += seconds
                case _:
                    lost = lost or isinstance(fault, Lose)
        if self._faults.down:
            self.end(UnavailableError("simulated: the connection broke"))
        if not lost:
            self._held = _Held(event, self._now() + late)

    async def _unless_it_ends(self, awaited: Awaitable[U]) -> U | None:
        """What is waited for; None if the stream is ended before."""
        try:
            async with asyncio.timeout(None) as self._waits:
                return await awaited
        except TimeoutError:
            return None
        finally:
            self._waits = None
