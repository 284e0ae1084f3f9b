"""Resources: the collections of objects in a cluster, their names and URL paths."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from shoal.api import registry
from shoal.api.registry import Type

T = TypeVar("T")
U = TypeVar("U")

Object = dict[str, Any]
"""A complete object as decoded JSON."""

Text = bytes | msgspec.Raw
"""The JSON text of one object."""

Decode = Callable[[Text], T]
"""Decodes the text of an object."""


class Resource(msgspec.Struct, Generic[T], frozen=True, eq=False, kw_only=True):
    """A collection of objects of one kind, and how its objects are decoded.

    `status`: it has a status subresource. `generation`: `metadata.generation` counts changes of the spec.
    `decode` is called once with the text of each object: text is decoded directly to a typed view, without
    an intermediate form. Two resources are the same collection if their `full_name` is equal.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    status: bool = False
    generation: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    decode: Decode[T]

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for core kinds."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """Unique name of the collection: `pools.resource.aibee.cn`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path on an API server; without a namespace, that of all namespaces."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        space = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{space}/{self.plural}{tail}"

    def read_as(self, decode: Decode[U]) -> "Resource[U]":
        """Return the same collection with another decoder."""
        return Resource(**{**msgspec.structs.asdict(self), "decode": decode})


def _resource(group: str, version: str, kind: str, plural: str, **more: Any) -> Resource[Object]:  # noqa: ANN401
    """Return a collection whose objects are decoded completely."""
    decode = partial(_decode_complete, f"{group}/{version}" if group else version, kind)
    return Resource(group=group, version=version, kind=kind, plural=plural, decode=decode, **more)


def _decode_complete(api_version: str, kind: str, text: Text) -> Object:
    """Decode a complete object. Objects in lists may lack apiVersion and kind: they are added."""
    return {**msgspec.json.decode(text), "apiVersion": api_version, "kind": kind}


@cache
def _own(kind: Type) -> Resource[Object]:
    return _resource(
        kind.group,
        kind.version,
        kind.kind,
        kind.plural,
        namespaced=kind.namespaced,
        status=True,
        generation=True,
        short_names=(kind.short_name,) if kind.short_name else (),
        categories=("all", "shoal") if kind.namespaced else ("shoal",),
    )


PODS: Final = _resource(
    "", "v1", "Pod", "pods", status=True, generation=True, short_names=("po",), categories=("all",)
)
NODES: Final = _resource("", "v1", "Node", "nodes", namespaced=False, status=True, short_names=("no",))
NAMESPACES: Final = _resource(
    "", "v1", "Namespace", "namespaces", namespaced=False, status=True, short_names=("ns",)
)
SERVICES: Final = _resource(
    "", "v1", "Service", "services", status=True, short_names=("svc",), categories=("all",)
)
CONFIG_MAPS: Final = _resource("", "v1", "ConfigMap", "configmaps", short_names=("cm",))
SECRETS: Final = _resource("", "v1", "Secret", "secrets")
EVENTS: Final = _resource("", "v1", "Event", "events", short_names=("ev",))
LEASES: Final = _resource("coordination.k8s.io", "v1", "Lease", "leases")
PRIORITY_CLASSES: Final = _resource(
    "scheduling.k8s.io",
    "v1",
    "PriorityClass",
    "priorityclasses",
    namespaced=False,
    generation=True,
    short_names=("pc",),
)
BUDGETS: Final = _resource(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    status=True,
    generation=True,
    short_names=("pdb",),
)
JOBS: Final = _resource("batch", "v1", "Job", "jobs", status=True, generation=True, categories=("all",))

_CORE: Final = (
    PODS,
    NODES,
    NAMESPACES,
    SERVICES,
    CONFIG_MAPS,
    SECRETS,
    EVENTS,
    LEASES,
    PRIORITY_CLASSES,
    BUDGETS,
    JOBS,
)


@registry.cached_by_kinds
def resources() -> tuple[Resource[Object], ...]:
    """All resources that Shoal stores or reads: those of Kubernetes, then our own kinds."""
    return (*_CORE, *map(_own, registry.types()))


@registry.cached_by_kinds
def by_kind() -> Mapping[tuple[str, str], Resource[Object]]:
    """Resources by the apiVersion and kind of their objects."""
    return {(resource.api_version, resource.kind): resource for resource in resources()}


@registry.cached_by_kinds
def _by_name() -> Mapping[str, Resource[Object]]:
    return {resource.kind: resource for resource in resources()}


def resource_of(kind: str) -> Resource[Object]:
    """The resource of a kind, by its name: `resource_of("TYJob")`. KeyError if there is none."""
    return _by_name()[kind]


@registry.cached_by_kinds
def own_groups() -> frozenset[str]:
    """API groups of our own kinds."""
    return frozenset(kind.group for kind in registry.types())
