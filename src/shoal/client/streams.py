"""A command in a container, over a WebSocket as Kubernetes has it (`v5.channel.k8s.io`).

Every message begins with a byte that says which channel it is of. The server ends with a Status on channel 3,
which has the exit code of the command.
"""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from shoal.client.errors import UnreachableError
from shoal.client.http import Http
from shoal.cluster.errors import from_status
from shoal.cluster.kubernetes.wire import status_of

STDIN, STDOUT, STDERR, ENDED, RESIZE = range(5)
_CLOSE: Final = 255
_PROTOCOLS: Final = (Subprotocol("v5.channel.k8s.io"), Subprotocol("v4.channel.k8s.io"))
_HANDSHAKE: Final = 30.0


class Stream:
    """What goes to and comes from a running command."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket: Final = socket

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """What comes, each with its channel, until the server has said how it ended."""
        with contextlib.suppress(ConnectionClosed):
            for message in self._socket:
                text = message.encode() if isinstance(message, str) else message
                if text:
                    yield text[0], text[1:]

    def send(self, channel: int, text: bytes) -> None:
        """Send something on a channel; whoever has gone does not hear it."""
        with contextlib.suppress(ConnectionClosed):
            self._socket.send(bytes([channel]) + text)

    def close_input(self) -> None:
        """Say that nothing more comes; the older protocol cannot."""
        if self._socket.subprotocol == _PROTOCOLS[0]:
            self.send(_CLOSE, bytes([STDIN]))

    def resize(self, columns: int, rows: int) -> None:
        """Tell the size of the terminal."""
        self.send(RESIZE, msgspec.json.encode({"Width": columns, "Height": rows}))


@contextlib.contextmanager
def executing(
    http: Http, namespace: str, pod: str, command: Sequence[str], **options: str | bool
) -> Iterator[Stream]:
    """Start a command in a container; ClusterError if that is refused."""
    access, credentials = http.access, http.credentials()
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
        opened = connect(
            url,
            subprotocols=_PROTOCOLS,
            additional_headers=http.headers(credentials),
            compression=None,
            max_size=None,
            open_timeout=_HANDSHAKE,
            proxy=access.proxy or None,
            **tls,
        )
    except InvalidStatus as refused:
        answer = refused.response
        raise from_status(status_of(bytes(answer.body or b"")), code=answer.status_code) from refused
    except (OSError, WebSocketException, socket.gaierror) as problem:
        raise UnreachableError(f"{access.url} cannot be reached: {problem}") from problem
    with opened as connection:
        yield Stream(connection)


def exit_code(status: dict[str, Any]) -> int:
    """The exit code that a Status tells; ClusterError if the command could not be run at all."""
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdigit():
            return int(cause["message"])
    raise from_status(status)
