"""Connections of an HTTP client, tracked from the connect to the close, so that all of them can be aborted.

aiohttp forgets a connection as soon as it starts to close it, and never knows one whose request is cancelled
at the end of the TLS handshake. A TLS close waits for the server's close_notify, up to 30 seconds: an event
loop that ends before that leaves the socket to the garbage collector.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler

_ITERATIONS: Final = 3
"""Event loop iterations after an abort: the first closes the sockets, the second notifies aiohttp.

`connection_lost` is not waited for: uvloop does not call it if the request was cancelled at a bad moment.
"""


class ConnectionTracker:
    """The open connections of one client."""

    def __init__(self) -> None:
        self._aborted = False
        # Weak references: a connection that becomes a tunnel of a proxy is dropped without connection_lost.
        self._open: Final = WeakSet[_TrackedConnection]()

    def add(self, connection: "_TrackedConnection") -> None:
        """Track a new connection; abort it if the client was closed meanwhile."""
        self._open.add(connection)
        if self._aborted:
            connection.abort()

    def discard(self, connection: "_TrackedConnection") -> None:
        """Stop tracking a lost connection."""
        self._open.discard(connection)

    async def abort(self) -> None:
        """Abort all connections without a TLS close, and those in progress as soon as they are made."""
        self._aborted = True
        for connection in list(self._open):
            connection.abort()
        for _ in range(_ITERATIONS):
            await asyncio.sleep(0)


class TrackingConnector(aiohttp.TCPConnector):
    """A connector without a limit of connections that tracks each of them."""

    def __init__(self, tracker: ConnectionTracker, *, keepalive: float) -> None:
        super().__init__(limit=0, keepalive_timeout=keepalive)
        make: Callable[..., ResponseHandler] = _TrackedConnection
        self._factory = partial(make, tracker, loop=asyncio.get_running_loop())


class _TrackedConnection(ResponseHandler):
    """One connection."""

    def __init__(self, tracker: ConnectionTracker, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._tracker: Final = tracker
        self._tracked: asyncio.Transport | None = None
        """The same as `transport`, which aiohttp drops when it starts to close the connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._tracked = self.transport
        self._tracker.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._tracker.discard(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the socket at once."""
        if self._tracked is not None:
            self._tracked.abort()
