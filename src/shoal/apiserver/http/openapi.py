"""OpenAPI: the schemas of all kinds, for `kubectl explain`, and what tells clients that we validate fields.

It is built when somebody asks for the first time: nobody who does not should wait for it.
"""

import functools
import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from shoal.api.crds import Schema
from shoal.cluster.resources import RESOURCES, Object, Resource
from shoal.cluster.schemas.core import REFERENCES, VERSION
from shoal.cluster.schemas.kinds import name_of, schemas

_INFO: Final = {"title": "Kubernetes", "version": f"v{VERSION}"}
_FIELD_VALIDATION: Final = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
_DRY_RUN: Final = {"name": "dryRun", "in": "query", "schema": {"type": "string"}}
_HASH_LENGTH: Final = 32


def index() -> Object:
    """What /openapi/v3 says: where the document of each group version is, and its hash."""
    return {
        "paths": {
            place: {"serverRelativeURL": f"/openapi/v3/{place}?hash={_hash(document(place))}"}
            for place in dict.fromkeys(map(_place, RESOURCES))
        }
    }


@functools.cache
def document(place: str) -> bytes:
    """The document of a group version, such as `apis/batch/v1`; nothing where there is none."""
    found = [resource for resource in RESOURCES if _place(resource) == place]
    if not found:
        return b""
    needed: dict[str, Schema] = {}
    for resource in found:
        _gather(name_of(resource), needed)
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": dict(path for resource in found for path in _paths(resource)),
            "components": {"schemas": needed},
        }
    )


def nothing() -> Object:
    """What /openapi/v2 says: clients that can only read this form find nothing to hold objects against."""
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}


def _place(resource: Resource[Any]) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:_HASH_LENGTH].upper()


def _paths(resource: Resource[Any]) -> Iterator[tuple[str, Object]]:
    """The paths of a resource, as far as clients look them up."""
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"/{_place(resource)}{namespace}/{resource.plural}"
    yield collection, {"get": _operation(resource, "list"), "post": _operation(resource, "post", writes=True)}
    yield (
        f"{collection}/{{name}}",
        {
            "get": _operation(resource, "get"),
            "put": _operation(resource, "put", writes=True),
            "patch": _operation(resource, "patch", writes=True),
            "delete": _operation(resource, "delete"),
        },
    )


def _operation(resource: Resource[Any], action: str, *, writes: bool = False) -> Object:
    said = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    answer = {"application/json": {"schema": {"$ref": f"{REFERENCES}{name_of(resource)}"}}}
    return {
        "operationId": f"{action}{resource.version.capitalize()}{resource.kind}",
        "parameters": [_DRY_RUN, _FIELD_VALIDATION] if writes else [],
        "responses": {"200": {"description": "OK", "content": answer}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": said,
    }


def _gather(name: str, needed: dict[str, Schema]) -> None:
    """Take a schema with all that it refers to."""
    if name not in needed:
        needed[name] = schemas()[name]
        for reference in _references(needed[name]):
            _gather(reference, needed)


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(REFERENCES)
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)
