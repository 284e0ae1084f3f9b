"""Answers that are about the server, not about objects: discovery, schemas, version, health."""

import platform
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from shoal import __version__
from shoal.cluster.embedded.api import discovery, openapi
from shoal.cluster.embedded.api.answers import json_answer, plain_answer, text_answer
from shoal.cluster.embedded.api.negotiation import media_of, wants
from shoal.cluster.resources import Object
from shoal.cluster.schemas.core import VERSION

HEALTH: Final = ("/healthz", "/livez", "/readyz")
OPEN: Final = (*HEALTH, "/version")
"""Paths that anybody may read, as on Kubernetes: they tell nothing of what is kept."""

_OPENAPI: Final = "/openapi/v3"
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ASKED_FOR: Final = (_PROTOBUF, _PROTOBUF.replace("v2.v1", "v2@v1"))
"""The name has been spelt in two ways."""
_IMMUTABLE: Final = {"Cache-Control": "public, immutable"}
"""For what is asked for by its hash."""


def about(request: Request) -> Response | None:
    """The answer, if the request is about the server."""
    path = str(request.scope["path"]).rstrip("/")  # its URL would be made of what the client calls us
    if path in HEALTH:
        return plain_answer("ok")
    if path.startswith("/openapi/"):
        return _openapi(request, path)
    found = version() if path == "/version" else _discovery(request, path)
    if found is None:
        return None
    aggregated = found.get("kind") == "APIGroupDiscoveryList"
    media = ";".join(["application/json", *(f"{k}={v}" for k, v in discovery.AGGREGATED.items())])
    return json_answer(found, headers={"Content-Type": media} if aggregated else {})


def _discovery(request: Request, path: str) -> Object | None:
    at_once = wants(request.headers.get("accept", ""), **discovery.AGGREGATED)
    match path.removeprefix("/").split("/"):
        case ["api"]:
            return discovery.aggregated(core=True) if at_once else discovery.core_versions()
        case ["apis"]:
            return discovery.aggregated(core=False) if at_once else discovery.group_list()
        case ["api", version]:
            return discovery.resource_list("", version)
        case ["apis", group]:
            return discovery.group(group)
        case ["apis", group, version] if group:
            return discovery.resource_list(group, version)
    return None


def _openapi(request: Request, path: str) -> Response | None:
    if path == _OPENAPI:
        return json_answer(openapi.index())
    if path == "/openapi/v2":
        first = next(media_of(request.headers.get("accept", "")))
        # An empty message is an empty document too.
        return (
            Response(b"", media_type=_PROTOBUF)
            if first.type in _ASKED_FOR
            else json_answer(openapi.nothing())
        )
    found = openapi.document(path.removeprefix(f"{_OPENAPI}/")) if path.startswith(f"{_OPENAPI}/") else b""
    return text_answer(found, headers=_IMMUTABLE if "hash" in request.query_params else {}) if found else None


def version() -> Object:
    """What /version says: which Kubernetes this looks like, and what it is."""
    major, minor, _ = VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{VERSION}+shoal.{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
