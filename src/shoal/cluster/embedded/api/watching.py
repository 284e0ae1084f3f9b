"""Watches: changes as they happen, one line of JSON each.

With `sendInitialEvents` a watch begins with everything that is there, and a bookmark that says so when all is
told; from then on it is a watch like any other.
"""

import random
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from shoal.cluster.embedded.api.answers import HEADERS, JSON
from shoal.cluster.embedded.api.asking import Ask
from shoal.cluster.embedded.api.failures import status_of
from shoal.cluster.embedded.api.options import Reading
from shoal.cluster.embedded.api.shapes import Shaper
from shoal.cluster.embedded.api.streams import unless_stopping
from shoal.cluster.errors import ClusterError
from shoal.cluster.port import Event, Page

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
