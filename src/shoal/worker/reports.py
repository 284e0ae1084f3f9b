"""Sends figures to the server in the background: training never waits for the network."""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from shoal.worker.server import ServerError

_LOG: Final = logging.getLogger(__name__)
_RETRY_DELAY: Final = 5.0
"""Seconds until figures are sent again that the server could not take."""


class Reporter:
    """Sends the latest figures, at most once in an interval.

    Figures that have not been sent are replaced by newer ones of the same name. A server that cannot be
    reached is asked again; figures that it refuses are dropped, with a warning.
    """

    def __init__(self, send: Callable[[Mapping[str, Any]], None], interval: float = 1.0) -> None:
        """`interval` is in seconds."""
        self._send: Final = send
        self._interval: Final = interval
        self._changed: Final = threading.Condition()
        self._waiting: dict[str, Any] = {}
        self._is_sending = False
        self._is_urgent = False
        self._thread: threading.Thread | None = None

    def report(self, figures: Mapping[str, Any]) -> None:
        """Send figures soon. Raises ValueError if they are not JSON."""
        try:
            json.dumps(figures, allow_nan=False)
        except TypeError as error:  # such as a number of numpy: float() makes it one of Python
            raise ValueError(f"cannot report {figures}: {error}") from None
        with self._changed:
            self._waiting |= figures
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="shoal-reports", daemon=True)
                self._thread.start()

    def flush(self, timeout: float) -> bool:
        """Send all figures at once; return whether it was done in time."""
        with self._changed:
            self._is_urgent = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._waiting and not self._is_sending, timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                figures, self._waiting, self._is_sending = self._waiting, {}, True
            delay = self._try_to_send(figures)
            with self._changed:
                self._is_sending = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_urgent, delay)
                self._is_urgent = False

    def _try_to_send(self, figures: dict[str, Any]) -> float:
        """Send figures, and return the seconds to wait until the next ones."""
        try:
            self._send(figures)
        except ServerError as error:
            if error.is_temporary:
                with self._changed:
                    self._waiting = figures | self._waiting
                return _RETRY_DELAY
            _LOG.warning("the server refused a report: %s", error)
        except OSError as error:  # the file with the token
            _LOG.warning("cannot report: %s", error)
        return self._interval
