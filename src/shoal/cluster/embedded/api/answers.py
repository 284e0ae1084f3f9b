"""Answers: bytes with the headers that every one of them has."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

JSON: Final = "application/json"
PLAIN: Final = "text/plain"
HEADERS: Final = {"Cache-Control": "no-cache, private"}


def json_answer(
    made: Any,  # noqa: ANN401 - whatever JSON can say
    status: int = HTTPStatus.OK,
    headers: Mapping[str, str] = {},
) -> Response:
    """An object that is made for this answer."""
    return text_answer(msgspec.json.encode(made), status, headers)


def text_answer(text: bytes, status: int = HTTPStatus.OK, headers: Mapping[str, str] = {}) -> Response:
    """JSON that is text already."""
    return Response(text, status, {**HEADERS, **headers}, JSON)


def plain_answer(text: str) -> Response:
    """A word for who only wants to know whether anybody is there."""
    return Response(text, HTTPStatus.OK, HEADERS, PLAIN)
