"""Paths: which collection, object or part of an object a request is about."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from shoal.cluster.resources import NAMESPACES, PODS, RESOURCES, Object, Resource

NODE_METRICS: Final = Resource[Object](
    group="metrics.k8s.io",
    version="v1beta1",
    kind="NodeMetrics",
    plural="nodes",
    namespaced=False,
    decode=msgspec.json.decode,
)
POD_METRICS: Final = Resource[Object](
    group="metrics.k8s.io", version="v1beta1", kind="PodMetrics", plural="pods", decode=msgspec.json.decode
)
MEASURED: Final = (NODE_METRICS, POD_METRICS)
"""What is measured whenever it is asked for, and kept nowhere."""

SERVED: Final = (*RESOURCES, *MEASURED)
_BY_PLACE: Final = {(resource.group, resource.version, resource.plural): resource for resource in SERVED}
_CORE_ROOT: Final = "api"
_GROUP_ROOT: Final = "apis"
_NAMESPACES: Final = NAMESPACES.plural
STATUS: Final = "status"
BINDING: Final = "binding"
EVICTION: Final = "eviction"
LOG: Final = "log"
EXEC: Final = "exec"
ATTACH: Final = "attach"
PORT_FORWARD: Final = "portforward"
BINDINGS: Final = "bindings"
"""Bindings can be made without a pod's path too: then they say the pod's name themselves."""

_OF_PODS: Final = {
    BINDING: frozenset({"POST"}),
    EVICTION: frozenset({"POST"}),
    LOG: frozenset({"GET"}),
    EXEC: frozenset({"GET", "POST"}),
}
"""What of a pod is reached apart, and how."""

_REFUSED: Final = {ATTACH: frozenset({"GET", "POST"}), PORT_FORWARD: frozenset({"GET", "POST"})}
"""What clients would reach as well, and are told why they cannot."""

_ONE_BY_ONE: Final = frozenset({"GET", "POST"})
"""What can be done with a collection that is not deleted as a whole."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is about: a collection, one object by `name`, or a `part` of it."""

    resource: Resource[Object]
    namespace: str = ""
    name: str = ""
    part: str = ""

    @property
    def text(self) -> Resource[bytes]:
        """The same collection, its objects handed out as the text that is kept."""
        return self.resource.read_as(bytes)

    @property
    def methods(self) -> frozenset[str]:
        """What can be done with it."""
        if self.resource in MEASURED:
            return frozenset({"GET"})
        if self.part:
            return (_OF_PODS | _REFUSED).get(self.part, frozenset({"GET", "PUT", "PATCH"}))
        if self.name:
            return frozenset({"GET", "PUT", "PATCH", "DELETE"})
        if self.resource.namespaced and not self.namespace:
            return frozenset({"GET"})
        return _ONE_BY_ONE if self.resource is NAMESPACES else _ONE_BY_ONE | {"DELETE"}


def parts_of(resource: Resource[Any]) -> tuple[str, ...]:
    """What of an object is reached apart."""
    pods = _OF_PODS if resource is PODS else ()
    return (*pods, *((STATUS,) if resource.status else ()))


def target_of(path: str) -> Target | None:
    """What a path leads to, if there is such a thing."""
    match path.strip("/").split("/"):
        case [root, version, *rest] if root == _CORE_ROOT:
            return _in_group("", version, rest)
        case [root, group, version, *rest] if root == _GROUP_ROOT and group:
            return _in_group(group, version, rest)
    return None


def _in_group(group: str, version: str, steps: Sequence[str]) -> Target | None:
    match steps:
        case [first, name, part] if first == _NAMESPACES and part in parts_of(NAMESPACES):
            return _target(group, version, "", [first, name, part])
        case [first, namespace, _, *_] if first == _NAMESPACES and namespace:
            return _target(group, version, namespace, steps[2:])
    return _target(group, version, "", steps)


def _target(group: str, version: str, namespace: str, steps: Sequence[str]) -> Target | None:
    if namespace and (group, *steps) == ("", BINDINGS):
        return Target(resource=PODS, namespace=namespace, part=BINDING)
    plural, name, part, *more = (*steps, "", "", "")[: max(len(steps), 3)]
    resource = _BY_PLACE.get((group, version, plural))
    if resource is None or more or "" in steps or (namespace and not resource.namespaced):
        return None
    if name and resource.namespaced and not namespace:
        return None
    if part and part not in parts_of(resource) and not (resource is PODS and part in _REFUSED):
        return None
    return Target(resource=resource, namespace=namespace, name=name, part=part)
