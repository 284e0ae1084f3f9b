"""Paths: which collection, object or part of an object a request is about.

Options: what the query of a request says.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from starlette.datastructures import QueryParams

from shoal.api.fields import FieldError, shown
from shoal.cluster.errors import BadRequestError, InvalidError
from shoal.cluster.port import Where
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


FieldValidation = Literal["Strict", "Warn", "Ignore"]

_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
_NUMBER_DIGITS: Final = 18
_MATCHES: Final = ("Exact", "NotOlderThan")
_VALIDATIONS: Final[Mapping[str, FieldValidation]] = {
    "": "Warn",
    "Strict": "Strict",
    "Warn": "Warn",
    "Ignore": "Ignore",
}


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How to list or watch."""

    where: Where
    watch: bool
    limit: int
    start: str
    version: str
    match: str
    bookmarks: bool
    initial_events: bool | None
    timeout: float | None


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """How to write."""

    dry_run: bool
    fields: FieldValidation


def reading_of(query: QueryParams, namespace: str = "", name: str = "") -> Reading:
    """The options of a list or a watch; of one object by name, as kubectl once asked."""
    fields = query.get("fieldSelector", "")
    if name:
        fields = ",".join(filter(None, [f"metadata.name={name}", fields]))
    initial = query.get("sendInitialEvents")
    reading = Reading(
        where=Where(namespace, query.get("labelSelector", ""), fields),
        watch=truth(query, "watch"),
        limit=number(query, "limit") or 0,
        start=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        bookmarks=truth(query, "allowWatchBookmarks"),
        initial_events=None if initial is None else truth(query, "sendInitialEvents"),
        timeout=number(query, "timeoutSeconds"),
    )
    _check(reading)
    return reading


def _check(reading: Reading) -> None:
    """Refuse what does not go together, as Kubernetes does."""
    problems = list[FieldError]()
    if reading.watch and reading.initial_events is None and reading.match:
        problems.append(
            FieldError("resourceVersionMatch", "is forbidden for a watch without sendInitialEvents")
        )
    if reading.initial_events is not None and not reading.watch:
        problems.append(FieldError("sendInitialEvents", "is forbidden for a list"))
    if reading.initial_events is not None and reading.watch and reading.match != "NotOlderThan":
        problems.append(FieldError("resourceVersionMatch", "must be NotOlderThan with sendInitialEvents"))
    if reading.match and reading.initial_events is None and not reading.watch:
        problems += _match_problems(reading)
    if problems:
        raise InvalidError(f"ListOptions is invalid: {'; '.join(map(str, problems))}", causes=problems)


def _match_problems(reading: Reading) -> list[FieldError]:
    path = "resourceVersionMatch"
    if reading.match not in _MATCHES:
        return [FieldError(path, f"must be {' or '.join(_MATCHES)}, not '{shown(reading.match)}'")]
    if not reading.version:
        return [FieldError(path, "is forbidden without resourceVersion")]
    if reading.start:
        return [FieldError(path, "is forbidden with continue")]
    if reading.match == "Exact" and reading.version == "0":
        return [FieldError(path, "Exact is forbidden for resourceVersion 0")]
    return []


def writing_of(query: QueryParams) -> Writing:
    """The options of a create, an update or a patch."""
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        message = f"must be Ignore, Strict or Warn, not '{shown(validation)}'"
        raise InvalidError(f"fieldValidation: {message}", causes=[FieldError("fieldValidation", message)])
    return Writing(dry_run=dry_run(query.getlist("dryRun")), fields=_VALIDATIONS[validation])


def dry_run(said: list[str]) -> bool:
    """Whether nothing is to be written; there is no other way to rehearse than all of it."""
    if wrong := [value for value in said if value != "All"]:
        message = f"must be All, not '{shown(wrong[0])}'"
        raise InvalidError(f"dryRun: {message}", causes=[FieldError("dryRun", message)])
    return bool(said)


def truth(query: QueryParams, name: str) -> bool:
    """What a query says is so or not; a name without a value says that it is."""
    value = query.get(name)
    if value is None:
        return False
    if not value or value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise BadRequestError(f"{name} must be true or false, not '{shown(value)}'")


def number(query: QueryParams, name: str) -> int | None:
    """A number that a query says, at least 0."""
    value = query.get(name, "")
    if not value:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > _NUMBER_DIGITS:
        raise BadRequestError(f"{name} must be a number of at least 0, not '{shown(value)}'")
    return int(value)
