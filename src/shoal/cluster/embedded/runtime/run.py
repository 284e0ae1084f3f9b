"""One run of one container, seen from the daemon: a shim that is watched, and what it has written down."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import Final

from shoal.cluster.embedded.runtime import cgroups
from shoal.cluster.embedded.runtime.execution import Execution, execute
from shoal.cluster.embedded.runtime.launching import Launched, identity, marker
from shoal.cluster.embedded.runtime.leftovers import kill_leftovers
from shoal.cluster.embedded.runtime.logs import Log
from shoal.cluster.embedded.runtime.records import RunDirectory, ShimRecord
from shoal.cluster.embedded.runtime.spec import ContainerSpec, Exit, Usage

_LOST_CODE: Final = 137
_NEVER_RAN_CODE: Final = 128
_LOOK: Final = 0.01
"""Seconds between two looks for the name of a shim that was just started when its daemon died."""


class Run:
    """A run that was begun: it runs, or it has ended."""

    def __init__(self, directory: RunDirectory, spec: ContainerSpec) -> None:
        self.spec: Final = spec
        self.exit: Exit | None = None
        self.directory: Final = directory
        self._record: ShimRecord | None = None
        self._shim = -1
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._losing: asyncio.Task[None] | None = None
        self.log: Final = Log(directory.log, spec.log_files, self._over)

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
        if self.exit is not None:
            return
        with suppress(OSError):  # on a full disk the container's own grace counts
            self.directory.shorten_stop(time.monotonic() + grace)
        self._signal()

    async def execute(
        self, argv: list[str], *, tty: bool = False, stdin: bool = False, size: tuple[int, int] | None = None
    ) -> Execution:
        """Start another command where the container is; ProcessLookupError if it does not run."""
        record = self._record
        if record is None or record.container is None or self.exit is not None:
            raise ProcessLookupError(f"container {self.spec.container} is not running")
        where = {"pid": record.container, "start": record.container_start, "cgroups": record.cgroups}
        plan = {**identity(self.spec), **where, "argv": argv}
        return execute(marker(self.spec), plan, tty=tty, stdin=stdin, size=size)

    def usage(self) -> Usage | None:
        """What it has used so far; nothing if it does not run."""
        if self._record is None or self.exit is not None:
            return None
        return cgroups.usage(self._record.cgroups)

    # --- watching the shim ---------------------------------------------------------------------------------

    async def follow(self, launched: Launched) -> None:
        """Watch a shim that was just started; returns once its container runs, or never will."""
        self._watch(os.pidfd_open(launched.pid))
        try:
            await self._readable(launched.ready)
        finally:
            os.close(launched.ready)
        self._record = self.directory.shim()
        if self.directory.stopping():
            self._signal()

    async def adopt(self) -> bool:
        """Watch what an earlier daemon has started, or say how it ended; false if it never ran."""
        while self.directory.is_locked():
            self._record = self.directory.shim()
            shim = self._record.open() if self._record else None
            if shim is not None:
                self._watch(shim)
                if self.directory.stopping():  # the daemon may have died before it could say so
                    self._signal()
                return True
            await asyncio.sleep(_LOOK)
        return await self._conclude()

    async def _conclude(self) -> bool:
        """Nobody looks after it any more: find out what became of it. False if it never ran."""
        self._record = self.directory.shim()
        end = self.directory.exit()
        if end is None and self._record is None:
            return False
        self._settle(end or await self._lost())
        return True

    async def _lost(self) -> Exit:
        assert self._record is not None  # noqa: S101 - whoever has no record never ran
        gone = await asyncio.to_thread(kill_leftovers, self._record, marker(self.spec))
        message = (
            "its shim was killed" if gone else "its shim was killed, and some of its processes cannot be"
        )
        end = Exit(_LOST_CODE, signal.SIGKILL, self._record.started, time.time(), "Lost", message)
        return await self._kept(end)

    async def _kept(self, end: Exit) -> Exit:
        with suppress(OSError):  # the next daemon comes to the same end
            await asyncio.to_thread(self.directory.write_exit, end)
        return end

    def _watch(self, shim: int) -> None:
        self._shim = shim
        self._loop.add_reader(shim, self._shim_ended)

    def _shim_ended(self) -> None:
        self._let_go(reap=True)
        self._losing = self._loop.create_task(self._look())

    async def _look(self) -> None:
        if not await self._conclude():
            message = "its shim could not be started"
            self._settle(
                await self._kept(Exit(_NEVER_RAN_CODE, None, None, time.time(), "StartError", message))
            )

    def _settle(self, end: Exit) -> None:
        self.exit = end
        if self._record:
            cgroups.remove(self._record.cgroups)
        self._over.set()

    def let_go(self) -> None:
        """Look after it no longer; the shim goes on."""
        self._let_go(reap=False)
        if self._losing:
            self._losing.cancel()

    def _let_go(self, *, reap: bool) -> None:
        if self._shim < 0:
            return
        self._loop.remove_reader(self._shim)
        if reap:
            with suppress(ChildProcessError):  # an adopted shim is not our child
                os.waitid(os.P_PIDFD, self._shim, os.WEXITED | os.WNOHANG)
        os.close(self._shim)
        self._shim = -1

    def _signal(self) -> None:
        if self._shim >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._shim, signal.SIGTERM)

    async def _readable(self, descriptor: int) -> None:
        event = asyncio.Event()
        self._loop.add_reader(descriptor, event.set)
        try:
            await event.wait()
        finally:
            self._loop.remove_reader(descriptor)
