"""Failures: every error becomes a Status, as Kubernetes writes it."""

from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from shoal.cluster.embedded.api.answers import json_answer
from shoal.cluster.embedded.api.paths import Target
from shoal.cluster.errors import ClusterError, InvalidError, MethodNotAllowedError, NotFoundError

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
