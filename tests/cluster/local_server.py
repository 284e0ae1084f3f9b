"""Servers on the loopback interface, for the duration of a test."""

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.cluster.certificates import KeyPair

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serve_locally(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve connections on a loopback port, and yield its URL."""
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
    """Serve one connection, until either side closes it."""
    try:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await serve(reader, writer)
    finally:
        writer.transport.abort()


def server_context(pair: KeyPair) -> ssl.SSLContext:
    """Return a TLS context with a certificate, which Python loads from files only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.chain + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context
