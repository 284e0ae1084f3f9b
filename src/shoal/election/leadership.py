"""Leadership: whether one manager leads now, by its own clock.

It begins once and ends once: a manager that has lost the Lease drops all its state, and a new one stands by.
All methods may be called from any thread.
"""

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from shoal.cluster.errors import ClusterError


def steady_time() -> float:
    """Seconds of a clock that never jumps, and that runs on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class NotLeaderError(ClusterError):
    """Raised instead of sending a write when this manager does not lead, or no longer."""

    code = HTTPStatus.CONFLICT
    reason = "NotLeader"


class Leadership:
    """The leadership of one manager: it stands by, then leads, then has lost or released the Lease."""

    def __init__(self, now: Callable[[], float] = steady_time) -> None:
        """`now` is the clock by which the leadership expires."""
        self._now: Final = now
        self._until = -math.inf
        self._begun: Final = Future[None]()
        self._ended: Final = Future[str]()
        self._unanswered_at = -math.inf

    @property
    def is_held(self) -> bool:
        """Whether this manager leads at this moment."""
        return not self._ended.done() and self._now() < self._until

    @property
    def has_begun(self) -> bool:
        """Whether this manager leads or has led."""
        return self._begun.done()

    def check(self) -> None:
        """Raise NotLeaderError unless this manager leads at this moment."""
        if not self.is_held:
            raise NotLeaderError(f"not sent: {self._why_not()}")

    def _why_not(self) -> str:
        if self._ended.done():
            return f"this manager does not lead any more: {self._ended.result()}"
        return "the lease was not renewed in time" if self.has_begun else "this manager stands by"

    async def begun(self) -> None:
        """Wait until this manager leads."""
        await asyncio.shield(asyncio.wrap_future(self._begun))

    async def ended(self) -> str:
        """Wait until the leadership has ended, and return why."""
        return await asyncio.shield(asyncio.wrap_future(self._ended))

    # --- for the elector ----------------------------------------------------------------------------------

    def extend(self, until: float) -> None:
        """Lead until a time, unless that has passed, or the leadership has expired or ended before."""
        if until <= self._now() or (self.has_begun and not self.is_held):
            return
        self._until = until
        with suppress(InvalidStateError):
            self._begun.set_result(None)

    def end(self, reason: str) -> None:
        """End the leadership for good."""
        with suppress(InvalidStateError):
            self._ended.set_result(reason)

    # --- writes without an answer -------------------------------------------------------------------------

    def write_unanswered(self) -> None:
        """Record that a write got no answer, and may still take effect."""
        self._unanswered_at = self._now()

    def unanswered_within(self, seconds: float) -> bool:
        """Whether a write of the last seconds got no answer."""
        return self._now() - self._unanswered_at < seconds
