"""Probes: results for all kinds of responses."""

import asyncio
from typing import cast

import pytest

from shoal.kubelet.probes import run_probe
from shoal.kubelet.runtime import Run

NO_RUN = cast("Run", None)
"""Only exec probes need a run."""

RESPONSES = {
    "success": (b"HTTP/1.1 204 No Content\r\n\r\n", ""),
    "redirect": (b"HTTP/1.0 302 Found\r\nLocation: /x\r\n\r\n", ""),
    "server error": (b"HTTP/1.1 503 Busy\r\n\r\n", "HTTP probe failed with statuscode: 503"),
    "connection closed": (b"", "the response is not HTTP"),
    "another protocol": (b"220 mail.example\r\n", "the response is not HTTP"),
    "one word": (b"what\n", "the response is not HTTP"),
    "a line without end": (b"x" * 100_000, "Separator is not found, and chunk exceed the limit"),
}


@pytest.mark.parametrize("response, message", RESPONSES.values(), ids=RESPONSES)
async def test_http_responses(response: bytes, message: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        container = {"name": "main", "ports": [{"name": "http", "containerPort": port}]}
        probe = {"httpGet": {"port": "http"}, "timeoutSeconds": 60}
        assert await run_probe(probe, NO_RUN, container, "127.0.0.1") == message


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
async def test_an_unknown_port_name_is_an_error(kind: str) -> None:
    message = await run_probe(
        {kind: {"port": "none"}, "timeoutSeconds": 60}, NO_RUN, {"name": "main"}, "127.0.0.1"
    )
    assert "none" in message
