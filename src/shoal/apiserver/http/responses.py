"""Answers: bytes with the headers that every one of them has.

Failures: every error becomes a Status, as Kubernetes writes it.

Warnings: what was done although something is odd about it, said in headers.
"""

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

from shoal.api.fields import printable
from shoal.apiserver.http.requests import Target
from shoal.cluster.errors import ClusterError, InvalidError, MethodNotAllowedError, NotFoundError

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


_ABOUT_OBJECTS: Final = (
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
)


def not_found() -> ClusterError:
    """There is nothing at a path."""
    return NotFoundError("the server could not find the requested resource")


def not_allowed() -> ClusterError:
    """There is something, but not to be used in this way."""
    return MethodNotAllowedError("the server does not allow this method on the requested resource")


def status_of(error: ClusterError, target: Target | None = None) -> dict[str, Any]:
    """The Status of an error, with what it is about."""
    status = error.status()
    if target is not None and _is_about_object(error):
        details = details_of(target, kind=error.code == HTTPStatus.UNPROCESSABLE_ENTITY)
        status["details"] = details | status.get("details", {})
    elif error.code == HTTPStatus.NOT_FOUND:
        status.setdefault("details", {})  # kubectl looks into them without looking whether they are there
    return status


def _is_about_object(error: ClusterError) -> bool:
    """Whether to say which object is meant: of an invalid one kubectl then shows nothing but the causes."""
    return error.code in _ABOUT_OBJECTS and (bool(error.causes) or not isinstance(error, InvalidError))


def details_of(target: Target, *, kind: bool = False) -> dict[str, Any]:
    """What a Status says about an object: its name, its group, and its plural or kind."""
    resource = target.resource
    said = {"name": target.name, "group": resource.group}
    return {name: value for name, value in said.items() if value} | {
        "kind": resource.kind if kind else resource.plural
    }


def failure(error: ClusterError, target: Target | None = None) -> Response:
    """The answer to a request that failed."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(round(error.retry_after), 1))
    if error.code == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="shoal"'
    return json_answer(status_of(error, target), int(error.code), headers)


def success(target: Target, uid: str = "") -> dict[str, Any]:
    """What is answered when there is no object to answer with."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details_of(target) | ({"uid": uid} if uid else {}),
    }


_LONGEST: Final = 256
_MOST: Final = 16
"""How much is said at most: headers have limits of their own."""


def warnings(texts: Iterable[str]) -> Iterator[str]:
    """Values of Warning headers, each text once."""
    for text in list(dict.fromkeys(texts))[:_MOST]:
        plain = printable(text).encode("ascii", "backslashreplace").decode()[:_LONGEST]
        quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
        yield f'299 - "{quoted}"'
