"""A proxy between a client and an API server, TLS on both sides, which makes faults as a schedule says."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from tests.cluster.certificates import CertificateAuthority
from tests.cluster.faults.schedule import Fault, Schedule
from tests.cluster.local_server import serve_locally, server_context

_PIECE: Final = 2**16
_FOR_EVER: Final = 2**62
_REASONS: Final = {
    "409": "Conflict",
    "410": "Expired",
    "429": "TooManyRequests",
    "500": "InternalError",
    "503": "ServiceUnavailable",
}


@dataclass
class Proxy:
    """Takes connections at `url`, each for one request."""

    upstream: str
    trusted: ssl.SSLContext
    schedule: Schedule
    authority: CertificateAuthority = field(default_factory=lambda: CertificateAuthority("of the proxy"))
    url: str = ""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Proxy"]:
        async with serve_locally(self._answer, server_context(self.authority.server())) as self.url:
            yield self

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _request(reader)
        line = request.split(b"\r\n", 1)[0].decode()
        fault, after = self.schedule.fault(line)
        if fault in _REASONS:
            await _say(writer, _refusal(fault))
        elif fault == "gone event" and "watch=true" in line:
            await _say(writer, _gone_event())
        elif fault == "hanging":
            await reader.read()  # until the client has had enough
        else:
            limit = {"dropped": 0, "truncated": after, "half-open": after}.get(fault, _FOR_EVER)
            await self._forward(request, writer, limit)
            if fault == "half-open":
                await reader.read()

    async def _forward(self, request: bytes, writer: asyncio.StreamWriter, limit: int) -> None:
        """Pass a request on, and so many bytes of its answer back."""
        place = urlsplit(self.upstream)
        answers, requests = await asyncio.open_connection(place.hostname, place.port, ssl=self.trusted)
        try:
            requests.write(request)
            while piece := await answers.read(_PIECE):
                writer.write(piece[:limit])
                await writer.drain()
                limit -= len(piece)
                if limit <= 0:
                    return
            await _say(writer, b"")
        finally:
            requests.transport.abort()


async def _request(reader: asyncio.StreamReader) -> bytes:
    """A whole request, changed to be the last of its connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    line, *headers = head.split(b"\r\n")
    length = next((int(value) for name, _, value in map(_header, headers) if name == b"content-length"), 0)
    body = await reader.readexactly(length)
    return b"\r\n".join([line, b"Connection: close", *headers]) + body


def _header(line: bytes) -> tuple[bytes, bytes, bytes]:
    name, colon, value = line.partition(b":")
    return name.lower(), colon, value


async def _say(writer: asyncio.StreamWriter, text: bytes) -> None:
    """Send what is left to send, and end the connection as one should."""
    writer.write(text)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


def _status(code: str) -> bytes:
    status = {"kind": "Status", "code": int(code), "reason": _REASONS[code], "message": "by the proxy"}
    return json.dumps(status).encode()


def _refusal(code: Fault) -> bytes:
    body = _status(code)
    later = "Retry-After: 1\r\n" if code == "429" else ""
    head = f"HTTP/1.1 {code} No\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{later}"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def _gone_event() -> bytes:
    line = b'{"type":"ERROR","object":' + _status("410") + b"}\n"
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    return head.encode() + line
