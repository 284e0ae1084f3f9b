"""Answers to those who write: create, update and the three patches."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from shoal.apiserver.http import bodies
from shoal.apiserver.http.bodies import Body, addressed
from shoal.apiserver.http.context import NAME, Ask
from shoal.apiserver.http.representations import Shaper
from shoal.apiserver.http.requests import STATUS, FieldValidation, Writing, writing_of
from shoal.apiserver.http.responses import text_answer, warnings
from shoal.cluster.errors import BadRequestError, InvalidError, UnsupportedMediaError
from shoal.cluster.patches import json_patch, merge, strategic
from shoal.cluster.resources import Object
from shoal.cluster.schemas.kinds import fitted, is_own, schema_of

_MERGE: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"


async def create(ask: Ask) -> Response:
    """Make an object."""
    how = writing_of(ask.request.query_params)
    body = await bodies.read_object(ask.request, doubles=how.fields != "Ignore")
    thing, said = _fitting(ask, body, how)
    setattr(ask.request.state, NAME, str(thing["metadata"].get("name") or ""))
    text = await ask.registry.create(ask.target.text, thing, dry_run=how.dry_run)
    return _answered(ask, text, said, HTTPStatus.CREATED)


async def update(ask: Ask) -> Response:
    """Replace an object, or its status."""
    how = writing_of(ask.request.query_params)
    body = await bodies.read_object(ask.request, doubles=how.fields != "Ignore")
    thing, said = _fitting(ask, body, how)
    status = ask.target.part == STATUS
    text = await ask.registry.update(ask.target.text, thing, status=status, dry_run=how.dry_run)
    return _answered(ask, text, said)


async def patch(ask: Ask) -> Response:
    """Change parts of an object, or of its status."""
    how = writing_of(ask.request.query_params)
    apply = _patching(ask)
    body = bodies.decoded(await bodies.read(ask.request), doubles=how.fields != "Ignore")
    said: list[str] = []

    def make(thing: Object) -> Object:
        return _fitted(ask, _named(apply(thing, body.value), ask), how.fields, body.doubles, said)

    target = ask.target
    text = await ask.registry.change(
        target.text,
        target.name,
        target.namespace,
        make,
        status=target.part == STATUS,
        dry_run=how.dry_run,
    )
    return _answered(ask, text, said)


def _patching(ask: Ask) -> Callable[[Object, Any], Any]:
    """What a patch of the sort that was sent does."""
    media, resource = bodies.media_type(ask.request), ask.target.resource
    if media == _MERGE:
        return _merged
    if media == _JSON_PATCH:
        return json_patch.applied
    if media == _STRATEGIC and not is_own(resource):
        return lambda thing, patch: strategic.merged(thing, patch, schema_of(resource))
    accepted = [_JSON_PATCH, _MERGE, *([] if is_own(resource) else [_STRATEGIC])]
    raise UnsupportedMediaError(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(accepted)}"
    )


def _merged(thing: Object, patch: object) -> object:
    if not isinstance(patch, dict):
        raise BadRequestError("a merge patch is an object")
    return merge.merged(thing, patch)


def _named(made: object, ask: Ask) -> Object:
    """What a patch made, which must still be the object that was meant."""
    if not isinstance(made, dict):
        raise InvalidError("a patch must leave an object")
    resource = ask.target.resource
    if (made.get("apiVersion"), made.get("kind")) != (resource.api_version, resource.kind):
        raise InvalidError(f"a patch must leave a {resource.kind} in version {resource.api_version}")
    return addressed(made, ask.target)


def _fitting(ask: Ask, body: Body, how: Writing) -> tuple[Object, list[str]]:
    """What was sent, as its schema has it, and what the sender should know of."""
    said: list[str] = []
    return _fitted(ask, addressed(body.value, ask.target), how.fields, body.doubles, said), said


def _fitted(
    ask: Ask, thing: Object, validation: FieldValidation, doubles: tuple[str, ...], said: list[str]
) -> Object:
    """An object without fields that there are not; `said` gets what is told about them."""
    resource = ask.target.resource
    found = fitted(thing, schema_of(resource))
    refused = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
    if found.wrong and not is_own(resource):
        # What a patch made is invalid; what was sent whole could not even be read.
        error = InvalidError if ask.request.method == "PATCH" else BadRequestError
        raise error(f"{refused}: {'; '.join(found.wrong)}")
    problems = [f'unknown field "{path}"' for path in found.unknown]
    problems += [f'duplicate field "{path}"' for path in doubles]
    if validation == "Strict" and problems:
        raise BadRequestError(f"{refused}: strict decoding error: {', '.join(problems)}")
    said += problems if validation == "Warn" else []
    made: Object = found.value
    return made


def _answered(ask: Ask, text: bytes, said: list[str], code: HTTPStatus = HTTPStatus.OK) -> Response:
    shaper = Shaper(ask.target.resource, ask.shape, ask.request.query_params, ask.clock)
    answer = text_answer(shaper.one(text), code)
    for warning in warnings(said):
        answer.headers.append("Warning", warning)
    return answer
