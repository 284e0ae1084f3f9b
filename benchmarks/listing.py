"""Lists over HTTPS: our API, compared with a server that sends the same bytes from memory."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn

from clusters import new_pods
from measuring import Row, best_times, throughput_row
from shoal.apiserver.credentials import Credentials
from shoal.apiserver.http.server import listening, serving
from shoal.cluster.resources import PODS
from shoal.embedded.store import open_home

_Message = MutableMapping[str, Any]


async def listing(place: Path, count: int) -> Row:
    """List all pods at once; the response is received and not decoded."""
    credentials = Credentials(place)
    trust = ssl.create_default_context(cafile=credentials.authority)
    headers = {"Authorization": f"Bearer {credentials.token}"}
    connections = aiohttp.TCPConnector(ssl=trust)
    async with (
        open_home(place / "home") as home,
        serving(home, credentials) as url,
        aiohttp.ClientSession(headers=headers, connector=connections) as session,
    ):
        for pod in new_pods(range(count)):
            await home.create(PODS, pod)
        text = await _get(session, url + PODS.path())
        async with _sending(text, credentials) as bare:
            assert await _get(session, bare) == text
            taken, floor = await best_times(
                lambda: _get(session, url + PODS.path()), lambda: _get(session, bare)
            )
    return throughput_row(count, taken, floor, "pods", "")


async def _get(session: aiohttp.ClientSession, url: str) -> bytes:
    async with session.get(url) as answer:
        assert answer.status == 200
        return await answer.read()


@contextlib.asynccontextmanager
async def _sending(text: bytes, credentials: Credentials) -> AsyncIterator[str]:
    """A server that sends this text in response to every request."""

    async def send_text(
        _: _Message, __: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        length = (b"content-length", str(len(text)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": text})

    config = uvicorn.Config(
        send_text,
        ssl_certfile=credentials.certificate,
        ssl_keyfile=credentials.key,
        lifespan="off",
        log_config=None,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with listening("127.0.0.1", 0) as listener:
        await server.startup(sockets=[listener])
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        await server.shutdown(sockets=[listener])
