"""Servers for tests: whoever connects is served until the test ends, and nothing is left of it."""

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.cluster.authority import Pair

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve on a port of loopback, and yield the URL of it."""
    connections: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_serve_one(serve, reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _serve_one(serve: Serve, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A connection that anybody breaks is at its end."""
    try:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await serve(reader, writer)
    finally:
        writer.transport.abort()


def server_context(pair: Pair) -> ssl.SSLContext:
    """A context that shows a certificate; Python takes them from files only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.chain + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context
