"""Lists, whole or in pages: all pages of a list show one state."""

import base64
import binascii
from typing import TypeVar

import msgspec

from shoal.cluster.errors import BadRequestError, GoneError, UnavailableError
from shoal.cluster.port import Page, Where
from shoal.cluster.registry.records import Record, number_of
from shoal.cluster.registry.state import BEFORE_ALL, Place, State
from shoal.cluster.resources import Resource
from shoal.cluster.selection import Selection

T = TypeVar("T")


class _Token(msgspec.Struct, frozen=True, array_like=True):
    """What the next page is asked for with: the state that the list is of, and where the last page ended."""

    version: int
    last: Place


def page(  # noqa: PLR0913 - as the port has them
    state: State, resource: Resource[T], where: Where, *, limit: int = 0, start: str = "", at: str = ""
) -> Page[T]:
    """A page of a list; `at` asks for the state of an exact version."""
    token = _read(start) if start else _Token((at and number_of(at)) or state.version, BEFORE_ALL)
    _check_version(state, token.version, continued=bool(start))
    selection = Selection(resource, where)
    found, more = _matching(state, resource, selection, token, max(limit, 0))
    ended = more == 0
    return Page(
        items=[resource.decode(record.body) for record in found],
        version=str(token.version),
        next="" if ended else _written(_Token(token.version, found[-1].key[1:])),
        remaining=more if not ended and selection.everything else None,
    )


def _matching(
    state: State, resource: Resource[T], selection: Selection, token: _Token, limit: int
) -> tuple[list[Record], int]:
    """The records of one page, and how many are left: all of them, or one if selecting would be needed."""
    collection = state.collection(resource.full_name)
    places, records = collection.as_of(token.version, selection.namespace, token.last)
    if selection.everything:
        here = places[: limit or None]
        return [records[place] for place in here], len(places) - len(here)
    found: list[Record] = []
    for place in places:
        if selection.matches(records[place].body):
            if limit and len(found) == limit:
                return found, 1
            found.append(records[place])
    return found, 0


def _check_version(state: State, version: int, *, continued: bool) -> None:
    if version > state.version:
        raise UnavailableError(
            f"Timeout: Too large resource version: {version}, current: {state.version}", retry_after=1
        )
    try:
        state.must_remember(version)
    except GoneError:
        if not continued:
            raise
        raise GoneError(
            "The provided continue parameter is too old to display a consistent list result. You can start a "
            "new list without the continue parameter."
        ) from None


def _written(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _read(start: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(start), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise BadRequestError("continue key is not valid") from None
