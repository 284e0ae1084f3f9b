"""Resolves names of kinds: `pods`, `po`, `Pod`, `jobs.batch`, `tyjobs.v1alpha1.tyrl.io`.

The kinds that Shoal uses are known; the server's discovery is asked only for others.
"""

import functools
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from shoal.client.client import Client, UnknownKindError
from shoal.cluster.resources import Object, Resource, by_kind, resources

_DISCOVERY: Final = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)


class KindResolver:
    """Resolves the kinds of one cluster."""

    def __init__(self, client: Client) -> None:
        self._client: Final = client

    def resolve(self, name: str) -> list[Resource[Object]]:
        """Return the kind of a name, or the kinds of a category such as `all`."""
        known = [resource for resource in resources() if _matches(name, resource)]
        if known:
            return known[:1]
        found = [resource for resource in self._served if _matches(name, resource)][:1]
        found = found or [resource for resource in self._served if name.lower() in resource.categories]
        if not found:
            raise UnknownKindError(
                f'the server doesn\'t have a resource type "{name}"{_hint(name, self._served)}'
            )
        return found

    def resolve_one(self, name: str) -> Resource[Object]:
        """Return the kind of a name; UnknownKindError if it is a category of several."""
        found = self.resolve(name)
        if len(found) > 1:
            several = ", ".join(resource.plural for resource in found)
            raise UnknownKindError(f'"{name}" means several kinds: {several}')
        return found[0]

    def for_object(self, api_version: str, kind: str) -> Resource[Object]:
        """Return the kind of an object with this apiVersion and kind."""
        if known := by_kind().get((api_version, kind)):
            return known
        for resource in self._served:
            if (resource.api_version, resource.kind) == (api_version, kind):
                return resource
        raise UnknownKindError(f'no matches for kind "{kind}" in version "{api_version}"')

    @functools.cached_property
    def _served(self) -> list[Resource[Object]]:
        """All kinds of the server, core kinds first, each in its preferred version."""
        lists = [self._client.get_path(path, accept=_DISCOVERY) for path in ("/api", "/apis")]
        return [resource for document in lists for resource in _parse_discovery(document)]


def qualified_kind(resource: Resource[Any]) -> str:
    """Return the prefix of an object name in output: `pod`, `tyjob.tyrl.io`."""
    singular = resource.kind.lower()
    return f"{singular}.{resource.group}" if resource.group else singular


def _matches(name: str, resource: Resource[Any]) -> bool:
    short_name, _, group = name.lower().partition(".")
    names = (resource.plural, resource.kind.lower(), *resource.short_names)
    if short_name not in names:
        return False
    return group.rstrip(".") in ("", resource.group, f"{resource.version}.{resource.group}".rstrip("."))


def _hint(name: str, known: Iterable[Resource[Any]]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and only for errors

    near = get_close_matches(name.lower(), {part for kind in known for part in _names(kind)}, n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _names(resource: Resource[Any]) -> tuple[str, ...]:
    return (resource.plural, resource.kind.lower())


class _Kind(msgspec.Struct):
    kind: str


class _DiscoveredResource(msgspec.Struct, rename="camel"):
    """A resource in a discovery document."""

    resource: str
    scope: str
    response_kind: _Kind | None = None
    verbs: list[str] = []
    short_names: list[str] = []
    categories: list[str] = []


def _parse_discovery(document: Object) -> Iterable[Resource[Object]]:
    """Yield the resources of all groups, each in the first version that has it."""
    for group in document.get("items") or ():
        seen = set[str]()
        for version in group.get("versions") or ():
            for raw in version.get("resources") or ():
                discovered = msgspec.convert(raw, _DiscoveredResource)
                if (
                    discovered.resource not in seen
                    and discovered.response_kind
                    and "list" in discovered.verbs
                ):
                    seen.add(discovered.resource)
                    yield _make_resource(group["metadata"].get("name", ""), version["version"], discovered)


def _make_resource(group: str, version: str, discovered: _DiscoveredResource) -> Resource[Object]:
    return Resource(
        group=group,
        version=version,
        kind=discovered.response_kind.kind if discovered.response_kind else "",
        plural=discovered.resource,
        namespaced=discovered.scope == "Namespaced",
        short_names=tuple(discovered.short_names),
        categories=tuple(discovered.categories),
        decode=msgspec.json.decode,
    )
