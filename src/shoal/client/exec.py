"""Runs a command in a container, over a WebSocket in the protocol of Kubernetes (`v5.channel.k8s.io`).

The first byte of every message is its channel. At the end the server sends a Status on channel 3, with the
exit code of the command.

This module needs an event loop, because input and output are transferred at the same time. With one thread
that reads and another that writes, Python's TLS may never send what was written (seen with TLS 1.3 and
Python 3.11).
"""

import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from shoal.client.connection import UnreachableError
from shoal.client.http import HttpClient
from shoal.cluster.errors import from_status
from shoal.cluster.kubernetes.access import Credentials
from shoal.cluster.kubernetes.wire import parse_status

STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
_CLOSE_CHANNEL: Final = 255
_PROTOCOLS: Final = (Subprotocol("v5.channel.k8s.io"), Subprotocol("v4.channel.k8s.io"))
_OPEN_TIMEOUT: Final = 30.0
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""TCP keep-alive detects a lost server. WebSocket pings would time out whenever the output of the command is
not read for a while."""


class ExecStream:
    """Input and output of a running command."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection: Final = connection

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield messages with their channels, until the server closes the stream."""
        with contextlib.suppress(ConnectionClosed):
            async for message in self._connection:
                text = message.encode() if isinstance(message, str) else message
                if text:
                    yield text[0], text[1:]

    async def send(self, channel: int, text: bytes) -> None:
        """Send data on a channel; ignored if the stream is closed."""
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(bytes([channel]) + text)

    async def close_input(self) -> None:
        """Close the standard input of the command; not supported by the older protocol."""
        if self._connection.subprotocol == _PROTOCOLS[0]:
            await self.send(_CLOSE_CHANNEL, bytes([STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        """Send the size of the terminal."""
        await self.send(RESIZE, msgspec.json.encode({"Width": columns, "Height": rows}))


@contextlib.asynccontextmanager
async def open_exec(
    http: HttpClient,
    credentials: Credentials,
    namespace: str,
    pod: str,
    command: Sequence[str],
    **options: str | bool,
) -> AsyncIterator[ExecStream]:
    """Start a command in a container; ClusterError if that fails."""
    access = http.access
    query = [("command", word) for word in command]
    query += [
        (key, str(value).lower() if isinstance(value, bool) else value) for key, value in options.items()
    ]
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/exec"
    url = f"ws{access.url.removeprefix('http')}{path}?{urlencode(query)}"
    tls: dict[str, Any] = {}
    if url.startswith("wss:"):
        name = access.server_name or urlsplit(access.url).hostname
        tls = {"ssl": access.tls.context(credentials.certificate), "server_hostname": name}
    try:
        connection = await connect(
            url,
            subprotocols=_PROTOCOLS,
            additional_headers=http.headers(credentials),
            compression=None,
            max_size=None,
            open_timeout=_OPEN_TIMEOUT,
            ping_interval=None,
            proxy=access.proxy or None,
            **tls,
        )
    except InvalidStatus as error:
        response = error.response
        raise from_status(parse_status(bytes(response.body or b"")), code=response.status_code) from error
    except (OSError, WebSocketException) as error:
        raise UnreachableError(f"{access.url} cannot be reached: {error}") from error
    async with connection:
        _keep_alive(connection.transport.get_extra_info("socket"))
        yield ExecStream(connection)


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def exit_code(status: dict[str, Any]) -> int:
    """Return the exit code in a Status; ClusterError if the command could not be run at all."""
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdigit():
            return int(cause["message"])
    raise from_status(status)
