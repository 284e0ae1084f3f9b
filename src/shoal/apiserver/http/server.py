"""The HTTPS server: uvicorn on a socket with TLS, inside a program with other tasks.

    async with serving(registry, credentials) as url:
        …

Two limits are added to uvicorn: the size of request headers, and a timeout of idle connections. uvicorn
closes connections that are idle after a response, but waits for ever for the first request and for the rest
of an incomplete one; so all connections are checked periodically.
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
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shoal.api.fields import shown
from shoal.apiserver.credentials import LOOPBACK, Credentials, CredentialsError
from shoal.apiserver.http.app import ApiApp, Pages
from shoal.apiserver.http.remote_command import WebSocketProtocol
from shoal.apiserver.http.requests import NO_KUBELET, Kubelet
from shoal.apiserver.http.responses import method_not_allowed
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import BadRequestError, ClusterError

_MAX_HEADER_BYTES: Final = 2**16
"""Maximum size of request headers in bytes; requests with long selectors have a few thousand."""


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a limit of the header size, and errors as Status."""

    _header_bytes: int | None = None
    """Bytes received of incomplete request headers."""

    def data_received(self, data: bytes) -> None:
        """Parse data, and reject headers that are too large."""
        super().data_received(data)
        if self._header_bytes is not None:
            self._header_bytes += len(data)
            if self._header_bytes > _MAX_HEADER_BYTES:
                self._reject(BadRequestError(f"the request headers have more than {_MAX_HEADER_BYTES} bytes"))

    def on_message_begin(self) -> None:
        """Start counting header bytes."""
        super().on_message_begin()
        self._header_bytes = 0

    def on_headers_complete(self) -> None:
        """Stop counting header bytes."""
        self._header_bytes = None
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        """Reject a request that the parser refuses; unknown methods are refused too."""
        if isinstance(sys.exception(), HttpParserInvalidMethodError):
            self._reject(method_not_allowed())
        else:
            self._reject(BadRequestError("not a valid HTTP request"))

    def _reject(self, error: ClusterError) -> None:
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(error.status())
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(
            body
        )
        self.transport.write(STATUS_LINE[error.code] + head + body)
        self.transport.close()


async def close_idle_connections(server: uvicorn.Server, seconds: float) -> None:
    """Close connections without a new request since the last check; runs until cancelled."""
    before: dict[Any, object] = {}
    while True:
        await asyncio.sleep(seconds)
        idle = {connection: _last_request(connection) for connection in _idle_connections(server)}
        for connection, request in idle.items():
            if connection in before and before[connection] is request:
                connection.transport.close()
        before = idle


def _idle_connections(server: uvicorn.Server) -> list[Any]:
    connections: set[Any] = server.server_state.connections
    return [one for one in connections if _is_idle(one) and not one.transport.is_closing()]


def _is_idle(connection: object) -> bool:
    """Whether no request is in progress."""
    request = _last_request(connection)
    return request is None or getattr(request, "response_complete", False)


def _last_request(connection: object) -> object:
    """Return the last request of a connection; a WebSocket connection counts as a request in progress."""
    return getattr(connection, "cycle", connection)


_log: Final = logging.getLogger(__name__)
_BACKLOG: Final = 1024
_IDLE_SECONDS: Final = 120
"""Idle timeout of connections. Go clients close theirs after 90 seconds, so they never see a reset."""

_SHUTDOWN_SECONDS: Final = 5
"""Seconds that requests may take to finish at shutdown."""

_RENEWAL_SECONDS: Final = 6 * 3600.0


class ListenError(Exception):
    """Raised when the server cannot listen on its address; the message is for users."""


@contextlib.asynccontextmanager
async def serving(  # noqa: PLR0913 - the last ones have defaults
    registry: Registry,
    credentials: Credentials,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    kubelet: Kubelet = NO_KUBELET,
    pages: Pages = MappingProxyType({}),
) -> AsyncIterator[str]:
    """Serve the API until the block ends; yields its URL. Port 0 chooses a free port."""
    app = ApiApp(registry, credentials.token, kubelet=kubelet, pages=pages)
    logging.getLogger("uvicorn.error").addFilter(_is_fault)
    with listening(host, port) as listener:
        server = make_server(
            app,
            ssl_certfile=credentials.certificate,
            ssl_keyfile=credentials.key,
            ws=WebSocketProtocol,
            ws_per_message_deflate=False,  # useless on one machine
            ws_ping_timeout=None,  # pongs are not read while a command does not read its input
        )
        async with run_server(server, listener):
            renewal = asyncio.create_task(_renew_certificate_periodically(server, credentials))
            try:
                yield _url(listener)
            finally:
                app.stop()
                renewal.cancel()
                await asyncio.gather(renewal, return_exceptions=True)


@contextlib.asynccontextmanager
async def run_server(server: uvicorn.Server, listener: socket.socket) -> AsyncIterator[None]:
    """Run a server until the block ends; idle connections are closed after a while."""
    await server.startup(sockets=[listener])
    tasks = [
        asyncio.create_task(server.main_loop()),
        asyncio.create_task(close_idle_connections(server, _IDLE_SECONDS)),
    ]
    try:
        yield
    finally:
        server.should_exit = True
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _shut_down(server, listener)


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Open a listening socket; ListenError if that fails."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(f"cannot listen on {host}: {error.strerror}") from None
    except UnicodeError:
        raise ListenError(f"cannot listen on {shown(host)}: not a valid host name") from None
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError as error:
            raise ListenError(_listen_problem(error, host, port)) from None
        listener.setblocking(False)  # noqa: FBT003 - its only argument
        yield listener


def _listen_problem(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use; choose another port, or stop the program that listens there"
    return f"cannot listen on port {port} of {host}: {error.strerror}"


def make_server(app: ASGIApp, **options: Any) -> uvicorn.Server:  # noqa: ANN401 - as uvicorn has them
    """Return a server of an ASGI application; without options it has neither TLS nor WebSockets."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        log_level="error",  # errors of clients are in their responses, and need no log
        access_log=False,
        http=HttpProtocol,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        **{"ws": "none"} | options,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server


def _is_fault(record: logging.LogRecord) -> bool:
    """Filter a log record of uvicorn about refused WebSocket handshakes, which are not faults."""
    return record.msg != "ASGI callable returned without completing handshake."


async def _shut_down(server: uvicorn.Server, listener: socket.socket) -> None:
    """Wait for requests to finish, then close connections without waiting for the clients."""
    for listening_server in server.servers:
        listening_server.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    if server.server_state.tasks:
        await asyncio.wait(server.server_state.tasks, timeout=_SHUTDOWN_SECONDS)
    for connection in list(server.server_state.connections):  # those still open
        if not _unsent(connection.transport):
            connection.transport.abort()
    await server.shutdown(sockets=[listener])


def _unsent(transport: asyncio.Transport) -> int:
    """Return the number of unsent bytes; 0 for a TLS connection that was closed twice."""
    try:
        return transport.get_write_buffer_size()
    except AttributeError:
        return 0


async def _renew_certificate_periodically(server: uvicorn.Server, credentials: Credentials) -> None:
    """Renew the certificate before it expires; new connections get the new one."""
    context = server.config.ssl
    while isinstance(context, ssl.SSLContext):
        await asyncio.sleep(_RENEWAL_SECONDS)
        try:
            if await asyncio.to_thread(credentials.renew, datetime.now(UTC)):
                context.load_cert_chain(credentials.certificate, credentials.key)
        except (CredentialsError, OSError) as problem:
            _log.warning("cannot renew the certificate, will retry: %s", problem)


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    host = LOOPBACK.get(host, host)
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
