"""Kinds by the names that people give them: `pods`, `po`, `Pod`, `jobs.batch`, `tyjobs.v1alpha1.tyrl.io`.

The kinds that Shoal works with are known; a server is asked for others only when somebody names one.
"""

import functools
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from shoal.client.client import Client
from shoal.client.errors import UnknownKindError
from shoal.cluster.resources import BY_KIND, RESOURCES, Object, Resource

_DISCOVERY: Final = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)


class Kinds:
    """The kinds of one cluster."""

    def __init__(self, client: Client) -> None:
        self._client: Final = client

    def named(self, name: str) -> list[Resource[Object]]:
        """The kind that a name means, or the kinds of a category such as `all`."""
        known = [resource for resource in RESOURCES if _means(name, resource)]
        if known:
            return known[:1]
        found = [resource for resource in self._served if _means(name, resource)][:1]
        found = found or [resource for resource in self._served if name.lower() in resource.categories]
        if not found:
            raise UnknownKindError(
                f'the server doesn\'t have a resource type "{name}"{_hint(name, self._served)}'
            )
        return found

    def one(self, name: str) -> Resource[Object]:
        """The kind that a name means; UnknownKindError if it means several."""
        found = self.named(name)
        if len(found) > 1:
            several = ", ".join(resource.plural for resource in found)
            raise UnknownKindError(f'"{name}" means several kinds: {several}')
        return found[0]

    def of(self, api_version: str, kind: str) -> Resource[Object]:
        """The kind that an object says it is of."""
        if known := BY_KIND.get((api_version, kind)):
            return known
        for resource in self._served:
            if (resource.api_version, resource.kind) == (api_version, kind):
                return resource
        raise UnknownKindError(f'no matches for kind "{kind}" in version "{api_version}"')

    @functools.cached_property
    def _served(self) -> list[Resource[Object]]:
        """All that the server has, core kinds first, each in the version that it prefers."""
        lists = [self._client.ask(path, accept=_DISCOVERY) for path in ("/api", "/apis")]
        return [resource for listed in lists for resource in _resources(listed)]


def short(resource: Resource[Any]) -> str:
    """How a kind is called in front of a name: `pod`, `tyjob.tyrl.io`."""
    singular = resource.kind.lower()
    return f"{singular}.{resource.group}" if resource.group else singular


def _means(name: str, resource: Resource[Any]) -> bool:
    said, _, group = name.lower().partition(".")
    names = (resource.plural, resource.kind.lower(), *resource.short_names)
    if said not in names:
        return False
    return group.rstrip(".") in ("", resource.group, f"{resource.version}.{resource.group}".rstrip("."))


def _hint(name: str, known: Iterable[Resource[Any]]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only who slipped waits for it

    near = get_close_matches(name.lower(), {part for kind in known for part in _names(kind)}, n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _names(resource: Resource[Any]) -> tuple[str, ...]:
    return (resource.plural, resource.kind.lower())


class _Kind(msgspec.Struct):
    kind: str


class _Served(msgspec.Struct, rename="camel"):
    """A resource, as discovery tells of it."""

    resource: str
    scope: str
    response_kind: _Kind | None = None
    verbs: list[str] = []
    short_names: list[str] = []
    categories: list[str] = []


def _resources(listed: Object) -> Iterable[Resource[Object]]:
    """The resources of groups, of each in the first version that has it."""
    for group in listed.get("items") or ():
        seen = set[str]()
        for version in group.get("versions") or ():
            for raw in version.get("resources") or ():
                served = msgspec.convert(raw, _Served)
                if served.resource not in seen and served.response_kind and "list" in served.verbs:
                    seen.add(served.resource)
                    yield _resource(group["metadata"].get("name", ""), version["version"], served)


def _resource(group: str, version: str, served: _Served) -> Resource[Object]:
    return Resource(
        group=group,
        version=version,
        kind=served.response_kind.kind if served.response_kind else "",
        plural=served.resource,
        namespaced=served.scope == "Namespaced",
        short_names=tuple(served.short_names),
        categories=tuple(served.categories),
        decode=msgspec.json.decode,
    )
