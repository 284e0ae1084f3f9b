"""Server information: discovery (plain and aggregated), OpenAPI documents, version and health.

OpenAPI documents, for `kubectl explain` and for validation by clients, are built on the first request.
"""

import functools
import hashlib
import platform
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from shoal import __version__
from shoal.api.crds import Schema
from shoal.apiserver.http.requests import (
    BINDING,
    BINDINGS,
    EVICTION,
    EXEC,
    LOG,
    METRICS_RESOURCES,
    REVIEWS,
    STATUS,
    served_resources,
    subresources_of,
)
from shoal.apiserver.http.responses import (
    json_response,
    parse_accept,
    prefers,
    raw_json_response,
    text_response,
)
from shoal.cluster.resources import NAMESPACES, Object, Resource, resources
from shoal.cluster.schemas.core import KUBERNETES_VERSION, REFERENCES
from shoal.cluster.schemas.kinds import is_shoal_kind, schema_name, schemas

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CUSTOM_RESOURCE_VERBS: Final = (
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
)
"""The same verbs, in the order that Kubernetes uses for custom resources."""

_METRICS_VERBS: Final = ("get", "list")
_SUBRESOURCE_VERBS: Final = {
    STATUS: ("get", "patch", "update"),
    BINDING: ("create",),
    EVICTION: ("create",),
    LOG: ("get",),
    EXEC: ("create", "get"),
}
_SUBRESOURCE_KINDS: Final = {
    BINDING: ("", "v1", "Binding"),
    EVICTION: ("policy", "v1", "Eviction"),
    EXEC: ("", "v1", "PodExecOptions"),
}
"""Kinds of subresources whose body is not the object itself."""

AGGREGATED: Final = {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}
"""Media type parameters of aggregated discovery."""


def groups() -> dict[str, list[str]]:
    """Return the versions of each group; the core group has an empty name."""
    found: dict[str, list[str]] = {}
    for resource in served_resources():
        versions = found.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
    return found


def core_versions() -> Object:
    """Return the document at /api."""
    return {"kind": "APIVersions", "versions": groups()[""], "serverAddressByClientCIDRs": []}


def group_list() -> Object:
    """Return the document at /apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in groups() if name]}


def group(name: str) -> Object | None:
    """Return the document of a group."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(name) if name and name in groups() else None


def _group(name: str) -> Object:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in groups()[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(name: str, version: str) -> Object | None:
    """Return the resource list of a group version."""
    if version not in groups().get(name, ()):
        return None
    resources = [entry for resource in _resources_of(name, version) for entry in _entries(resource)]
    if not name:
        resources.append(_entry(BINDINGS, "Binding", ("create",), namespaced=True, singular="binding"))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{version}" if name else version,
        "resources": sorted(resources, key=lambda entry: str(entry["name"])),
    }


def _resources_of(name: str, version: str) -> list[Resource[Any]]:
    return [
        resource for resource in served_resources() if (resource.group, resource.version) == (name, version)
    ]


def _verbs(resource: Resource[Any]) -> tuple[str, ...]:
    """Return the verbs of a resource; namespaces have no deletecollection."""
    if resource in METRICS_RESOURCES:
        return _METRICS_VERBS
    if resource in REVIEWS:
        return ("create",)
    if is_shoal_kind(resource):
        return _CUSTOM_RESOURCE_VERBS
    return tuple(verb for verb in _VERBS if verb != "deletecollection" or resource is not NAMESPACES)


def _entries(resource: Resource[Any]) -> Iterable[Object]:
    more: Object = {"singular": resource.kind.lower(), "namespaced": resource.namespaced}
    entry = _entry(resource.plural, resource.kind, _verbs(resource), **more)
    if resource.short_names:
        entry["shortNames"] = resource.short_names
    if resource.categories:
        entry["categories"] = resource.categories
    yield entry
    for subresource in subresources_of(resource):
        yield _subresource_entry(resource, subresource)


def _subresource_entry(resource: Resource[Any], subresource: str) -> Object:
    group_name, version, kind = _SUBRESOURCE_KINDS.get(subresource, ("", "", resource.kind))
    entry = _entry(
        f"{resource.plural}/{subresource}",
        kind,
        _SUBRESOURCE_VERBS[subresource],
        namespaced=resource.namespaced,
    )
    return entry | ({"group": group_name, "version": version} if group_name else {})


def _entry(name: str, kind: str, verbs: Iterable[str], *, namespaced: bool, singular: str = "") -> Object:
    return {
        "name": name,
        "singularName": singular,
        "namespaced": namespaced,
        "kind": kind,
        "verbs": list(verbs),
    }


# --- aggregated discovery ---------------------------------------------------------------------------------


def aggregated(*, core: bool) -> Object:
    """Return the aggregated document of the core group, or of all other groups."""
    names = [name for name in groups() if (name == "") == core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(name) for name in names],
    }


def _aggregated_group(name: str) -> Object:
    versions = [
        {
            "version": version,
            "resources": [_aggregated_resource(resource) for resource in _resources_of(name, version)],
            "freshness": "Current",
        }
        for version in groups()[name]
    ]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _aggregated_resource(resource: Resource[Any]) -> Object:
    entry: Object = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.kind.lower(),
        "verbs": list(_verbs(resource)),
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
        "subresources": [
            _aggregated_subresource(resource, subresource) for subresource in subresources_of(resource)
        ],
    }
    return {name: value for name, value in entry.items() if value != []}


def _aggregated_subresource(resource: Resource[Any], subresource: str) -> Object:
    group_name, version, kind = _SUBRESOURCE_KINDS.get(
        subresource, (resource.group, resource.version, resource.kind)
    )
    return {
        "subresource": subresource,
        "responseKind": {"group": group_name, "version": version, "kind": kind},
        "verbs": list(_SUBRESOURCE_VERBS[subresource]),
    }


HEALTH_PATHS: Final = ("/healthz", "/livez", "/readyz")
PUBLIC_PATHS: Final = (*HEALTH_PATHS, "/version")
"""Paths without authentication, as in Kubernetes: they reveal nothing about objects."""

_OPENAPI: Final = "/openapi/v3"
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUF_TYPES: Final = (_PROTOBUF, _PROTOBUF.replace("v2.v1", "v2@v1"))
"""Both spellings are in use."""
_IMMUTABLE_HEADERS: Final = {"Cache-Control": "public, immutable"}
"""Headers of documents requested by their hash."""


def server_info(request: Request) -> Response | None:
    """Return the response if the path is one of server information."""
    path = str(request.scope["path"]).rstrip("/")  # request.url depends on the Host header
    if path in HEALTH_PATHS:
        return text_response("ok")
    if path.startswith("/openapi/"):
        return _openapi(request, path)
    found = version() if path == "/version" else _discovery(request, path)
    if found is None:
        return None
    aggregated = found.get("kind") == "APIGroupDiscoveryList"
    media = ";".join(["application/json", *(f"{k}={v}" for k, v in AGGREGATED.items())])
    return json_response(found, headers={"Content-Type": media} if aggregated else {})


def _discovery(request: Request, path: str) -> Object | None:
    is_aggregated = prefers(request.headers.get("accept", ""), **AGGREGATED)
    match path.removeprefix("/").split("/"):
        case ["api"]:
            return aggregated(core=True) if is_aggregated else core_versions()
        case ["apis"]:
            return aggregated(core=False) if is_aggregated else group_list()
        case ["api", version]:
            return resource_list("", version)
        case ["apis", name]:
            return group(name)
        case ["apis", name, version] if name:
            return resource_list(name, version)
    return None


def _openapi(request: Request, path: str) -> Response | None:
    if path == _OPENAPI:
        return json_response(openapi_index())
    if path == "/openapi/v2":
        first = next(parse_accept(request.headers.get("accept", "")))
        # An empty protobuf message is an empty document.
        return (
            Response(b"", media_type=_PROTOBUF)
            if first.type in _PROTOBUF_TYPES
            else json_response(empty_v2_document())
        )
    found = openapi_document(path.removeprefix(f"{_OPENAPI}/")) if path.startswith(f"{_OPENAPI}/") else b""
    return (
        raw_json_response(found, headers=_IMMUTABLE_HEADERS if "hash" in request.query_params else {})
        if found
        else None
    )


def version() -> Object:
    """Return the document at /version: the emulated Kubernetes version and Shoal's own."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{KUBERNETES_VERSION}+shoal.{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


_INFO: Final = {"title": "Kubernetes", "version": f"v{KUBERNETES_VERSION}"}
_FIELD_VALIDATION: Final = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
_DRY_RUN: Final = {"name": "dryRun", "in": "query", "schema": {"type": "string"}}
_HASH_LENGTH: Final = 32


def openapi_index() -> Object:
    """Return the index at /openapi/v3: the path and hash of each group version's document."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(openapi_document(path))}"}
            for path in dict.fromkeys(map(_group_version_path, resources()))
        }
    }


@functools.cache
def openapi_document(path: str) -> bytes:
    """Return the OpenAPI document of a group version such as `apis/batch/v1`; empty if there is none."""
    found = [resource for resource in resources() if _group_version_path(resource) == path]
    if not found:
        return b""
    needed: dict[str, Schema] = {}
    for resource in found:
        _collect_schemas(schema_name(resource), needed)
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": dict(path for resource in found for path in _paths(resource)),
            "components": {"schemas": needed},
        }
    )


def empty_v2_document() -> Object:
    """Return the document at /openapi/v2: empty, so clients that need it do not validate."""
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}


def _group_version_path(resource: Resource[Any]) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:_HASH_LENGTH].upper()


def _paths(resource: Resource[Any]) -> Iterator[tuple[str, Object]]:
    """Yield the paths of a resource that clients look up."""
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"/{_group_version_path(resource)}{namespace}/{resource.plural}"
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
    group_version_kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    content = {"application/json": {"schema": {"$ref": f"{REFERENCES}{schema_name(resource)}"}}}
    return {
        "operationId": f"{action}{resource.version.capitalize()}{resource.kind}",
        "parameters": [_DRY_RUN, _FIELD_VALIDATION] if writes else [],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": group_version_kind,
    }


def _collect_schemas(name: str, needed: dict[str, Schema]) -> None:
    """Collect a schema and all schemas that it refers to."""
    if name not in needed:
        needed[name] = schemas()[name]
        for reference in _references(needed[name]):
            _collect_schemas(reference, needed)


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(REFERENCES)
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)
