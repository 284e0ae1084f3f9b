"""The OpenAPI document of the server: every call, with its parameters, bodies and responses."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import shoal
from shoal.api.meta import MAX_PODS
from shoal.cluster.resources import Object

_DESCRIPTIONS: Final = {
    "200": "Done; data has the result.",
    "400": "The body or a parameter is not valid.",
    "401": "There is no valid token, or the job of the token no longer exists.",
    "403": "The token is for another job, or its user may not do this.",
    "404": "There is no such job.",
    "409": "The job cannot be changed like this now; the message says what to do.",
    "413": "The body, or what would be stored, is too large.",
    "500": "The cluster refused the server's own request.",
    "503": "The cluster cannot be reached, or the job changes all the time; try again later.",
}
_ALWAYS: Final = ("200", "401", "403", "404", "409", "500", "503")
_WITH_BODY: Final = (*_ALWAYS, "400", "413")

_COUNT: Final[Object] = {"type": "integer", "minimum": 1, "maximum": MAX_PODS}
_REPLICAS: Final[Object] = {
    "type": "object",
    "required": ["replicas"],
    "properties": {"replicas": _COUNT},
}
_PROFILINGS: Final[Object] = {
    "type": "object",
    "required": ["data"],
    "properties": {"data": {"type": "object", "description": "A JSON merge patch of the profilings."}},
}
_TRAINER_STATUS: Final[Object] = {
    "type": "object",
    "required": ["trainerStatus"],
    "properties": {
        "trainerStatus": {
            "type": "object",
            "properties": {
                "progressPercentage": {"type": ["number", "null"], "minimum": 0, "maximum": 100},
                "estimatedRemainingSeconds": {"type": ["number", "null"], "minimum": 0, "maximum": 2**53},
                "lastUpdatedTime": {"type": ["string", "null"]},
                "metrics": {
                    "type": ["array", "null"],
                    "items": {
                        "type": "object",
                        "required": ["name", "value"],
                        "properties": {
                            "name": {"type": "string", "minLength": 1},
                            "value": {"type": "string"},
                        },
                    },
                },
            },
        }
    },
}
_ADDRESSES: Final[Object] = {
    "type": "array",
    "items": {"type": "string"},
    "description": 'ip:port of each rank in order, "" where there is none.',
}
_JOB_ID: Final[Object] = {
    "name": "jobId",
    "in": "path",
    "required": True,
    "description": "namespace.name or namespace.name.generation, as in DI_JOB_ID.",
    "schema": {"type": "string", "pattern": r"^[a-z0-9-]+(\.[a-z0-9-]+)+$"},
}
_VERSION: Final[Object] = {
    "name": "resourceVersion",
    "in": "query",
    "description": "Wait up to 60 seconds for a list with another resourceVersion than this.",
    "schema": {"type": "string"},
}
_NUMBER: Final[Object] = {
    "name": "replicas",
    "in": "query",
    "description": "How many replicas to remove; instead of a body.",
    "schema": _COUNT,
}


def openapi_document(plurals: Iterable[str]) -> Object:
    """Return the document of a server of jobs of some kinds, given by their plural names."""
    calls = {
        "replicas": {
            "get": _operation("Addresses of the replicas of a job", data=_ADDRESSES, query=_VERSION),
            "post": _operation("Request more replicas", body=_REPLICAS, data=_COUNT),
            "delete": _operation("Request fewer replicas", body=_REPLICAS, data=_COUNT, query=_NUMBER),
        },
        "profilings": {"post": _operation("Report figures of a job", body=_PROFILINGS)},
    }
    paths: Object = {
        f"/v2alpha1/{form}{{jobId}}/{call}": {**operations, "parameters": [_JOB_ID]}
        for call, operations in calls.items()
        for form in ("", "job/")
    }
    paths["/v1/{kind}/{namespace}/{name}/trainer-status"] = {
        "post": _operation("Report the progress of a trainer", body=_TRAINER_STATUS),
        "parameters": [
            _path_parameter("kind", {"enum": list(plurals)}),
            _path_parameter("namespace", {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}),
            _path_parameter("name", {"pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}),
        ],
    }
    for page, kind in _PAGES.items():
        paths[page] = {"get": _page(kind)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shoal DI server", "version": shoal.__version__},
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _reply({"type": "null"}, success=False)},
        },
        "security": [{"bearer": []}],
    }


_PAGES: Final[Mapping[str, str]] = {
    "/healthz": "text/plain",
    "/readyz": "application/json",
    "/metrics": "text/plain",
    "/openapi.json": "application/json",
}


def _page(kind: str) -> Object:
    content = {kind: {"schema": {"type": "string" if kind == "text/plain" else "object"}}}
    return {
        "summary": "Health, metrics and this document",
        "security": [],
        "responses": {
            "200": {"description": "The page.", "content": content},
            "503": {"description": "The server does not know all jobs yet.", "content": content},
        },
    }


def _path_parameter(name: str, schema: Object) -> Object:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", **schema}}


def _operation(
    summary: str, *, body: Object | None = None, data: Object | None = None, query: Object | None = None
) -> Object:
    found: Object = {
        "summary": summary,
        "responses": {
            code: _response(
                _DESCRIPTIONS[code], _reply(data or {"type": "null"}) if code == "200" else _ERROR
            )
            for code in sorted(_WITH_BODY if body else _ALWAYS)
        },
    }
    if body:
        found["requestBody"] = {"required": query is None, "content": {"application/json": {"schema": body}}}
    if query:
        found["parameters"] = [query]
    return found


_ERROR: Final[Object] = {"$ref": "#/components/schemas/Error"}


def _response(text: str, schema: Object) -> Object:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _reply(data: Object, *, success: bool = True) -> Object:
    properties: dict[str, Any] = {
        "success": {"const": success},
        "code": {"type": "integer", "description": "The HTTP status."},
        "message": {"type": "string"},
        "data": data,
        "resourceVersion": {"type": "string", "description": "With a list: the version of the list."},
    }
    return {
        "type": "object",
        "required": ["success", "code", "message", "data"],
        "properties": properties,
        "additionalProperties": False,
    }
