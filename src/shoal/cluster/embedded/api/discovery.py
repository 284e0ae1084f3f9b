"""Discovery: which groups, versions and resources there are, in both forms that clients ask for."""

from collections.abc import Iterable
from typing import Any, Final

from shoal.cluster.embedded.api.paths import (
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
from shoal.cluster.resources import NAMESPACES, Object, Resource
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
