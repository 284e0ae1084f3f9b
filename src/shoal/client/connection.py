"""A connection to a server: HTTP/1.1, one request after another.

The standard library has an HTTP client too, but it imports the email package: a fifth of the import time of a
command.
"""

import io
import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from httptools import HttpParserCallbackError, HttpParserError, HttpResponseParser

from shoal.api.fields import shown
from shoal.cluster.errors import UnavailableError
from shoal.cluster.kubernetes.access import Access, Credentials

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CONNECT_TIMEOUT: Final = 60.0
"""Seconds that connecting to a server may take."""
_RECEIVE_SIZE: Final = 2**18
_FIRST_FINAL_STATUS: Final = 200
"""Responses with a smaller status are informational, and another one follows."""
_PORTS: Final = {"http": 80, "https": 443}


class UnreachableError(UnavailableError):
    """Raised when no connection to a server is possible, or it breaks."""


class ProtocolError(Exception):
    """Raised when a request or a response is not valid HTTP."""


class Response(io.RawIOBase):
    """A response of a server, read as it arrives."""

    def __init__(self, sock: socket.socket) -> None:
        self.status = 0
        """The HTTP status code."""
        self.headers: dict[str, str] = {}
        """By name, in lower case."""
        self._socket: Final = sock
        self._parser: Final = HttpResponseParser(self)
        self._chunks: list[bytes] = []
        self._rest = memoryview(b"")
        self._started = self._has_head = self._keep_alive = self._is_complete = self._has_excess = False

    @property
    def reusable(self) -> bool:
        """Whether the connection can be used again, once the response has been read."""
        return self._is_complete and self._keep_alive and not self._has_excess

    def read_head(self) -> None:
        """Receive status and headers."""
        while not self._has_head:
            self._receive()

    def readable(self) -> bool:
        """Return True: every response can be read."""
        return True

    def readall(self) -> bytes:
        """Read the rest of the body."""
        while not self._is_complete:
            self._receive()
        rest, self._rest = bytes(self._rest), memoryview(b"")
        return rest + self._take_chunks()

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read the next bytes of the body, as many as fit; 0 at the end."""
        while not self._rest:
            while not self._chunks and not self._is_complete:
                self._receive()
            if not self._chunks:
                return 0
            self._rest = memoryview(self._take_chunks())
        target = memoryview(buffer)
        length = min(len(target), len(self._rest))
        target[:length], self._rest = self._rest[:length], self._rest[length:]
        return length

    def _take_chunks(self) -> bytes:
        taken, self._chunks = b"".join(self._chunks), []
        return taken

    def _receive(self) -> None:
        data = self._socket.recv(_RECEIVE_SIZE)
        if not data:
            self._end_of_stream()
            return
        self._started = True
        try:
            self._parser.feed_data(data)
        except HttpParserCallbackError as error:
            # The parser wraps any exception in a callback, also the KeyboardInterrupt of a Ctrl-C.
            raise error.__context__ or error from None
        except HttpParserError as error:
            raise ProtocolError(f"the server does not speak HTTP: {error}") from None

    def _end_of_stream(self) -> None:
        """Handle a closed connection: the regular end of a response without a length, else an error."""
        if not self._started:
            raise ConnectionError("the server closed the connection without a response")
        if not self._has_head or self.headers.keys() & {"content-length", "transfer-encoding"}:
            raise ConnectionError("the server closed the connection in the middle of a response")
        self._is_complete = self._has_excess = True

    # --- callbacks of the parser --------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Handle the start of a response: the expected one, or an excess one."""
        self._has_excess = self._is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a complete header."""
        if not self._has_excess:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Handle the end of the headers."""
        if not self._has_excess:
            self.status, self._keep_alive = self._parser.get_status_code(), self._parser.should_keep_alive()
            self._has_head = self.status >= _FIRST_FINAL_STATUS

    def on_body(self, body: bytes) -> None:
        """Handle a chunk of the body."""
        if not self._has_excess:
            self._chunks.append(body)

    def on_message_complete(self) -> None:
        """Handle the end of a response, final or informational."""
        self._is_complete = self._has_head


class Connection:
    """A connection to a server, through its proxy if it has one; opened by the first request.

    `idle_timeout` is the number of seconds that the server may send nothing; None for no limit.
    """

    def __init__(self, access: Access, credentials: Credentials, idle_timeout: float | None) -> None:
        self._access, self._idle_timeout = access, idle_timeout
        self._certificate = credentials.certificate
        self._socket: socket.socket | None = None

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """Send a request; return the response once its headers have been received."""
        host = urlsplit(self._access.url).netloc.rpartition("@")[2]
        all_headers = {"Host": host, "Accept-Encoding": "identity", **headers}
        if body is not None:
            all_headers["Content-Length"] = str(len(body))
        head = _encode_head(f"{method} {target} HTTP/1.1", all_headers)
        if self._socket is None:
            self._socket = self._connect()
        self._socket.sendall(head + (body or b""))
        response = Response(self._socket)
        response.read_head()
        return response

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> socket.socket:
        server, proxy = urlsplit(self._access.url), urlsplit(self._access.proxy)
        if proxy.scheme not in ("", "http"):
            raise UnreachableError(f"unsupported proxy {self._access.proxy!r}; use http://…")
        sock = socket.create_connection(_address(proxy if self._access.proxy else server), _CONNECT_TIMEOUT)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._access.proxy:
                _open_tunnel(sock, server)
            if server.scheme == "https":
                sock = self._start_tls(sock, server)
            sock.settimeout(self._idle_timeout)
        except BaseException:
            sock.close()
            raise
        return sock

    def _start_tls(self, sock: socket.socket, server: SplitResult) -> ssl.SSLSocket:
        """Start TLS; the server's certificate may have another name than its address."""
        context = self._access.tls.context(self._certificate)
        return context.wrap_socket(sock, server_hostname=self._access.server_name or server.hostname)


def _address(url: SplitResult) -> tuple[str, int]:
    return url.hostname or "", url.port or _PORTS[url.scheme]


def _encode_head(first_line: str, headers: Mapping[str, str]) -> bytes:
    """Encode the request line and headers; reject line breaks, which would end a header."""
    lines = [first_line, *(f"{name}: {value}" for name, value in headers.items())]
    bad = [line.partition(":")[0] for line in lines if not (line.isascii() and line.isprintable())]
    if bad:
        raise ProtocolError(f"{shown(bad[0])} has characters that are not allowed in HTTP")
    return "\r\n".join([*lines, "", ""]).encode()


def _open_tunnel(sock: socket.socket, server: SplitResult) -> None:
    """Ask a proxy for a tunnel to the server."""
    host, port = _address(server)
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    sock.sendall(_encode_head(f"CONNECT {authority} HTTP/1.1", {"Host": authority}))
    response = Response(sock)
    response.read_head()
    if response.status != _FIRST_FINAL_STATUS:
        raise ProtocolError(f"the proxy answers {response.status}")
