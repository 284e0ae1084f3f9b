"""The worker that a process is: everything that it can ask and tell."""

import atexit
from collections.abc import Callable, Mapping
from typing import Any, Final

from shoal.worker.peers import HostWatcher, wait_until_listening
from shoal.worker.place import Place
from shoal.worker.reports import Reporter
from shoal.worker.server import Server, ServerError, find_server
from shoal.worker.stopping import Deadline, StopCallback, StopSignal

_FLUSH_SECONDS: Final = 5.0
"""Seconds that the end of a process waits at most for its last report."""


class Worker:
    """One pod of a job, from the inside."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment` is that of a pod."""
        self.place: Final = Place.read(environment)
        self._server: Final[Server | None] = find_server(environment)
        self._reporter: Final = Reporter(self._server.report) if self._server else None
        self._stop: Final = StopSignal(self.place.grace)
        self._watcher: Final = HostWatcher(self.place.hosts)
        if self._reporter:
            atexit.register(self._reporter.flush, _FLUSH_SECONDS)

    # --- the group ----------------------------------------------------------------------------------------

    @property
    def job(self) -> str:
        """The name of the job; empty outside a job."""
        return self.place.job

    @property
    def role(self) -> str:
        """What this worker does: the name of its task, set or role."""
        return self.place.role

    @property
    def index(self) -> int:
        """The number of this worker in its role, from 0; the same whenever it is recreated."""
        return self.place.index

    rank = index
    """The same: what torch.distributed calls it."""

    @property
    def restart(self) -> int:
        """How often this worker was recreated before: above 0 there may be a checkpoint."""
        return self.place.restart

    @property
    def size(self) -> int:
        """The number of workers that the role is to have now."""
        return len(self.peers())

    def peers(self, role: str | None = None) -> list[str]:
        """Return the hosts of a role (by default the own one) now, in the order of their indices."""
        return self.place.hosts(role)

    def wait_for_peers(
        self, port: int, *, role: str | None = None, count: int | None = None, timeout: float | None = None
    ) -> list[str]:
        """Wait until the first `count` peers of a role (by default all) listen on a port; return them.

        TimeoutError after `timeout` seconds; without one it waits for ever.
        """
        return wait_until_listening(lambda: self.peers(role), port, count, timeout)

    def on_resize(self, callback: Callable[[list[str]], object]) -> None:
        """Call a function with the hosts of the own role whenever they become more or fewer.

        It is called in a thread of its own.
        """
        self._watcher.call(callback)

    # --- the end ------------------------------------------------------------------------------------------

    def on_stop(self, callback: StopCallback) -> None:
        """Call a function with the deadline when the process is asked to stop: time for a checkpoint.

        It is called in the main thread, between two steps of Python code. When all functions have returned
        the process exits. Call this in the main thread.
        """
        self._stop.call(callback)

    @property
    def stop_deadline(self) -> Deadline | None:
        """The time by which the process must have ended; None while it was not asked to stop.

        For training loops that prefer to ask. The first look must be in the main thread.
        """
        return self._stop.deadline

    # --- the server ---------------------------------------------------------------------------------------

    def report(
        self,
        *,
        progress: float | None = None,
        throughput: float | None = None,
        **figures: Any,  # noqa: ANN401 - any JSON value
    ) -> None:
        """Report figures of the job, which become `status.profilings`; `shoal get` shows the progress.

        `progress` is in percent, `throughput` in samples per second of the whole job. The last report of a
        figure counts, whichever worker made it. It never waits and never fails for the network: figures are
        sent in the background, at most once a second. ValueError if a figure is not JSON.
        """
        given = {"progress": progress, "throughput": throughput} | figures
        if self._reporter:
            self._reporter.report({name: value for name, value in given.items() if value is not None})

    def flush(self, timeout: float = _FLUSH_SECONDS) -> bool:
        """Send what was reported now; return whether that was done within some seconds."""
        return self._reporter.flush(timeout) if self._reporter else True

    def scale(self, change: int) -> int:
        """Request so many workers more (or, if negative, fewer); return the size that is requested now.

        ServerError if that is not possible, with the way to do it.
        """
        if self._server is None:
            raise ServerError("not in a job: there is no server to ask")
        if change == 0:
            raise ValueError("change must not be 0")
        return self._server.scale(change)
