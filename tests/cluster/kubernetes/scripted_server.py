"""An API server that responds as a script says, byte by byte."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.cluster.local_server import serve_locally

HANG: Final = "hang"
"""The response stops here, and the connection stays open."""

STOP_READING: Final = "stop reading"
"""Like HANG, and nothing that the client sends is read any more, not even the close of TLS."""

ABORT: Final = "abort"
"""The connection is reset."""

Part = bytes | str
ResponseScript = list[Part]


def response(code: int, body: object, content: str = "application/json", **headers: str) -> ResponseScript:
    """Return a complete response; a body that is not bytes is encoded as JSON."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    all_headers = {"Content-Type": content, "Content-Length": str(len(text)), **headers}
    return [response_head(code, all_headers) + text]


def error_response(code: int, message: str = "no", **headers: str) -> ResponseScript:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return response(code, {"kind": "Status", "code": code, "message": message}, **named)


def chunked_response(*parts: Part, end: Part = b"0\r\n\r\n") -> ResponseScript:
    """Return a chunked response in these chunks; `end` is what it ends with."""
    head = response_head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
    chunks = [part if isinstance(part, str) else b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    return [head, *chunks, end]


def response_head(code: int, headers: Mapping[str, str]) -> bytes:
    request_lines = [f"HTTP/1.1 {code} Reason", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*request_lines, "", ""]).encode()


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it was received."""

    line: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class ScriptedServer:
    """Sends the responses of a script in turn, the last one repeatedly; records the requests."""

    script: list[ResponseScript]
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    url: str = ""
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has closed a connection."""
    _request_received: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["ScriptedServer"]:
        async with serve_locally(self._serve, tls) as self.url:
            yield self

    async def received(self, count: int) -> None:
        """Wait until this many requests have been received."""
        while len(self.requests) < count:
            self._request_received.clear()
            await self._request_received.wait()

    @property
    def request_lines(self) -> list[str]:
        return [request.line for request in self.requests]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.requests.append(await _read_request(reader))
                self._request_received.set()
                parts = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                for part in parts:
                    await _send_part(part, reader, writer)
        finally:
            self.disconnected.set()


async def _send_part(part: Part, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if part == HANG:
        await reader.readexactly(1)
    elif part == STOP_READING:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # the transport of a stream can read too
        await asyncio.Event().wait()
    elif part == ABORT:
        raise ConnectionResetError
    elif isinstance(part, bytes):
        writer.write(part)
        await writer.drain()


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest:
    text = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *headers = text.strip().split("\r\n")
    named = dict(header.split(": ", 1) for header in headers)
    body = await reader.readexactly(int(named.get("Content-Length", 0)))
    return ReceivedRequest(line.removesuffix(" HTTP/1.1"), named, body)
