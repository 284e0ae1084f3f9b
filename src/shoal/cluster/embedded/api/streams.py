"""Streams: answers that go on until they end, or until the server does."""

import asyncio
from collections.abc import AsyncIterator


async def unless_stopping(pieces: AsyncIterator[bytes], stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """The pieces, until there are no more or the server ends: who waits for the next one then is woken."""
    waiting = asyncio.current_task()
    iterator, stopped = aiter(pieces), asyncio.ensure_future(stopping.wait())
    at_rest = False

    def wake(_: object) -> None:
        if at_rest and waiting is not None and stopping.is_set():
            waiting.cancel()

    stopped.add_done_callback(wake)
    try:
        while not stopping.is_set():
            at_rest = True
            piece = await anext(iterator, None)
            at_rest = False
            if piece is None:
                return
            yield piece
    except asyncio.CancelledError:
        if not (at_rest and stopping.is_set()) or waiting is None:
            raise
        waiting.uncancel()
    finally:
        stopped.cancel()
