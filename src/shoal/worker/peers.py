"""The other pods of the job: waiting until they listen, and noticing when they become more or fewer."""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

_LOG: Final = logging.getLogger(__name__)
_POLL: Final = 0.5
"""Seconds between two looks at a file or at peers."""
_CONNECT_TIMEOUT: Final = 2.0

HostList = Callable[[], Sequence[str]]


def wait_until_listening(
    hosts: HostList, port: int, count: int | None = None, timeout: float | None = None
) -> list[str]:
    """Wait until the first `count` hosts accept connections on a port; return them. None means all.

    `hosts` is asked again and again, since peers may come while others are waited for. TimeoutError after
    `timeout` seconds.
    """
    until = None if timeout is None else time.monotonic() + timeout
    listening: set[str] = set()
    while True:
        wanted = list(hosts())[:count]
        listening |= {host for host in wanted if host not in listening and _is_listening(host, port)}
        if wanted and len(wanted) >= (count or 0) and listening.issuperset(wanted):
            return wanted
        if until is not None and time.monotonic() > until:
            missing = ", ".join(host for host in wanted if host not in listening) or f"{count} peers"
            raise TimeoutError(f"not listening on port {port} after {timeout} s: {missing}")
        time.sleep(_POLL)


def _is_listening(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), _CONNECT_TIMEOUT):
        return True
    return False


class HostWatcher:
    """Calls functions with the list of hosts whenever it has changed, in a thread of its own."""

    def __init__(self, hosts: HostList, interval: float = _POLL) -> None:
        """`interval` is in seconds."""
        self._hosts: Final = hosts
        self._interval: Final = interval
        self._callbacks: Final[list[Callable[[list[str]], object]]] = []
        self._thread: threading.Thread | None = None

    def call(self, callback: Callable[[list[str]], object]) -> None:
        """Call a function with every later list."""
        self._callbacks.append(callback)
        if self._thread is None:
            known = list(self._hosts())
            self._thread = threading.Thread(
                target=self._watch, args=(known,), name="shoal-hosts", daemon=True
            )
            self._thread.start()

    def _watch(self, known: list[str]) -> None:
        while True:
            time.sleep(self._interval)
            found = list(self._hosts())
            if found != known:
                known = found
                for callback in self._callbacks:
                    self._call(callback, found)

    def _call(self, callback: Callable[[list[str]], object], hosts: list[str]) -> None:
        """Call one function: if it fails, the others are called all the same, and it is next time."""
        try:
            callback(list(hosts))
        except Exception:  # noqa: BLE001 - a function of the user may raise anything
            _LOG.exception("a callback of on_resize failed")
