"""Handlers of reviews: the user of a token, and the permissions of users.

A home has one user, with all permissions. So every permission of that user is granted, and those of other
users are denied.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from shoal.apiserver.http import bodies
from shoal.apiserver.http.requests import RequestContext, parse_write_options
from shoal.apiserver.http.responses import json_response
from shoal.cluster.errors import InvalidError
from shoal.cluster.resources import Object

USER: Final[Object] = {"username": "shoal-admin", "groups": ["system:masters", "system:authenticated"]}
"""The only user."""

_ALL: Final = ["*"]
_ALL_RULES: Final[Object] = {
    "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
    "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
    "incomplete": False,
}
_GRANTED: Final[Object] = {"allowed": True, "reason": "the user of this home has all permissions"}
_DENIED: Final[Object] = {"allowed": False, "reason": f"this home has no user but {USER['username']}"}


async def answer(context: RequestContext, is_valid: Callable[[str], bool]) -> Response:
    """Return a review with its answer; `is_valid` returns whether a bearer token is that of the user."""
    parse_write_options(context.request.query_params)
    body = await bodies.read_object(context.request)
    review = bodies.apply_target(body.value, context.target)
    spec = review.get("spec") or {}
    if not isinstance(spec, dict):
        raise InvalidError("spec: must be an object")
    status = _status(context.target.resource.kind, spec, is_valid)
    return json_response(review | {"status": status}, HTTPStatus.CREATED)


def _status(kind: str, spec: Object, is_valid: Callable[[str], bool]) -> Object:
    match kind:
        case "SelfSubjectReview":
            return {"userInfo": USER}
        case "SelfSubjectRulesReview":
            return _ALL_RULES
        case "SelfSubjectAccessReview":
            return _GRANTED
        case "TokenReview" if is_valid(str(spec.get("token") or "")):
            return {"authenticated": True, "user": USER}
        case "TokenReview":
            return {"authenticated": False, "error": "the token is not valid"}
        case _:
            return _GRANTED if _is_user(spec) else _DENIED


def _is_user(spec: Object) -> bool:
    groups = spec.get("groups") or ()
    return spec.get("user") == USER["username"] or "system:masters" in groups
