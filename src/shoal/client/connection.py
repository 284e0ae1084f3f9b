"""A connection to a server, and what it answers: HTTP/1.1 for one request after another.

The standard library has this too, and brings with it what reads letters: a fifth of what a command imports.
"""

import io
import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from httptools import HttpParserCallbackError, HttpParserError, HttpResponseParser

from shoal.api.fields import shown
from shoal.client.errors import UnreachableError
from shoal.cluster.kubernetes.access import Access, Credentials

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CONNECT: Final = 60.0
"""The longest that it may take to reach a server."""
_PIECE: Final = 2**18
_FINAL: Final = 200
"""Answers with a smaller number are only in advance of one."""
_PORTS: Final = {"http": 80, "https": 443}


class NonsenseError(Exception):
    """Raised when what is said is no HTTP, by the server or by us."""


class Answer(io.RawIOBase):
    """What a server answers, read as it comes."""

    def __init__(self, line: socket.socket) -> None:
        self.status = 0
        """The number that tells how it went."""
        self.headers: dict[str, str] = {}
        """By name, in small letters."""
        self._line: Final = line
        self._parser: Final = HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._rest = memoryview(b"")
        self._begun = self._has_head = self._keeps = self._is_complete = self._has_more = False

    @property
    def reusable(self) -> bool:
        """Whether the connection can be used again, once the answer has been read."""
        return self._is_complete and self._keeps and not self._has_more

    def begin(self) -> None:
        """Read until it is clear how it went."""
        while not self._has_head:
            self._receive()

    def readable(self) -> bool:
        """Whether there is something to read: there always is, or was."""
        return True

    def readall(self) -> bytes:
        """All that has not been read."""
        while not self._is_complete:
            self._receive()
        rest, self._rest = bytes(self._rest), memoryview(b"")
        return rest + self._taken()

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read what comes next, as much as there is room for; nothing when it has ended."""
        while not self._rest:
            while not self._pieces and not self._is_complete:
                self._receive()
            if not self._pieces:
                return 0
            self._rest = memoryview(self._taken())
        room = memoryview(buffer)
        length = min(len(room), len(self._rest))
        room[:length], self._rest = self._rest[:length], self._rest[length:]
        return length

    def _taken(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken

    def _receive(self) -> None:
        data = self._line.recv(_PIECE)
        if not data:
            self._end()
            return
        self._begun = True
        try:
            self._parser.feed_data(data)
        except (
            HttpParserCallbackError
        ) as problem:  # it takes for its own what came while it called us: Ctrl-C
            raise problem.__context__ or problem from None
        except HttpParserError as problem:
            raise NonsenseError(f"it does not speak HTTP: {problem}") from None

    def _end(self) -> None:
        """The server has hung up, which is how it may end an answer whose length it has not told."""
        if not self._begun:
            raise ConnectionError("it hung up without an answer")
        if not self._has_head or self.headers.keys() & {"content-length", "transfer-encoding"}:
            raise ConnectionError("it hung up in the middle of its answer")
        self._is_complete = self._has_more = True

    # --- what the parser calls ----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Something begins: the answer, or one that nobody asked for."""
        self._has_more = self._is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, whole."""
        if not self._has_more:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All headers have been told."""
        if not self._has_more:
            self.status, self._keeps = self._parser.get_status_code(), self._parser.should_keep_alive()
            self._has_head = self.status >= _FINAL

    def on_body(self, body: bytes) -> None:
        """A piece of what was asked for."""
        if not self._has_more:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        """The answer has ended, or what came in advance of it."""
        self._is_complete = self._has_head


class Connection:
    """A connection to a server, through its proxy if it has one; it is made when something is asked."""

    def __init__(self, access: Access, credentials: Credentials, silence: float | None) -> None:
        self._access, self._silence = access, silence
        self._certificate = credentials.certificate
        self._line: socket.socket | None = None

    def ask(self, method: str, address: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Ask for something; the answer has begun when this returns."""
        host = urlsplit(self._access.url).netloc.rpartition("@")[2]
        said = {"Host": host, "Accept-Encoding": "identity", **headers}
        if body is not None:
            said["Content-Length"] = str(len(body))
        head = _head(f"{method} {address} HTTP/1.1", said)
        if self._line is None:
            self._line = self._connected()
        self._line.sendall(head + (body or b""))
        answer = Answer(self._line)
        answer.begin()
        return answer

    def close(self) -> None:
        """Hang up."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _connected(self) -> socket.socket:
        server, proxy = urlsplit(self._access.url), urlsplit(self._access.proxy)
        if proxy.scheme not in ("", "http"):
            raise UnreachableError(f"a proxy such as {self._access.proxy!r} is not spoken to; http://… are")
        line = socket.create_connection(_place(proxy if self._access.proxy else server), _CONNECT)
        try:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._access.proxy:
                _tunnel(line, server)
            if server.scheme == "https":
                line = self._secured(line, server)
            line.settimeout(self._silence)
        except BaseException:
            line.close()
            raise
        return line

    def _secured(self, line: socket.socket, server: SplitResult) -> ssl.SSLSocket:
        """Speak TLS; the certificate may say another name than the address."""
        context = self._access.tls.context(self._certificate)
        return context.wrap_socket(line, server_hostname=self._access.server_name or server.hostname)


def _place(url: SplitResult) -> tuple[str, int]:
    return url.hostname or "", url.port or _PORTS[url.scheme]


def _head(first: str, headers: Mapping[str, str]) -> bytes:
    """What stands before the body; a line break in it would be the end of a header."""
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    bad = [line.partition(":")[0] for line in lines if not (line.isascii() and line.isprintable())]
    if bad:
        raise NonsenseError(f"{shown(bad[0])} has characters that HTTP does not know")
    return "\r\n".join([*lines, "", ""]).encode()


def _tunnel(line: socket.socket, server: SplitResult) -> None:
    """Ask a proxy for a line to the server."""
    host, port = _place(server)
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    line.sendall(_head(f"CONNECT {place} HTTP/1.1", {"Host": place}))
    answer = Answer(line)
    answer.begin()
    if answer.status != _FINAL:
        raise NonsenseError(f"the proxy answers {answer.status}")
