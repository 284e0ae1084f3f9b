"""A stop in time: SIGTERM says that the process has to go, SIGKILL follows when the grace period is over.

Callbacks run in the main thread, between two steps of Python code, like every signal handler in Python. When
all have returned the process exits with 143, the exit code of a process that SIGTERM ended: Shoal counts that
as a disruption, not as a failure.
"""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

EXIT_CODE: Final = 128 + signal.SIGTERM


class Deadline(float):
    """The time of the kill, on the clock of `time.monotonic`."""

    __slots__ = ()

    @property
    def remaining(self) -> float:
        """Seconds that are left; 0 when it has passed."""
        return max(self - time.monotonic(), 0.0)


StopCallback = Callable[[Deadline], object]


class StopSignal:
    """Whether the process was asked to stop, and what has to be done then.

    The signal is handled from the first use on; it has to be in the main thread.
    """

    def __init__(self, grace: float) -> None:
        """`grace` is the time in seconds from the signal to the kill."""
        self._grace: Final = grace
        self._callbacks: Final[list[StopCallback]] = []
        self._deadline: Deadline | None = None
        self._is_handled = False

    @property
    def deadline(self) -> Deadline | None:
        """The time by which the process must have ended; None while it was not asked to stop."""
        self._handle()
        return self._deadline

    def call(self, callback: StopCallback) -> None:
        """Call a function when the process is asked to stop; afterwards the process exits."""
        self._handle()
        self._callbacks.append(callback)

    def _handle(self) -> None:
        if not self._is_handled and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_signal)
            self._is_handled = True

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Run the callbacks once. A second signal changes nothing: the kill comes at the same time."""
        if self._deadline is not None:
            return
        self._deadline = Deadline(time.monotonic() + self._grace)
        for callback in self._callbacks:
            callback(self._deadline)
        if self._callbacks:
            raise SystemExit(EXIT_CODE)
