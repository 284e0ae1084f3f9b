"""Streams: answers that go on until they end, or until the server does.

Watches: changes as they happen, one line of JSON each.

With `sendInitialEvents` a watch begins with everything that is there, and a bookmark that says so when all is
told; from then on it is a watch like any other.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from shoal.apiserver.http.context import Ask
from shoal.apiserver.http.representations import Shaper
from shoal.apiserver.http.requests import Reading
from shoal.apiserver.http.responses import HEADERS, JSON, status_of
from shoal.cluster.errors import ClusterError
from shoal.cluster.port import Event, Page


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


_PATIENCE: Final = (1800.0, 3600.0)
"""Seconds after which a watch ends that does not say when: some time between, so that not all end at once."""

_ANY: Final = ("", "0")
"""Versions that stand for whatever is there."""

_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}

Lines = AsyncIterator[bytes]


async def watched(ask: Ask, reading: Reading, shaper: Shaper) -> Response:
    """A stream of changes. What is wrong with the request itself is said before it begins."""
    await ask.registry.list(ask.target.text, reading.where, limit=1)
    lines = unless_stopping(_lines(ask, reading, shaper), ask.stopping)
    return StreamingResponse(lines, headers=HEADERS, media_type=JSON)


async def _lines(ask: Ask, reading: Reading, shaper: Shaper) -> Lines:
    """Everything that a watcher is told; an error on the way is the last of it."""
    try:
        version = reading.version
        if reading.initial_events:
            page = await ask.registry.list(ask.target.text, reading.where)
            version = page.version
            for line in _there(page, reading, shaper):
                yield line
        elif reading.initial_events is False and version in _ANY:
            version = ask.registry.version
        timeout = reading.timeout or random.uniform(*_PATIENCE)  # noqa: S311 - no secret
        watch = ask.registry.watch(ask.target.text, reading.where, version=version, timeout=timeout)
        async with watch as events:
            async for event in events:
                if line := _told(event, reading, shaper):
                    yield line
    except ClusterError as error:
        yield _line("ERROR", msgspec.json.encode(status_of(error, ask.target)))


def _there(page: Page[bytes], reading: Reading, shaper: Shaper) -> Iterator[bytes]:
    """What is there, with a bookmark at its end."""
    for text in page.items:
        yield _line("ADDED", shaper.streamed(text))
    if reading.bookmarks:
        said = {"resourceVersion": page.version, "annotations": _INITIAL_EVENTS_END}
        yield _line("BOOKMARK", shaper.bookmark(said))


def _told(event: Event[bytes], reading: Reading, shaper: Shaper) -> bytes:
    """What a watcher is told of an event; nothing of a bookmark that was not asked for."""
    if event.object is not None:
        return _line(event.type, shaper.streamed(event.object))
    if not reading.bookmarks:
        return b""
    return _line("BOOKMARK", shaper.bookmark({"resourceVersion": event.version}))


def _line(kind: str, text: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), text)
