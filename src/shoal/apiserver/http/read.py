"""Answers to those who read: one object, or a list."""

from starlette.responses import Response

from shoal.apiserver.http.context import Ask
from shoal.apiserver.http.representations import Shaper
from shoal.apiserver.http.requests import Reading, reading_of
from shoal.apiserver.http.responses import text_answer
from shoal.apiserver.http.watch import watched
from shoal.apiserver.registry.records import number_of
from shoal.cluster.errors import UnavailableError
from shoal.cluster.port import Page


async def read(ask: Ask) -> Response:
    """One object, a list, or a watch."""
    target, query = ask.target, ask.request.query_params
    reading = reading_of(query, target.namespace, target.name if "watch" in query else "")
    shaper = Shaper(target.resource, ask.shape, query, ask.clock)
    if reading.watch:
        return await watched(ask, reading, shaper)
    if target.name:
        return text_answer(shaper.one(await ask.registry.get(target.text, target.name, target.namespace)))
    return text_answer(await shaper.page(await _page(ask, reading)))


async def _page(ask: Ask, reading: Reading) -> Page[bytes]:
    """What is there now, or was at the version that is asked for."""
    _check_version(ask, reading)
    exact = reading.match == "Exact" or (
        reading.version not in ("", "0") and reading.limit and not reading.match
    )
    return await ask.registry.list(
        ask.target.text,
        reading.where,
        limit=reading.limit,
        start=reading.start,
        at=reading.version if exact and not reading.start else "",
    )


def _check_version(ask: Ask, reading: Reading) -> None:
    """What has not happened yet cannot be listed."""
    version, current = reading.version, ask.registry.version
    if version and number_of(version) > int(current):
        raise UnavailableError(f"Too large resource version: {version}, current: {current}", retry_after=1)
