"""Handlers of GET: one object, a list, or a watch.

A watch sends one line of JSON per event. With `sendInitialEvents` it starts with all existing objects,
followed by a bookmark that marks their end.
"""

import random
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from shoal.apiserver.http.requests import ListOptions, RequestContext, parse_list_options
from shoal.apiserver.http.responses import (
    HEADERS,
    JSON,
    Representation,
    raw_json_response,
    status_of,
    until_stopped,
)
from shoal.apiserver.registry.records import parse_resource_version
from shoal.cluster.errors import ClusterError, UnavailableError
from shoal.cluster.port import Page, WatchEvent


async def read(context: RequestContext) -> Response:
    """Handle a get, list or watch."""
    target, query = context.target, context.request.query_params
    options = parse_list_options(query, target.namespace, target.name if "watch" in query else "")
    representation = Representation.for_request(context)
    if options.watch:
        return await watch_response(context, options, representation)
    if target.name:
        return raw_json_response(
            representation.encode(
                await context.registry.get(target.raw_resource, target.name, target.namespace)
            )
        )
    return raw_json_response(await representation.encode_page(await _list_page(context, options)))


async def _list_page(context: RequestContext, options: ListOptions) -> Page[bytes]:
    """List the current state, or the state at the requested resource version."""
    _check_version(context, options)
    exact = options.version_match == "Exact" or (
        options.version not in ("", "0") and options.limit and not options.version_match
    )
    return await context.registry.list(
        context.target.raw_resource,
        options.selector,
        limit=options.limit,
        start=options.continue_token,
        at=options.version if exact and not options.continue_token else "",
    )


def _check_version(context: RequestContext, options: ListOptions) -> None:
    """Refuse resource versions in the future."""
    version, current = options.version, context.registry.version
    if version and parse_resource_version(version) > int(current):
        raise UnavailableError(f"Too large resource version: {version}, current: {current}", retry_after=1)


_DEFAULT_TIMEOUT_SECONDS: Final = (1800.0, 3600.0)
"""Range of the random timeout of watches without one, so that they do not all end at once."""

_UNSET_VERSIONS: Final = ("", "0")
"""Resource versions that mean the current state."""

_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}

Lines = AsyncIterator[bytes]


async def watch_response(
    context: RequestContext, options: ListOptions, representation: Representation
) -> Response:
    """Return a stream of events; errors of the request itself are raised before it starts."""
    await context.registry.list(context.target.raw_resource, options.selector, limit=1)
    lines = until_stopped(_lines(context, options, representation), context.stopping)
    return StreamingResponse(lines, headers=HEADERS, media_type=JSON)


async def _lines(context: RequestContext, options: ListOptions, representation: Representation) -> Lines:
    """Yield the events as lines; an error is the last event."""
    try:
        version = options.version
        if options.send_initial_events:
            page = await context.registry.list(context.target.raw_resource, options.selector)
            version = page.version
            for line in _initial_lines(page, options, representation):
                yield line
        elif options.send_initial_events is False and version in _UNSET_VERSIONS:
            version = context.registry.version
        timeout = options.timeout or random.uniform(*_DEFAULT_TIMEOUT_SECONDS)  # noqa: S311 - not a secret
        watch = context.registry.watch(
            context.target.raw_resource, options.selector, version=version, timeout=timeout
        )
        async with watch as events:
            async for event in events:
                if line := _event_line(event, options, representation):
                    yield line
    except ClusterError as error:
        yield _line("ERROR", msgspec.json.encode(status_of(error, context.target)))


def _initial_lines(
    page: Page[bytes], options: ListOptions, representation: Representation
) -> Iterator[bytes]:
    """Yield the existing objects, and the bookmark that marks their end."""
    for text in page.items:
        yield _line("ADDED", representation.encode_for_watch(text))
    if options.allow_bookmarks:
        metadata = {"resourceVersion": page.version, "annotations": _INITIAL_EVENTS_END}
        yield _line("BOOKMARK", representation.encode_bookmark(metadata))


def _event_line(event: WatchEvent[bytes], options: ListOptions, representation: Representation) -> bytes:
    """Encode an event as a line; empty for a bookmark that the client did not request."""
    if event.object is not None:
        return _line(event.type, representation.encode_for_watch(event.object))
    if not options.allow_bookmarks:
        return b""
    return _line("BOOKMARK", representation.encode_bookmark({"resourceVersion": event.version}))


def _line(kind: str, text: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), text)
