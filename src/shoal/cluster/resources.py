"""Resources: the collections of objects that a cluster keeps, and how each is addressed."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from shoal.api.types import DIJOB, OWN_TYPES, POOL, TRAININGJOB, TYJOB, Type

T = TypeVar("T")
U = TypeVar("U")

Object = dict[str, Any]
"""A whole object, as JSON has it: nothing is lost."""

Text = bytes | msgspec.Raw
"""One object in JSON."""

Decode = Callable[[Text], T]
"""Makes something of an object's text."""


class Resource(msgspec.Struct, Generic[T], frozen=True, eq=False, kw_only=True):
    """A collection of objects of one kind, and what is made of each when it is read.

    `status`: its status is written apart from the rest. `generation`: it counts the changes of its spec.
    `decode` is given the text of one object and is called once for each: the way from the wire to a typed
    view has no stop on it. Two resources are the same collection if their `full_name` is.
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
        """What it is called where plurals alone could be mistaken: `pools.resource.aibee.cn`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Where it is on an API server; without a namespace, everywhere."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        space = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{space}/{self.plural}{tail}"

    def read_as(self, decode: Decode[U]) -> "Resource[U]":
        """The same collection, with something else made of its objects."""
        return Resource(**{**msgspec.structs.asdict(self), "decode": decode})


def _resource(group: str, version: str, kind: str, plural: str, **more: Any) -> Resource[Object]:  # noqa: ANN401
    """A collection whose objects are read whole."""
    whole = partial(_whole, f"{group}/{version}" if group else version, kind)
    return Resource(group=group, version=version, kind=kind, plural=plural, decode=whole, **more)


def _whole(api_version: str, kind: str, text: Text) -> Object:
    """A whole object; one that came in a list may not say what it is, and is told here."""
    return {**msgspec.json.decode(text), "apiVersion": api_version, "kind": kind}


def _own(kind: Type, short: str) -> Resource[Object]:
    return _resource(
        kind.group,
        kind.version,
        kind.kind,
        kind.plural,
        namespaced=kind.namespaced,
        status=True,
        generation=True,
        short_names=(short,),
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
DIJOBS: Final = _own(DIJOB, "dijob")
TYJOBS: Final = _own(TYJOB, "tyj")
TRAININGJOBS: Final = _own(TRAININGJOB, "tj")
POOLS: Final = _own(POOL, "pool")

RESOURCES: Final = (
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
    DIJOBS,
    TYJOBS,
    TRAININGJOBS,
    POOLS,
)
"""All that Shoal keeps or reads."""

BY_KIND: Final[Mapping[tuple[str, str], Resource[Object]]] = {
    (resource.api_version, resource.kind): resource for resource in RESOURCES
}
"""Resources by the apiVersion and kind that objects say."""

OWN_GROUPS: Final = frozenset(kind.group for kind in OWN_TYPES)
"""The groups of Shoal's own kinds."""
