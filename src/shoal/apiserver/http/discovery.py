"""Discovery: which groups, versions and resources there are, in both forms that clients ask for.

Answers that are about the server, not about objects: discovery, schemas, version, health.
"""

import platform
from collections.abc import Iterable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from shoal import __version__
from shoal.apiserver.http import openapi
from shoal.apiserver.http.representations import media_of, wants
from shoal.apiserver.http.requests import (
    BINDING,
    BINDINGS,
    EVICTION,
    EXEC,
    LOG,
    MEASURED,
    SERVED,
    STATUS,
    parts_of,
)
from shoal.apiserver.http.responses import json_answer, plain_answer, text_answer
from shoal.cluster.resources import NAMESPACES, Object, Resource
from shoal.cluster.schemas.core import VERSION
from shoal.cluster.schemas.kinds import is_own

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_OWN_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The same, in the order in which Kubernetes tells those of custom resources."""

_MEASURED_VERBS: Final = ("get", "list")
_PART_VERBS: Final = {
    STATUS: ("get", "patch", "update"),
    BINDING: ("create",),
    EVICTION: ("create",),
    LOG: ("get",),
    EXEC: ("create", "get"),
}
_KINDS: Final = {
    BINDING: ("", "v1", "Binding"),
    EVICTION: ("policy", "v1", "Eviction"),
    EXEC: ("", "v1", "PodExecOptions"),
}
"""What is sent to parts of an object that are not the object itself."""

AGGREGATED: Final = {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}
"""How a client asks for everything at once."""


def groups() -> dict[str, list[str]]:
    """The versions of each group; the core group is nameless."""
    found: dict[str, list[str]] = {}
    for resource in SERVED:
        versions = found.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
    return found


def core_versions() -> Object:
    """What /api says."""
    return {"kind": "APIVersions", "versions": groups()[""], "serverAddressByClientCIDRs": []}


def group_list() -> Object:
    """What /apis says."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in groups() if name]}


def group(name: str) -> Object | None:
    """What the path of a group says."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(name) if name and name in groups() else None


def _group(name: str) -> Object:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in groups()[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(name: str, version: str) -> Object | None:
    """What the path of a version of a group says."""
    if version not in groups().get(name, ()):
        return None
    resources = [entry for resource in _of(name, version) for entry in _entries(resource)]
    if not name:
        resources.append(_entry(BINDINGS, "Binding", ("create",), namespaced=True, singular="binding"))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{version}" if name else version,
        "resources": sorted(resources, key=lambda entry: str(entry["name"])),
    }


def _of(name: str, version: str) -> list[Resource[Any]]:
    return [resource for resource in SERVED if (resource.group, resource.version) == (name, version)]


def _verbs(resource: Resource[Any]) -> tuple[str, ...]:
    """Namespaces go one by one."""
    if resource in MEASURED:
        return _MEASURED_VERBS
    if is_own(resource):
        return _OWN_VERBS
    return tuple(verb for verb in _VERBS if verb != "deletecollection" or resource is not NAMESPACES)


def _entries(resource: Resource[Any]) -> Iterable[Object]:
    more: Object = {"singular": resource.kind.lower(), "namespaced": resource.namespaced}
    entry = _entry(resource.plural, resource.kind, _verbs(resource), **more)
    if resource.short_names:
        entry["shortNames"] = resource.short_names
    if resource.categories:
        entry["categories"] = resource.categories
    yield entry
    for part in parts_of(resource):
        yield _part_entry(resource, part)


def _part_entry(resource: Resource[Any], part: str) -> Object:
    group_name, version, kind = _KINDS.get(part, ("", "", resource.kind))
    entry = _entry(f"{resource.plural}/{part}", kind, _PART_VERBS[part], namespaced=resource.namespaced)
    return entry | ({"group": group_name, "version": version} if group_name else {})


def _entry(name: str, kind: str, verbs: Iterable[str], *, namespaced: bool, singular: str = "") -> Object:
    return {
        "name": name,
        "singularName": singular,
        "namespaced": namespaced,
        "kind": kind,
        "verbs": list(verbs),
    }


# --- everything at once -----------------------------------------------------------------------------------


def aggregated(*, core: bool) -> Object:
    """All groups with all their resources: the nameless one, or the others."""
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
            "resources": [_aggregated_resource(resource) for resource in _of(name, version)],
            "freshness": "Current",
        }
        for version in groups()[name]
    ]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _aggregated_resource(resource: Resource[Any]) -> Object:
    made: Object = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.kind.lower(),
        "verbs": list(_verbs(resource)),
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
        "subresources": [_aggregated_part(resource, part) for part in parts_of(resource)],
    }
    return {name: value for name, value in made.items() if value != []}


def _aggregated_part(resource: Resource[Any], part: str) -> Object:
    group_name, version, kind = _KINDS.get(part, (resource.group, resource.version, resource.kind))
    return {
        "subresource": part,
        "responseKind": {"group": group_name, "version": version, "kind": kind},
        "verbs": list(_PART_VERBS[part]),
    }


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
    media = ";".join(["application/json", *(f"{k}={v}" for k, v in AGGREGATED.items())])
    return json_answer(found, headers={"Content-Type": media} if aggregated else {})


def _discovery(request: Request, path: str) -> Object | None:
    at_once = wants(request.headers.get("accept", ""), **AGGREGATED)
    match path.removeprefix("/").split("/"):
        case ["api"]:
            return aggregated(core=True) if at_once else core_versions()
        case ["apis"]:
            return aggregated(core=False) if at_once else group_list()
        case ["api", version]:
            return resource_list("", version)
        case ["apis", name]:
            return group(name)
        case ["apis", name, version] if name:
            return resource_list(name, version)
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
