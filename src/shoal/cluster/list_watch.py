"""The list-and-watch protocol as a state machine, without I/O and without a clock.

List the collection, then watch it from the version of the list. When a watch ends or breaks, watch again from
the last version received. List again when the server no longer has that version (410), or when an error may
be caused by it. The reflector (asynchronous, for services) and the watcher of the client (synchronous, for
commands) send the requests; this module decides which request comes next, from which version, and after what
delay.

    state = ListWatch(Backoff(0.2, 30.0))
    while True:
        try:
            if state.must_list:
                …; state.listed(version)
            …; state.watch_started(now)
            …; state.received(version)            # for each event and bookmark
            state.watch_ended(now, timeout)
        except ClusterError as error:
            sleep(state.failed(error, now))

Only a new version counts as progress and resets the back-off: a server that accepts every request and then
ends it without an event is retried more and more slowly.
"""

import math
from typing import TYPE_CHECKING, Final

from shoal.cluster.errors import ClusterError, GoneError, TooManyRequestsError, UnavailableError

if TYPE_CHECKING:
    import random

    from shoal.cluster.backoff import Backoff

MAX_RESUMES: Final = 5
"""Transient failures in a row after which the version itself is doubted, and the collection listed again."""


class ListWatch:
    """State of following one collection; times in seconds of the caller's monotonic clock.

    Without `give_up_after` every error is retried. With it (for commands, which should report errors), an
    error is raised if it is neither transient nor 410, if it occurs before the first list is complete, or if
    the server has been unreachable for longer than `give_up_after`.
    """

    def __init__(
        self, backoff: "Backoff", rng: "random.Random | None" = None, *, give_up_after: float | None = None
    ) -> None:
        self.version = ""
        """The last version received; empty if the collection must be listed."""
        self.synced = False
        """Whether the collection has been listed at least once."""
        self.failures = 0
        """Failures in a row, since a new version was received."""
        self._backoff: Final = backoff
        self._rng: Final = rng
        self._give_up_after: Final = give_up_after
        self._unreachable_since = math.inf
        self._watch_start = ("", 0.0)
        """Version and time at which the current watch started."""

    @property
    def must_list(self) -> bool:
        """Whether the next request must be a list; else it is a watch from `version`."""
        return not self.version

    def listed(self, version: str) -> None:
        """Record that the collection was listed completely."""
        self.version = version
        self.synced = True
        self._unreachable_since = math.inf

    def watch_started(self, now: float) -> None:
        """Record that the server accepted a watch from `version`."""
        self._watch_start = (self.version, now)
        self._unreachable_since = math.inf

    def received(self, version: str) -> None:
        """Record the version of an event or a bookmark."""
        if version != self.version:
            self.version = version
            self.failures = 0

    def watch_ended(self, now: float, timeout: float) -> None:
        """Record that a watch ended regularly; UnavailableError if that was early, and without progress.

        `timeout` is the duration that was requested. A watch that lasted half of that is a success even if
        nothing changed meanwhile.
        """
        version, started = self._watch_start
        if self.version == version and now - started < timeout / 2:
            raise UnavailableError("the watch ended early, without an event")

    def failed(self, error: ClusterError, now: float) -> float:
        """Record a failed request; return the delay before the next one. Raises `error` to give up."""
        transient = isinstance(error, UnavailableError | TooManyRequestsError)
        if self._give_up_after is not None:
            self._unreachable_since = min(self._unreachable_since, now)
            recoverable = transient or isinstance(error, GoneError)
            if not (self.synced and recoverable and now - self._unreachable_since <= self._give_up_after):
                raise error
        if not transient or self.failures >= MAX_RESUMES:
            self.version = ""
        self.failures += 1
        return self._backoff.delay(self.failures, self._rng, retry_after=error.retry_after)
