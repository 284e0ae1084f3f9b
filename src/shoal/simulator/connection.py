"""The connection of a simulated process to a cluster: the port, with faults injected into its calls.

Without faults it behaves as the cluster itself. A fault does what it says and keeps every other guarantee of
the port: an answer may be lost, late or an error, but an event is missed only where a watch breaks.

A write that was sent takes effect even if its caller gives up or crashes.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from shoal.apiserver.registry.records import json_copy
from shoal.cluster.errors import ClusterError, UnavailableError
from shoal.cluster.port import DEFAULT_DELETION, EVERYTHING, Cluster, Deletion, Page, Selector, WatchEvent
from shoal.cluster.resources import PODS, Object, Resource
from shoal.simulator.faults import FaultInjector
from shoal.simulator.schedule import AnyFault, BreakWatch, Crash, DropEvent, Duplicate, Freeze, Refuse, Slow

T = TypeVar("T")
U = TypeVar("U")

OpenWatch = AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]


class _Ending(msgspec.Struct, frozen=True):
    """When a watch ends, and with what error, if any."""

    at: float
    error: ClusterError | None


class _DelayedEvent(msgspec.Struct, Generic[T], frozen=True):
    """An event that is delivered at a time, and not before, even if a waiter gives up in between."""

    event: WatchEvent[T]
    until: float


class FaultyWatch(Generic[T]):
    """A watch that may be delayed, fail or end: a context, and within it an iterator of events."""

    def __init__(
        self,
        resource: Resource[T],
        watch: OpenWatch[T],
        faults: FaultInjector,
        admit: Callable[[], Awaitable[None]],
        open_watches: dict["FaultyWatch[Any]", None],
    ) -> None:
        """Wrap a watch. It is opened when `admit` returns, and then registered in `open_watches`."""
        self.resource: Final = resource
        self._watch: Final = watch
        self._faults: Final = faults
        self._admit: Final = admit
        self._open_watches: Final = open_watches
        self._now: Final = asyncio.get_running_loop().time
        self._timeout: asyncio.Timeout | None = None
        self._delayed: _DelayedEvent[T] | None = None
        self._ending: _Ending | None = None

    async def __aenter__(self) -> "FaultyWatch[T]":
        await self._admit()
        self._events = await self._watch.__aenter__()
        self._open_watches[self] = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._open_watches.pop(self, None)
        return await self._watch.__aexit__(kind, error, trace)

    def __aiter__(self) -> "FaultyWatch[T]":
        return self

    async def __anext__(self) -> WatchEvent[T]:
        while self._ending is None:
            if self._delayed is None:
                await self._receive_next()
            elif self._delayed.until > self._now():
                await self._unless_ended(asyncio.sleep(self._delayed.until - self._now()))
            else:
                event, self._delayed = self._delayed.event, None
                return event
        await asyncio.sleep(max(self._ending.at - self._now(), 0.0))
        raise self._ending.error or StopAsyncIteration

    # --- the end of the watch ---------------------------------------------------------------------------

    def break_off(self, fault: BreakWatch) -> None:
        """Deliver nothing more, and end when the fault says."""
        error = None if fault.clean else UnavailableError("simulated: the connection broke")
        self.end(error, fault.seconds)

    def end(self, error: ClusterError | None = None, seconds: float = 0.0) -> None:
        """End after some seconds."""
        if self._ending is None:
            self._ending = _Ending(self._now() + seconds, error)
            if self._timeout is not None:
                self._timeout.reschedule(self._now())

    # --- the next event ---------------------------------------------------------------------------------

    async def _receive_next(self) -> None:
        """Wait for an event, and apply its faults."""
        event = await self._unless_ended(anext(self._events))
        if event is None or self._ending is not None:
            return
        dropped, delay = False, 0.0
        for fault in self._faults.faults_for("event", self.resource.full_name):
            match fault:
                case BreakWatch():
                    self.break_off(fault)
                case Refuse():
                    self.end(fault.error())
                case Slow(seconds=seconds):
                    delay += seconds
                case _:
                    dropped = dropped or isinstance(fault, DropEvent)
        if self._faults.in_outage:
            self.end(UnavailableError("simulated: the connection broke"))
        if not dropped:
            self._delayed = _DelayedEvent(event, self._now() + delay)

    async def _unless_ended(self, awaited: Awaitable[U]) -> U | None:
        """Return the awaited result; None if the watch ends before."""
        try:
            async with asyncio.timeout(None) as self._timeout:
                return await awaited
        except TimeoutError:
            return None
        finally:
            self._timeout = None


_CRASHED: Final = "simulated: the process has crashed"


class Connection:
    """The port of one process. Closing it does not close the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        faults: FaultInjector,
        on_crash: Callable[[], None] | None = None,
        on_freeze: Callable[[float], None] | None = None,
    ) -> None:
        """Connect to a cluster.

        `on_crash` is called when the process is to crash, `on_freeze` when it is to stop for some seconds.
        """
        self.crashed: Crash | None = None
        self._cluster: Final = cluster
        self._faults: Final = faults
        self._on_crash: Final = on_crash
        self._on_freeze: Final = on_freeze
        self._watches: Final[dict[FaultyWatch[Any], None]] = {}
        self._requests: Final[set[asyncio.Task[Any]]] = set()
        self._context: Final = contextvars.copy_context()
        self._closed = False
        faults.register(self)

    # --- global faults ----------------------------------------------------------------------------------

    def crash(self, fault: Crash) -> None:
        """Crash the process: no more calls or answers get through."""
        self.crashed = fault
        self._faults.unregister(self)
        if self._on_crash is not None:
            self._on_crash()

    def freeze(self, fault: Freeze) -> None:
        """Stop the process for some seconds. Requests that it has sent are served."""
        if self._on_freeze is not None:
            self._on_freeze(fault.seconds)

    def break_watches(self, fault: BreakWatch) -> None:
        """Break all open watches, or those of the resource that the fault names."""
        resource = fault.on.partition(" ")[2]
        for watch in list(self._watches):
            if resource in ("", watch.resource.full_name):
                watch.break_off(fault)

    async def close(self) -> None:
        """Close the connection; its watches end."""
        self._closed = True
        self._faults.unregister(self)
        for watch in list(self._watches):
            watch.end()

    # --- reading ----------------------------------------------------------------------------------------

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        return await self._read("get", resource, lambda: self._cluster.get(resource, name, namespace))

    async def list(
        self, resource: Resource[T], selector: Selector = EVERYTHING, *, limit: int = 0, start: str = ""
    ) -> Page[T]:
        return await self._read(
            "list", resource, lambda: self._cluster.list(resource, selector, limit=limit, start=start)
        )

    def watch(
        self,
        resource: Resource[T],
        selector: Selector = EVERYTHING,
        *,
        version: str = "",
        timeout: float | None = None,
    ) -> FaultyWatch[T]:
        watch = self._cluster.watch(resource, selector, version=version, timeout=timeout)
        admit = partial(self._read, "watch", resource, _no_operation)
        return FaultyWatch(resource, watch, self._faults, admit, self._watches)

    async def _read(
        self, verb: str, resource: Resource[Any], call: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        self._check_open()
        return await self._serve(self._faults.faults_for(verb, resource.full_name), call)

    # --- writing ----------------------------------------------------------------------------------------

    async def create(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        sent = json_copy(body)
        return await self._write(
            "create", resource, lambda: self._cluster.create(resource, sent, dry_run=dry_run)
        )

    async def update(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        sent = json_copy(body)
        return await self._write(
            "update", resource, lambda: self._cluster.update(resource, sent, dry_run=dry_run)
        )

    async def patch(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        sent = json_copy(patch)
        return await self._write(
            "patch",
            resource,
            lambda: self._cluster.patch(resource, name, namespace, patch=sent, dry_run=dry_run),
        )

    async def patch_status(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        sent = json_copy(patch)
        return await self._write(
            "patch_status",
            resource,
            lambda: self._cluster.patch_status(resource, name, namespace, patch=sent, dry_run=dry_run),
        )

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", deletion: Deletion = DEFAULT_DELETION
    ) -> T | None:
        return await self._write(
            "delete", resource, lambda: self._cluster.delete(resource, name, namespace, deletion)
        )

    async def bind(self, name: str, namespace: str, node: str, *, uid: str = "") -> None:
        await self._write("bind", PODS, lambda: self._cluster.bind(name, namespace, node, uid=uid))

    async def evict(self, name: str, namespace: str, deletion: Deletion = DEFAULT_DELETION) -> None:
        await self._write("evict", PODS, lambda: self._cluster.evict(name, namespace, deletion))

    async def _write(
        self, verb: str, resource: Resource[Any], call: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        self._check_open()
        faults = self._faults.faults_for(verb, resource.full_name)
        for fault in faults:
            if isinstance(fault, Crash) and not fault.after:
                self.crash(fault)
                raise asyncio.CancelledError(_CRASHED)
        return await asyncio.shield(self._send(self._serve(faults, call)))

    def _send(self, request: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a request outside of the process, which may end before the request does."""
        task = asyncio.get_running_loop().create_task(request, context=self._context.copy())
        self._requests.add(task)
        task.add_done_callback(self._request_done)
        return task

    def _request_done(self, task: asyncio.Task[Any]) -> None:
        """Retrieve the exception of a request, whose sender may be gone, so that it is not logged."""
        self._requests.discard(task)
        if not task.cancelled():
            task.exception()

    # --- requests ---------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.crashed is not None:
            raise asyncio.CancelledError(_CRASHED)
        if self._closed:
            raise UnavailableError("the connection has been closed")

    async def _serve(self, faults: Sequence[AnyFault], call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Serve a request: delays, refusal, the call itself, crash, delay of the answer."""
        await _pause(fault.seconds for fault in faults if isinstance(fault, Slow) and not fault.answer)
        if self._faults.in_outage:
            raise UnavailableError("simulated: the API server does not answer")
        refusal = next((fault for fault in faults if isinstance(fault, Refuse)), None)
        if refusal is not None and not refusal.applied:
            raise refusal.error()
        answer = await self._answer(faults, call)
        for fault in faults:
            if isinstance(fault, Crash):
                self.crash(fault)
        await _pause(fault.seconds for fault in faults if isinstance(fault, Slow) and fault.answer)
        if refusal is not None:
            raise refusal.error()
        return answer()

    async def _answer(
        self, faults: Sequence[AnyFault], call: Callable[[], Coroutine[Any, Any, T]]
    ) -> Callable[[], T]:
        """Make the call, twice if duplicated; return a function that returns the answer or raises it."""
        first = await _outcome(call())
        for fault in faults:
            if isinstance(fault, Duplicate):
                second = self._send(_outcome_later(fault.seconds, call))
                if fault.answered_by == "second":
                    return await second
        return first


async def _outcome(answer: Awaitable[T]) -> Callable[[], T]:
    """Wait for an answer; return a function that returns it, or raises its error."""
    try:
        result = await answer
    except ClusterError as error:
        return partial(_raise, error)
    return lambda: result


def _raise(error: ClusterError) -> NoReturn:
    raise error


async def _outcome_later(seconds: float, call: Callable[[], Awaitable[T]]) -> Callable[[], T]:
    await _pause([seconds])
    return await _outcome(call())


async def _no_operation() -> None:
    """The call that opens a watch: its own context does the rest."""


async def _pause(seconds: Iterable[float]) -> None:
    total = sum(seconds)
    if total > 0:
        await asyncio.sleep(total)
