"""Probes: what is made of whatever a server answers."""

import asyncio
from typing import cast

import pytest

from shoal.kubelet.probes import run_probe
from shoal.kubelet.runtime import Run

NO_RUN = cast("Run", None)
"""Only commands are run."""

ANSWERS = {
    "it is well": (b"HTTP/1.1 204 No Content\r\n\r\n", ""),
    "it is elsewhere": (b"HTTP/1.0 302 Found\r\nLocation: /x\r\n\r\n", ""),
    "it is not well": (b"HTTP/1.1 503 Busy\r\n\r\n", "HTTP probe failed with statuscode: 503"),
    "it hangs up": (b"", "the response is not HTTP"),
    "it speaks of something else": (b"220 mail.example\r\n", "the response is not HTTP"),
    "it says one word": (b"what\n", "the response is not HTTP"),
    "it does not end": (b"x" * 100_000, "Separator is not found, and chunk exceed the limit"),
}


@pytest.mark.parametrize("answer, said", ANSWERS.values(), ids=ANSWERS)
async def test_what_is_made_of_an_answer(answer: bytes, said: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        container = {"name": "main", "ports": [{"name": "http", "containerPort": port}]}
        probe = {"httpGet": {"port": "http"}, "timeoutSeconds": 60}
        assert await run_probe(probe, NO_RUN, container, "127.0.0.1") == said


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
async def test_a_name_that_no_port_has_is_no_answer(kind: str) -> None:
    said = await run_probe(
        {kind: {"port": "none"}, "timeoutSeconds": 60}, NO_RUN, {"name": "main"}, "127.0.0.1"
    )
    assert "none" in said
