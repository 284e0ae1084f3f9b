"""Processes watched through descriptors of theirs: no thread for each, and no handler of signals.

It works alike for our children, which are reaped, and for those of an earlier daemon.

One run of one container, seen from the daemon: a shim that is watched, and what it has written down.
"""

import asyncio
import logging
import os
import signal
import time
from contextlib import suppress
from typing import Final
from weakref import WeakSet

import msgspec

from shoal.kubelet.runtime import cgroups
from shoal.kubelet.runtime.exec import Execution, execute
from shoal.kubelet.runtime.launch import Launched, identity, marker
from shoal.kubelet.runtime.leftovers import kill_leftovers
from shoal.kubelet.runtime.logs import Log
from shoal.kubelet.runtime.processes import Watched, text_of
from shoal.kubelet.runtime.records import RunDirectory, ShimRecord
from shoal.kubelet.runtime.spec import ContainerSpec, Exit, Usage
from shoal.kubelet.runtime.usage import usage

_LOST: Final = 137
_NEVER_RAN: Final = 128
_LOOK: Final = 0.01
"""Seconds between two looks for the name of a shim that was just started when its daemon died."""
_LOOKS: Final = 6000
_AGAIN: Final = 1.0
"""Seconds until a directory that could not be read is read again."""
_LOG: Final = logging.getLogger(__name__)


class Run:
    """A run that was begun: it runs, or it has ended."""

    def __init__(self, directory: RunDirectory, spec: ContainerSpec) -> None:
        self.spec: Final = spec
        self.exit: Exit | None = None
        self.directory: Final = directory
        self._over = asyncio.Event()
        self.log: Final = Log(directory.log, spec.log_files, self._over)
        self._record: ShimRecord | None = None
        self._shim: Watched | None = None
        self._care: asyncio.Task[None] | None = None
        self._stop_by: float | None = None
        self._executions: WeakSet[Execution] = WeakSet()

    @property
    def pid(self) -> int | None:
        """The first process of the container, for as long as it lives."""
        return self._record.container if self._record and self.exit is None else None

    @property
    def started(self) -> float | None:
        if self.exit is not None:
            return self.exit.started
        return self._record.started if self._record else None

    async def ended(self) -> Exit:
        """How it ended, once it has."""
        await self._over.wait()
        assert self.exit is not None  # noqa: S101 - set before the event is
        return self.exit

    def stop(self, grace: float) -> None:
        """End it: SIGTERM, and SIGKILL after the grace, which the shim keeps; a later call can only hurry."""
        if self.exit is None:
            by = time.monotonic() + grace
            self._stop_by = by if self._stop_by is None else min(by, self._stop_by)
            self._tell_to_stop()

    async def execute(
        self, argv: list[str], *, tty: bool = False, stdin: bool = False, size: tuple[int, int] | None = None
    ) -> Execution:
        """Start another command where the container is; ProcessLookupError if it does not run."""
        record = self._record
        if record is None or record.container is None or self.exit is not None:
            raise ProcessLookupError(f"container {self.spec.container} is not running")
        where = {"pid": record.container, "start": record.container_start, "cgroups": record.cgroups}
        plan = {**identity(self.spec), **where, "argv": argv}
        execution = execute(marker(self.spec), plan, tty=tty, stdin=stdin, size=size)
        self._executions.add(execution)
        return execution

    def usage(self) -> Usage | None:
        """What it has used so far; nothing if it does not run."""
        return None if self._record is None or self.exit is not None else usage(self._record)

    # --- looking after it ----------------------------------------------------------------------------------

    async def begin(self, launched: Launched) -> None:
        """Look after a shim that was just started; returns once its container runs, or never will."""
        try:
            shim = self._watch(os.pidfd_open(launched.pid))
        except OSError:
            os.close(launched.ready)
            raise
        told = await text_of(launched.ready)
        if told.startswith(b"{"):
            self._record = msgspec.json.decode(told, type=ShimRecord)
            if self._stop_by is not None:
                self._tell_to_stop()
            self._care = asyncio.create_task(self._look_after(shim))
        else:
            await self._look_after(shim, f"its shim could not be started: {told.decode()}")

    async def adopt(self) -> bool:
        """Look after what an earlier daemon has begun, or say how it ended; false if it never ran."""
        shim = None if self.directory.exit() else await self._living_shim()
        if shim is None:
            return await self._conclude()
        watched = self._watch(shim)
        if self.directory.stopping():  # the earlier daemon may have died before it could say so
            watched.send(signal.SIGTERM)
        self._care = asyncio.create_task(self._look_after(watched))
        return True

    def refuse(self, problem: BaseException) -> None:
        """It could not be begun: whoever waits for its end has waited long enough."""
        self._settle(Exit(_NEVER_RAN, None, None, time.time(), "StartError", str(problem)))

    async def let_go(self) -> None:
        """Look after it no longer; the shim goes on."""
        if self._shim:
            self._shim.let_go()
        if self._care:
            self._care.cancel()
            await asyncio.wait([self._care])

    async def _living_shim(self) -> int | None:
        """A descriptor of the shim's process, if it lives; who it is may not be written yet."""
        for _ in range(_LOOKS):
            locked = self.directory.is_locked()
            self._record = self.directory.shim()
            if self._record or not locked:
                return self._record.open() if self._record else None
            await asyncio.sleep(_LOOK)
        raise BlockingIOError(f"{self.directory.path} is locked by somebody who is not its shim")

    def _watch(self, descriptor: int) -> Watched:
        self._shim = Watched(descriptor)
        return self._shim

    async def _look_after(self, shim: Watched, refusal: str = "") -> None:
        await shim.ended()
        while self.exit is None:
            try:
                if not await self._conclude():
                    await self._settle_for_it(
                        Exit(_NEVER_RAN, None, None, time.time(), "StartError", refusal)
                    )
            except (
                OSError
            ) as problem:  # no descriptor is left, perhaps: that passes, and an end must not be lost
                _LOG.warning("how %s ended is asked again: %s", marker(self.spec), problem)
                await asyncio.sleep(_AGAIN)

    def _tell_to_stop(self) -> None:
        if self._shim is None or self._stop_by is None:  # not started yet: it is told then
            return
        with suppress(OSError):  # on a full disk the container's own grace counts
            self.directory.shorten_stop(self._stop_by)
        self._shim.send(signal.SIGTERM)

    # --- how it ended --------------------------------------------------------------------------------------

    async def _conclude(self) -> bool:
        """Its shim is gone: find out what became of it. False if it never ran."""
        self._record = self.directory.shim() or self._record
        if end := self.directory.exit():
            self._settle(end)
        elif self._record:
            gone = await asyncio.to_thread(kill_leftovers, self._record, marker(self.spec))
            message = "its shim died" + ("" if gone else ", and not all of its processes could be")
            started = self._record.started
            await self._settle_for_it(Exit(_LOST, signal.SIGKILL, started, time.time(), "Lost", message))
        return self.exit is not None

    async def _settle_for_it(self, end: Exit) -> None:
        """Write what the shim has not written."""
        with suppress(OSError):  # the next daemon will come to the same end
            await asyncio.to_thread(self.directory.write_exit, end)
        self._settle(end)

    def _settle(self, end: Exit) -> None:
        self.exit = end
        for execution in self._executions:
            execution.terminate()
        if self._record:
            cgroups.remove(self._record.cgroups)
        self._over.set()
