"""Silence: connections on which nobody asks for anything are closed.

uvicorn closes a connection that was idle for a while after an answer. For the first request, and for the rest
of one that was begun, it waits for ever. So its connections are looked at now and then.
"""

import asyncio
from typing import Any

import uvicorn


async def hang_up(server: uvicorn.Server, seconds: float) -> None:
    """Close, for ever, connections that have asked for nothing new between two looks."""
    before: dict[Any, object] = {}
    while True:
        await asyncio.sleep(seconds)
        idle = {connection: _request(connection) for connection in _idle(server)}
        for connection, request in idle.items():
            if connection in before and before[connection] is request:
                connection.transport.close()
        before = idle


def _idle(server: uvicorn.Server) -> list[Any]:
    connections: set[Any] = server.server_state.connections
    return [one for one in connections if _is_idle(one) and not one.transport.is_closing()]


def _is_idle(connection: object) -> bool:
    """Whether no request is under way."""
    request = _request(connection)
    return request is None or getattr(request, "response_complete", False)


def _request(connection: object) -> object:
    """The last request of a connection; a WebSocket is one itself, and under way as long as there is one."""
    return getattr(connection, "cycle", connection)
