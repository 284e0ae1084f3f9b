"""WebSockets whose other end can be asked after, also while nothing is read from them.

A server learns from what it reads that a client has gone. Where it must not read any more, because a command
does not take what was read before, it has to ask the system.
"""

import select
from asyncio import BaseTransport, WriteTransport
from typing import Final

from starlette.types import Scope
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

_STATE: Final = "state"
_TRANSPORT: Final = "transport"


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's, which also hands on what it speaks through."""

    def connection_made(self, transport: BaseTransport) -> None:
        """Take the connection over."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, _TRANSPORT: transport}

    def shutdown(self) -> None:
        """Say goodbye, unless that has been said."""
        try:
            super().shutdown()
        except InvalidState:
            self.transport.abort()


def has_gone(scope: Scope) -> bool:
    """Whether the client has closed its end, whatever of it is still to be read; then it is let go of."""
    transport: WriteTransport = scope[_STATE][_TRANSPORT]
    asking = select.poll()
    asking.register(transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
    gone = bool(asking.poll(0))
    if gone:
        transport.abort()  # there is nobody to say goodbye to
    return gone
