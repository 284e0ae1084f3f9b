"""A proxy between a client and an API server, with TLS on both sides, that injects scheduled faults."""

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

_CHUNK_SIZE: Final = 2**16
_UNLIMITED: Final = 2**62
_REASONS: Final = {
    "409": "Conflict",
    "410": "Expired",
    "429": "TooManyRequests",
    "500": "InternalError",
    "503": "ServiceUnavailable",
}


@dataclass
class Proxy:
    """Accepts connections at `url`, each for one request."""

    upstream: str
    trusted: ssl.SSLContext
    schedule: Schedule
    authority: CertificateAuthority = field(default_factory=lambda: CertificateAuthority("of the proxy"))
    url: str = ""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Proxy"]:
        async with serve_locally(self._handle, server_context(self.authority.server())) as self.url:
            yield self

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _read_request(reader)
        line = request.split(b"\r\n", 1)[0].decode()
        fault, after = self.schedule.fault(line)
        if fault in _REASONS:
            await _send_and_close(writer, _error_response(fault))
        elif fault == "gone event" and "watch=true" in line:
            await _send_and_close(writer, _gone_event())
        elif fault == "hanging":
            await reader.read()  # until the client closes the connection
        else:
            limit = {"dropped": 0, "truncated": after, "half-open": after}.get(fault, _UNLIMITED)
            await self._forward(request, writer, limit)
            if fault == "half-open":
                await reader.read()

    async def _forward(self, request: bytes, writer: asyncio.StreamWriter, limit: int) -> None:
        """Forward a request, and at most `limit` bytes of the response."""
        address = urlsplit(self.upstream)
        upstream_reader, upstream_writer = await asyncio.open_connection(
            address.hostname, address.port, ssl=self.trusted
        )
        try:
            upstream_writer.write(request)
            while chunk := await upstream_reader.read(_CHUNK_SIZE):
                writer.write(chunk[:limit])
                await writer.drain()
                limit -= len(chunk)
                if limit <= 0:
                    return
            await _send_and_close(writer, b"")
        finally:
            upstream_writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    """Read a request, changed to be the last one of its connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    line, *headers = head.split(b"\r\n")
    length = next((int(value) for name, _, value in map(_header, headers) if name == b"content-length"), 0)
    body = await reader.readexactly(length)
    return b"\r\n".join([line, b"Connection: close", *headers]) + body


def _header(line: bytes) -> tuple[bytes, bytes, bytes]:
    name, colon, value = line.partition(b":")
    return name.lower(), colon, value


async def _send_and_close(writer: asyncio.StreamWriter, text: bytes) -> None:
    """Send data, and close the connection regularly."""
    writer.write(text)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


def _status(code: str) -> bytes:
    status = {"kind": "Status", "code": int(code), "reason": _REASONS[code], "message": "by the proxy"}
    return json.dumps(status).encode()


def _error_response(code: Fault) -> bytes:
    body = _status(code)
    retry_after = "Retry-After: 1\r\n" if code == "429" else ""
    head = f"HTTP/1.1 {code} No\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{retry_after}Connection: close\r\n\r\n".encode() + body


def _gone_event() -> bytes:
    line = b'{"type":"ERROR","object":' + _status("410") + b"}\n"
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    return head.encode() + line
