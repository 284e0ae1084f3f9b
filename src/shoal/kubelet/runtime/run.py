"""One run of one container, as the daemon sees it: the shim that is watched, and the files it writes."""

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
from shoal.kubelet.runtime.cgroups import read_usage
from shoal.kubelet.runtime.exec import Execution, start_execution
from shoal.kubelet.runtime.logs import Log
from shoal.kubelet.runtime.processes import (
    LaunchedShim,
    WatchedProcess,
    kill_leftovers,
    process_attributes,
    read_pipe,
    run_marker,
)
from shoal.kubelet.runtime.records import RunDirectory, ShimRecord
from shoal.kubelet.runtime.spec import ContainerSpec, ExitStatus, UsageCounters

_LOST_CODE: Final = 137
_START_ERROR_CODE: Final = 128
_POLL_INTERVAL: Final = 0.01
"""Seconds between checks for the record of a shim that was starting when its daemon died."""
_MAX_POLLS: Final = 6000
_RETRY_DELAY: Final = 1.0
"""Seconds until a directory that could not be read is read again."""
_LOG: Final = logging.getLogger(__name__)


class Run:
    """A run that was started: it is running or has ended."""

    def __init__(self, directory: RunDirectory, spec: ContainerSpec) -> None:
        self.spec: Final = spec
        self.exit: ExitStatus | None = None
        self.directory: Final = directory
        self._ended = asyncio.Event()
        self.log: Final = Log(directory.log, spec.log_files, self._ended)
        self._record: ShimRecord | None = None
        self._shim: WatchedProcess | None = None
        self._supervision: asyncio.Task[None] | None = None
        self._stop_deadline: float | None = None
        self._executions: WeakSet[Execution] = WeakSet()

    @property
    def pid(self) -> int | None:
        """The first process of the container while it is running."""
        return self._record.container if self._record and self.exit is None else None

    @property
    def started(self) -> float | None:
        if self.exit is not None:
            return self.exit.started
        return self._record.started if self._record else None

    async def wait(self) -> ExitStatus:
        """Wait for the exit status."""
        await self._ended.wait()
        assert self.exit is not None  # noqa: S101 - set before the event
        return self.exit

    def stop(self, grace: float) -> None:
        """Stop the container: SIGTERM, then SIGKILL after `grace` seconds, which the shim enforces.

        A later call can only bring the deadline forward.
        """
        if self.exit is None:
            deadline = time.monotonic() + grace
            earlier = self._stop_deadline
            self._stop_deadline = deadline if earlier is None else min(deadline, earlier)
            self._send_stop()

    async def execute(
        self, argv: list[str], *, tty: bool = False, stdin: bool = False, size: tuple[int, int] | None = None
    ) -> Execution:
        """Start another command in the container; ProcessLookupError if it is not running."""
        record = self._record
        if record is None or record.container is None or self.exit is not None:
            raise ProcessLookupError(f"container {self.spec.container} is not running")
        location = {"pid": record.container, "start": record.container_start, "cgroups": record.cgroups}
        config = {**process_attributes(self.spec), **location, "argv": argv}
        execution = start_execution(run_marker(self.spec), config, tty=tty, stdin=stdin, size=size)
        self._executions.add(execution)
        return execution

    def usage(self) -> UsageCounters | None:
        """CPU and memory used so far; None if it is not running."""
        return None if self._record is None or self.exit is not None else read_usage(self._record)

    # --- supervision --------------------------------------------------------------------------------------

    async def supervise(self, launched: LaunchedShim) -> None:
        """Supervise a shim that was just launched; return once its container runs or has failed to start."""
        try:
            shim = self._watch(os.pidfd_open(launched.pid))
        except OSError:
            os.close(launched.ready)
            raise
        message = await read_pipe(launched.ready)
        if message.startswith(b"{"):
            self._record = msgspec.json.decode(message, type=ShimRecord)
            if self._stop_deadline is not None:
                self._send_stop()
            self._supervision = asyncio.create_task(self._supervise(shim))
        else:
            await self._supervise(shim, f"the shim could not be started: {message.decode()}")

    async def adopt(self) -> bool:
        """Supervise a run of an earlier daemon, or find its exit status; return False if it never ran."""
        shim = None if self.directory.exit() else await self._open_shim()
        if shim is None:
            return await self._find_exit()
        watched = self._watch(shim)
        if self.directory.is_stopping():  # the earlier daemon may have died before it sent the signal
            watched.send(signal.SIGTERM)
        self._supervision = asyncio.create_task(self._supervise(watched))
        return True

    def fail(self, error: BaseException) -> None:
        """Record that the run could not be started, and wake all waiters."""
        self._set_exit(ExitStatus(_START_ERROR_CODE, None, None, time.time(), "StartError", str(error)))

    async def detach(self) -> None:
        """Stop supervising; the shim continues."""
        if self._shim:
            self._shim.detach()
        if self._supervision:
            self._supervision.cancel()
            await asyncio.wait([self._supervision])

    async def _open_shim(self) -> int | None:
        """A pidfd of the shim if it is alive; waits for its record, which may not be written yet."""
        for _ in range(_MAX_POLLS):
            locked = self.directory.is_locked()
            self._record = self.directory.shim()
            if self._record or not locked:
                return self._record.open_process() if self._record else None
            await asyncio.sleep(_POLL_INTERVAL)
        raise BlockingIOError(f"{self.directory.path} is locked, but not by its shim")

    def _watch(self, descriptor: int) -> WatchedProcess:
        self._shim = WatchedProcess(descriptor)
        return self._shim

    async def _supervise(self, shim: WatchedProcess, refusal: str = "") -> None:
        await shim.wait()
        while self.exit is None:
            try:
                if not await self._find_exit():
                    await self._record_exit(
                        ExitStatus(_START_ERROR_CODE, None, None, time.time(), "StartError", refusal)
                    )
            except (
                OSError
            ) as error:  # no descriptor is left, perhaps: that passes, and an end must not be lost
                _LOG.warning("cannot read how %s ended, trying again: %s", run_marker(self.spec), error)
                await asyncio.sleep(_RETRY_DELAY)

    def _send_stop(self) -> None:
        if self._shim is None or self._stop_deadline is None:  # not started yet: `supervise` sends it then
            return
        with suppress(OSError):  # on a full disk the container's own grace period applies
            self.directory.write_stop_deadline(self._stop_deadline)
        self._shim.send(signal.SIGTERM)

    # --- exit status --------------------------------------------------------------------------------------

    async def _find_exit(self) -> bool:
        """The shim is gone: find out how the run ended; return False if it never ran."""
        self._record = self.directory.shim() or self._record
        if end := self.directory.exit():
            self._set_exit(end)
        elif self._record:
            gone = await asyncio.to_thread(kill_leftovers, self._record, run_marker(self.spec))
            message = "the shim died" + ("" if gone else "; some processes could not be killed")
            started = self._record.started
            await self._record_exit(
                ExitStatus(_LOST_CODE, signal.SIGKILL, started, time.time(), "Lost", message)
            )
        return self.exit is not None

    async def _record_exit(self, end: ExitStatus) -> None:
        """Write the exit status that the shim has not written."""
        with suppress(OSError):  # the next daemon will conclude the same
            await asyncio.to_thread(self.directory.write_exit, end)
        self._set_exit(end)

    def _set_exit(self, end: ExitStatus) -> None:
        self.exit = end
        for execution in self._executions:
            execution.terminate()
        if self._record:
            cgroups.remove_cgroups(self._record.cgroups)
        self._ended.set()
