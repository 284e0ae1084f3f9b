"""An API server that answers as a script says, byte by byte."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.cluster.listening import listening

FOR_EVER: Final = "for ever"
"""An answer that goes no further, on a connection that stays open."""

ABORT: Final = "abort"
"""The connection is reset."""

Part = bytes | str
Answer = list[Part]


def answer(code: int, body: object, content: str = "application/json", **headers: str) -> Answer:
    """A whole answer; a body that is not bytes becomes JSON."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    said = {"Content-Type": content, "Content-Length": str(len(text)), **headers}
    return [head(code, said) + text]


def refusal(code: int, message: str = "no", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer(code, {"kind": "Status", "code": code, "message": message}, **named)


def stream(*parts: Part, end: Part = b"0\r\n\r\n") -> Answer:
    """A chunked answer, in these chunks, and how it ends."""
    begun = head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
    chunks = [part if isinstance(part, str) else b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    return [begun, *chunks, end]


def head(code: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {code} Said", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    line: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Scripted:
    """Gives the answers of its script in turn, the last one again and again; writes down what it is asked."""

    script: list[Answer]
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    url: str = ""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has closed a connection."""
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["Scripted"]:
        async with listening(self._serve, tls) as self.url:
            yield self

    async def has_heard(self, requests: int) -> None:
        """Wait until so many requests have come."""
        while len(self.asked) < requests:
            self._heard.clear()
            await self._heard.wait()

    @property
    def lines(self) -> list[str]:
        return [asked.line for asked in self.asked]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.asked.append(await _asked(reader))
                self._heard.set()
                parts = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                for part in parts:
                    await _do(part, reader, writer)
        finally:
            self.left.set()


async def _do(part: Part, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if part == FOR_EVER:
        await reader.readexactly(1)
    elif part == ABORT:
        raise ConnectionResetError
    elif isinstance(part, bytes):
        writer.write(part)
        await writer.drain()


async def _asked(reader: asyncio.StreamReader) -> Asked:
    text = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *headers = text.strip().split("\r\n")
    named = dict(header.split(": ", 1) for header in headers)
    body = await reader.readexactly(int(named.get("Content-Length", 0)))
    return Asked(line.removesuffix(" HTTP/1.1"), named, body)
