"""WebSockets whose other end can be asked after, also while nothing is read from them.

A server learns from what it reads that a client has gone. Where it must not read any more, because a command
does not take what was read before, it has to ask the system.
"""

import select
from asyncio import BaseTransport
from typing import Final

from starlette.types import Scope
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

_STATE: Final = "state"
_SOCKET: Final = "socket"


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's, which also hands on the socket it speaks through."""

    def connection_made(self, transport: BaseTransport) -> None:
        """Take the connection over."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, _SOCKET: transport.get_extra_info(_SOCKET)}

    def shutdown(self) -> None:
        """Say goodbye, unless that has been said."""
        try:
            super().shutdown()
        except InvalidState:
            self.transport.close()


def has_gone(scope: Scope) -> bool:
    """Whether the client has closed its end, whatever of it is still to be read."""
    socket = scope[_STATE][_SOCKET]
    if socket.fileno() < 0:
        return True
    asking = select.poll()
    asking.register(socket.fileno(), select.POLLRDHUP)
    return bool(asking.poll(0))
