"""The heads of requests: read by uvicorn's quick parser, up to a size, and refused with a Status.

Silence: connections on which nobody asks for anything are closed.

uvicorn closes a connection that was idle for a while after an answer. For the first request, and for the rest
of one that was begun, it waits for ever. So its connections are looked at now and then.

The server: listens on loopback with TLS, inside a program that does other things too.

async with serving(registry, credentials) as url:
    …
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import msgspec
import uvicorn
from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shoal.api.fields import shown
from shoal.apiserver.credentials import LOOPBACK, Credentials, CredentialsError
from shoal.apiserver.http.app import Api, Pages
from shoal.apiserver.http.exec_session import WebSocketProtocol
from shoal.apiserver.http.kubelet import NOBODY, Kubelet
from shoal.apiserver.http.responses import not_allowed
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import BadRequestError, ClusterError

_LARGEST: Final = 2**16
"""Bytes of a head; requests with long selectors have a few thousand."""


class HttpProtocol(HttpToolsProtocol):
    """Uvicorn's, which hangs up on who does not come to the end of a head."""

    _unended: int | None = None
    """Bytes of a head that has not ended."""

    def data_received(self, data: bytes) -> None:
        """Read on."""
        super().data_received(data)
        if self._unended is not None:
            self._unended += len(data)
            if self._unended > _LARGEST:
                self._refuse(BadRequestError(f"the head of the request has more than {_LARGEST} bytes"))

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._unended = 0

    def on_headers_complete(self) -> None:
        """A head has ended."""
        self._unended = None
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        """Refuse what the parser does not take; it takes only methods that it knows."""
        if isinstance(sys.exception(), HttpParserInvalidMethodError):
            self._refuse(not_allowed())
        else:
            self._refuse(BadRequestError("what was sent is no HTTP request"))

    def _refuse(self, error: ClusterError) -> None:
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(error.status())
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(
            body
        )
        self.transport.write(STATUS_LINE[error.code] + head + body)
        self.transport.close()


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


_log: Final = logging.getLogger(__name__)
_BACKLOG: Final = 1024
_IDLE_SECONDS: Final = 120
"""How long a connection may be idle. Go's clients let go after 90 seconds, and so are never cut off."""

_LAST_SECONDS: Final = 5
"""How long requests may take to end after the server was told to."""

_RENEWAL_SECONDS: Final = 6 * 3600.0


class ListenError(Exception):
    """Raised when the server cannot listen where it is told to; the message says why, for people."""


@contextlib.asynccontextmanager
async def serving(  # noqa: PLR0913 - the last have their usual values
    registry: Registry,
    credentials: Credentials,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    kubelet: Kubelet = NOBODY,
    pages: Pages = MappingProxyType({}),
) -> AsyncIterator[str]:
    """Serve the API until the block ends; its address. Port 0 is any that is free."""
    api = Api(registry, credentials.token, kubelet=kubelet, pages=pages)
    with listening(host, port) as listener:
        server = _server(api, credentials)
        await server.startup(sockets=[listener])
        serve = asyncio.create_task(server.main_loop())
        chores = [
            asyncio.create_task(_renewing(server, credentials)),
            asyncio.create_task(hang_up(server, _IDLE_SECONDS)),
        ]
        try:
            yield _url(listener)
        finally:
            api.stop()
            server.should_exit = True
            for chore in chores:
                chore.cancel()
            await asyncio.gather(serve, *chores, return_exceptions=True)
            await _end(server, listener)


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens; ListenError if that cannot be."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(f"cannot listen on {host}: {error.strerror}") from None
    except UnicodeError:
        raise ListenError(f"cannot listen on {shown(host)}: it is no name of a host") from None
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError as error:
            raise ListenError(_why(error, host, port)) from None
        listener.setblocking(False)  # noqa: FBT003 - its only argument
        yield listener


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: choose another one, or stop who listens there"
    return f"cannot listen on port {port} of {host}: {error.strerror}"


def _server(api: Api, credentials: Credentials) -> uvicorn.Server:
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    config = uvicorn.Config(
        api,
        ssl_certfile=credentials.certificate,
        ssl_keyfile=credentials.key,
        lifespan="off",
        log_config=None,
        log_level="error",  # what clients do wrong is answered, and no news to who runs the server
        access_log=False,
        http=HttpProtocol,
        ws=WebSocketProtocol,
        ws_per_message_deflate=False,  # nobody gains from it on one machine
        ws_ping_timeout=None,  # a command that does not take its input keeps pongs from being read
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_LAST_SECONDS,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server


def _is_news(record: logging.LogRecord) -> bool:
    """Uvicorn takes it for a fault that a WebSocket was refused with an answer, which it offers itself."""
    return record.msg != "ASGI callable returned without completing handshake."


async def _end(server: uvicorn.Server, listener: socket.socket) -> None:
    """Let requests end; then close connections without waiting for clients that say no goodbye."""
    for listening_server in server.servers:
        listening_server.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    if server.server_state.tasks:
        await asyncio.wait(server.server_state.tasks, timeout=_LAST_SECONDS)
    for connection in list(server.server_state.connections):  # those that are still there
        if not _unsent(connection.transport):
            connection.transport.abort()
    await server.shutdown(sockets=[listener])


def _unsent(transport: asyncio.Transport) -> int:
    """Bytes that are still to be sent. A connection with TLS has forgotten them once it was closed twice."""
    try:
        return transport.get_write_buffer_size()
    except AttributeError:
        return 0


async def _renewing(server: uvicorn.Server, credentials: Credentials) -> None:
    """Look now and then whether the certificate will soon expire: new connections get the new one."""
    context = server.config.ssl
    while isinstance(context, ssl.SSLContext):
        await asyncio.sleep(_RENEWAL_SECONDS)
        try:
            if await asyncio.to_thread(credentials.renew, datetime.now(UTC)):
                context.load_cert_chain(credentials.certificate, credentials.key)
        except (CredentialsError, OSError) as problem:
            _log.warning("the certificate is looked at again later: %s", problem)


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    host = LOOPBACK.get(host, host)
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
