"""A watch as a process has it: the cluster's own, which may be late, break, or end.

A process's connection to a cluster: the port, with whatever faults come with each call.

Without a fault it is the cluster itself. With one it does what the fault says and keeps every other promise
of the port: an answer may be lost, late or wrong, but an event is missed only where a watch breaks.

A write, once sent, is the cluster's business: it takes effect although its caller gave up, or is no more.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from shoal.apiserver.registry.records import copied
from shoal.cluster.errors import ClusterError, UnavailableError
from shoal.cluster.port import AS_USUAL, EVERYWHERE, Cluster, Deletion, Event, Page, Where
from shoal.cluster.resources import PODS, Object, Resource
from shoal.simulator.faults import Faults
from shoal.simulator.schedule import AnyFault, Crash, Cut, Lose, Refuse, Slow, Twice

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


_CRASHED: Final = "simulated: the process has crashed"


class Connection:
    """A home of objects as one process reaches it. Closing it leaves the cluster alone."""

    def __init__(self, cluster: Cluster, faults: Faults, killed: Callable[[], None] | None = None) -> None:
        """Reach a cluster; `killed` is called when a crash strikes whoever is on this connection."""
        self.crashed: Crash | None = None
        self._cluster: Final = cluster
        self._faults: Final = faults
        self._killed: Final = killed
        self._streams: Final[dict[Stream[Any], None]] = {}
        self._under_way: Final[set[asyncio.Task[Any]]] = set()
        self._outside: Final = contextvars.copy_context()
        self._closed = False
        faults.strike(self)

    # --- what strikes everybody ---------------------------------------------------------------------------

    def crash(self, fault: Crash) -> None:
        """Nothing more comes through, in no direction."""
        self.crashed = fault
        self._faults.spare(self)
        if self._killed is not None:
            self._killed()

    def cut(self, fault: Cut) -> None:
        """Cut the watches that are meant."""
        resource = fault.on.partition(" ")[2]
        for stream in list(self._streams):
            if resource in ("", stream.resource.full_name):
                stream.cut(fault)

    async def close(self) -> None:
        """Let go; streams end."""
        self._closed = True
        self._faults.spare(self)
        for stream in list(self._streams):
            stream.end()

    # --- reading ------------------------------------------------------------------------------------------

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        return await self._read("get", resource, lambda: self._cluster.get(resource, name, namespace))

    async def list(
        self, resource: Resource[T], where: Where = EVERYWHERE, *, limit: int = 0, start: str = ""
    ) -> Page[T]:
        return await self._read(
            "list", resource, lambda: self._cluster.list(resource, where, limit=limit, start=start)
        )

    def watch(
        self,
        resource: Resource[T],
        where: Where = EVERYWHERE,
        *,
        version: str = "",
        timeout: float | None = None,
    ) -> Stream[T]:
        watched = self._cluster.watch(resource, where, version=version, timeout=timeout)
        admit = partial(self._read, "watch", resource, _nothing)
        return Stream(resource, watched, self._faults, admit, self._streams)

    async def _read(
        self, verb: str, resource: Resource[Any], call: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        self._must_be_there()
        return await self._served(self._faults.hits(verb, resource.full_name), call)

    # --- writing ------------------------------------------------------------------------------------------

    async def create(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        sent = copied(body)
        return await self._write(
            "create", resource, lambda: self._cluster.create(resource, sent, dry_run=dry_run)
        )

    async def update(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        sent = copied(body)
        return await self._write(
            "update", resource, lambda: self._cluster.update(resource, sent, dry_run=dry_run)
        )

    async def patch(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        sent = copied(patch)
        return await self._write(
            "patch",
            resource,
            lambda: self._cluster.patch(resource, name, namespace, patch=sent, dry_run=dry_run),
        )

    async def patch_status(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        sent = copied(patch)
        return await self._write(
            "patch_status",
            resource,
            lambda: self._cluster.patch_status(resource, name, namespace, patch=sent, dry_run=dry_run),
        )

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", how: Deletion = AS_USUAL
    ) -> T | None:
        return await self._write(
            "delete", resource, lambda: self._cluster.delete(resource, name, namespace, how)
        )

    async def bind(self, name: str, namespace: str, node: str, *, uid: str = "") -> None:
        await self._write("bind", PODS, lambda: self._cluster.bind(name, namespace, node, uid=uid))

    async def evict(self, name: str, namespace: str, how: Deletion = AS_USUAL) -> None:
        await self._write("evict", PODS, lambda: self._cluster.evict(name, namespace, how))

    async def _write(
        self, verb: str, resource: Resource[Any], call: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        self._must_be_there()
        hits = self._faults.hits(verb, resource.full_name)
        for fault in hits:
            if isinstance(fault, Crash) and not fault.after:
                self.crash(fault)
                raise asyncio.CancelledError(_CRASHED)
        return await asyncio.shield(self._send(self._served(hits, call)))

    def _send(self, served: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Have something done outside the process, which may end before it is."""
        task = asyncio.get_running_loop().create_task(served, context=self._outside.copy())
        self._under_way.add(task)
        task.add_done_callback(self._is_done)
        return task

    def _is_done(self, task: asyncio.Task[Any]) -> None:
        """What comes of a request is nobody's worry when whoever sent it is gone."""
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()

    # --- both ---------------------------------------------------------------------------------------------

    def _must_be_there(self) -> None:
        if self.crashed is not None:
            raise asyncio.CancelledError(_CRASHED)
        if self._closed:
            raise UnavailableError("the connection has been closed")

    async def _served(self, hits: Sequence[AnyFault], call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The way of a request, from the caller to the cluster and back."""
        await _pause(fault.seconds for fault in hits if isinstance(fault, Slow) and not fault.answer)
        if self._faults.down:
            raise UnavailableError("simulated: nobody answers")
        refusal = next((fault for fault in hits if isinstance(fault, Refuse)), None)
        if refusal is not None and not refusal.applied:
            raise refusal.error()
        answer = await self._answer(hits, call)
        for fault in hits:
            if isinstance(fault, Crash):
                self.crash(fault)
        await _pause(fault.seconds for fault in hits if isinstance(fault, Slow) and fault.answer)
        if refusal is not None:
            raise refusal.error()
        return answer()

    async def _answer(
        self, hits: Sequence[AnyFault], call: Callable[[], Coroutine[Any, Any, T]]
    ) -> Callable[[], T]:
        """Have the cluster do it, twice if it is to be: what to do to hear what it said."""
        first = await _heard(call())
        for twice in hits:
            if isinstance(twice, Twice):
                again = self._send(_later(twice.seconds, call))
                if twice.heard == "second":
                    return await again
        return first


async def _heard(answer: Awaitable[T]) -> Callable[[], T]:
    """Wait for an answer, whatever it is, to be heard later or never."""
    try:
        said = await answer
    except ClusterError as problem:
        return partial(_say, problem)
    return lambda: said


def _say(problem: ClusterError) -> NoReturn:
    raise problem


async def _later(seconds: float, call: Callable[[], Awaitable[T]]) -> Callable[[], T]:
    await _pause([seconds])
    return await _heard(call())


async def _nothing() -> None:
    """What is done to open a watch: its own context does the rest."""


async def _pause(seconds: Iterable[float]) -> None:
    total = sum(seconds)
    if total > 0:
        await asyncio.sleep(total)
