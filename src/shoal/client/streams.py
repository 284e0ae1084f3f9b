"""A command in a container, over a WebSocket as Kubernetes has it (`v5.channel.k8s.io`).

Every message begins with a byte that says which channel it is of. The server ends with a Status on channel 3,
which has the exit code of the command.

This part of the client needs an event loop: what is typed and what is printed go both ways at once. If one
thread read while another wrote, Python's TLS might never send what was written (seen with TLS 1.3 and
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

from shoal.client.errors import UnreachableError
from shoal.client.http import Http
from shoal.cluster.errors import from_status
from shoal.cluster.kubernetes.access import Credentials
from shoal.cluster.kubernetes.wire import status_of

STDIN, STDOUT, STDERR, ENDED, RESIZE = range(5)
_CLOSE: Final = 255
_PROTOCOLS: Final = (Subprotocol("v5.channel.k8s.io"), Subprotocol("v4.channel.k8s.io"))
_HANDSHAKE: Final = 30.0
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""The system finds out whether the server is still there. Pings of our own would take it for gone as soon as
nobody reads what the command prints."""


class Stream:
    """What goes to and comes from a running command."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection: Final = connection

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """What comes, each with its channel, until the server has said how it ended."""
        with contextlib.suppress(ConnectionClosed):
            async for message in self._connection:
                text = message.encode() if isinstance(message, str) else message
                if text:
                    yield text[0], text[1:]

    async def send(self, channel: int, text: bytes) -> None:
        """Send something on a channel; whoever has gone does not hear it."""
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(bytes([channel]) + text)

    async def close_input(self) -> None:
        """Say that nothing more comes; the older protocol cannot."""
        if self._connection.subprotocol == _PROTOCOLS[0]:
            await self.send(_CLOSE, bytes([STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the size of the terminal."""
        await self.send(RESIZE, msgspec.json.encode({"Width": columns, "Height": rows}))


@contextlib.asynccontextmanager
async def executing(
    http: Http,
    credentials: Credentials,
    namespace: str,
    pod: str,
    command: Sequence[str],
    **options: str | bool,
) -> AsyncIterator[Stream]:
    """Start a command in a container; ClusterError if that is refused."""
    access = http.access
    said = [("command", word) for word in command]
    said += [
        (key, str(value).lower() if isinstance(value, bool) else value) for key, value in options.items()
    ]
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/exec"
    url = f"ws{access.url.removeprefix('http')}{path}?{urlencode(said)}"
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
            open_timeout=_HANDSHAKE,
            ping_interval=None,
            proxy=access.proxy or None,
            **tls,
        )
    except InvalidStatus as refused:
        answer = refused.response
        raise from_status(status_of(bytes(answer.body or b"")), code=answer.status_code) from refused
    except (OSError, WebSocketException) as problem:
        raise UnreachableError(f"{access.url} cannot be reached: {problem}") from problem
    async with connection:
        _keep_alive(connection.transport.get_extra_info("socket"))
        yield Stream(connection)


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def exit_code(status: dict[str, Any]) -> int:
    """The exit code that a Status tells; ClusterError if the command could not be run at all."""
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdigit():
            return int(cause["message"])
    raise from_status(status)
