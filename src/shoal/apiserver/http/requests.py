"""Requests: the target of the path, the options of the query, and the context that handlers get."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from shoal.api import registry
from shoal.api.fields import FieldError, shown
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import BadRequestError, InvalidError, NotFoundError
from shoal.cluster.port import Selector
from shoal.cluster.resources import NAMESPACES, PODS, Object, Resource, resources
from shoal.kubelet.runtime import NO_USAGE, Run, UsageReport

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
METRICS_RESOURCES: Final = (NODE_METRICS, POD_METRICS)
"""Resources that are measured on request and not stored."""


def _review(group: str, kind: str, *, namespaced: bool = False) -> Resource[Object]:
    return Resource[Object](
        group=f"{group}.k8s.io",
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=namespaced,
        decode=msgspec.json.decode,
    )


REVIEWS: Final = (
    _review("authorization", "LocalSubjectAccessReview", namespaced=True),
    _review("authorization", "SelfSubjectAccessReview"),
    _review("authorization", "SelfSubjectRulesReview"),
    _review("authorization", "SubjectAccessReview"),
    _review("authentication", "SelfSubjectReview"),
    _review("authentication", "TokenReview"),
)
"""Questions about the caller and its permissions: they are created to be answered, and not stored."""

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
"""Collection to which bindings can be posted without the pod in the path; the body has its name."""

_POD_SUBRESOURCES: Final = {
    BINDING: frozenset({"POST"}),
    EVICTION: frozenset({"POST"}),
    LOG: frozenset({"GET"}),
    EXEC: frozenset({"GET", "POST"}),
}
"""Subresources of pods and their methods, besides status."""

_UNSUPPORTED_SUBRESOURCES: Final = {
    ATTACH: frozenset({"GET", "POST"}),
    PORT_FORWARD: frozenset({"GET", "POST"}),
}
"""Subresources of pods that are refused with an explanation."""

_COLLECTION_METHODS: Final = frozenset({"GET", "POST"})
"""Methods of a collection, without DELETE (deletecollection)."""


@registry.cached_by_kinds
def served_resources() -> tuple[Resource[Object], ...]:
    """Return all resources that the API serves."""
    return (*resources(), *METRICS_RESOURCES, *REVIEWS)


@registry.cached_by_kinds
def _by_path() -> dict[tuple[str, str, str], Resource[Object]]:
    return {(resource.group, resource.version, resource.plural): resource for resource in served_resources()}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Target of a request: a collection, one object by `name`, or a `subresource` of it."""

    resource: Resource[Object]
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def raw_resource(self) -> Resource[bytes]:
        """The resource with its objects as the stored JSON text."""
        return self.resource.read_as(bytes)

    @property
    def methods(self) -> frozenset[str]:
        """Allowed methods."""
        if self.resource in METRICS_RESOURCES:
            return frozenset({"GET"})
        if self.resource in REVIEWS:
            return frozenset() if self.name else frozenset({"POST"})
        if self.subresource:
            return (_POD_SUBRESOURCES | _UNSUPPORTED_SUBRESOURCES).get(
                self.subresource, frozenset({"GET", "PUT", "PATCH"})
            )
        if self.name:
            return frozenset({"GET", "PUT", "PATCH", "DELETE"})
        if self.resource.namespaced and not self.namespace:
            return frozenset({"GET"})
        return _COLLECTION_METHODS if self.resource is NAMESPACES else _COLLECTION_METHODS | {"DELETE"}


def subresources_of(resource: Resource[Any]) -> tuple[str, ...]:
    """Return the subresources of a resource."""
    pods = _POD_SUBRESOURCES if resource is PODS else ()
    return (*pods, *((STATUS,) if resource.status else ()))


def parse_path(path: str) -> Target | None:
    """Return the target of a path; None if it does not exist."""
    match path.strip("/").split("/"):
        case [root, version, *rest] if root == _CORE_ROOT:
            return _target_in_group("", version, rest)
        case [root, group, version, *rest] if root == _GROUP_ROOT and group:
            return _target_in_group(group, version, rest)
    return None


def _target_in_group(group: str, version: str, steps: Sequence[str]) -> Target | None:
    match steps:
        case [first, name, subresource] if first == _NAMESPACES and subresource in subresources_of(
            NAMESPACES
        ):
            return _target(group, version, "", [first, name, subresource])
        case [first, namespace, _, *_] if first == _NAMESPACES and namespace:
            return _target(group, version, namespace, steps[2:])
    return _target(group, version, "", steps)


def _target(group: str, version: str, namespace: str, steps: Sequence[str]) -> Target | None:
    if namespace and (group, *steps) == ("", BINDINGS):
        return Target(resource=PODS, namespace=namespace, subresource=BINDING)
    plural, name, subresource, *more = (*steps, "", "", "")[: max(len(steps), 3)]
    resource = _by_path().get((group, version, plural))
    if resource is None or more or "" in steps or (namespace and not resource.namespaced):
        return None
    if name and resource.namespaced and not namespace:
        return None
    if (
        subresource
        and subresource not in subresources_of(resource)
        and not (resource is PODS and subresource in _UNSUPPORTED_SUBRESOURCES)
    ):
        return None
    return Target(resource=resource, namespace=namespace, name=name, subresource=subresource)


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


class ListOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a list or watch."""

    selector: Selector
    watch: bool
    limit: int
    continue_token: str
    version: str
    version_match: str
    allow_bookmarks: bool
    send_initial_events: bool | None
    timeout: float | None


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a create, update or patch."""

    dry_run: bool
    field_validation: FieldValidation


def parse_list_options(query: QueryParams, namespace: str = "", name: str = "") -> ListOptions:
    """Parse the options of a list or watch; with `name`, of a single object (as old kubectl watches one)."""
    fields = query.get("fieldSelector", "")
    if name:
        fields = ",".join(filter(None, [f"metadata.name={name}", fields]))
    initial = query.get("sendInitialEvents")
    options = ListOptions(
        selector=Selector(namespace, query.get("labelSelector", ""), fields),
        watch=bool_param(query, "watch"),
        limit=int_param(query, "limit") or 0,
        continue_token=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        version_match=query.get("resourceVersionMatch", ""),
        allow_bookmarks=bool_param(query, "allowWatchBookmarks"),
        send_initial_events=None if initial is None else bool_param(query, "sendInitialEvents"),
        timeout=int_param(query, "timeoutSeconds"),
    )
    _check_list_options(options)
    return options


def _check_list_options(options: ListOptions) -> None:
    """Refuse combinations of options that Kubernetes refuses."""
    errors = list[FieldError]()
    if options.watch and options.send_initial_events is None and options.version_match:
        errors.append(
            FieldError("resourceVersionMatch", "is forbidden for a watch without sendInitialEvents")
        )
    if options.send_initial_events is not None and not options.watch:
        errors.append(FieldError("sendInitialEvents", "is forbidden for a list"))
    if options.send_initial_events is not None and options.watch and options.version_match != "NotOlderThan":
        errors.append(FieldError("resourceVersionMatch", "must be NotOlderThan with sendInitialEvents"))
    if options.version_match and options.send_initial_events is None and not options.watch:
        errors += _version_match_errors(options)
    if errors:
        raise InvalidError(f"ListOptions is invalid: {'; '.join(map(str, errors))}", causes=errors)


def _version_match_errors(options: ListOptions) -> list[FieldError]:
    path = "resourceVersionMatch"
    if options.version_match not in _MATCHES:
        return [FieldError(path, f"must be {' or '.join(_MATCHES)}, not '{shown(options.version_match)}'")]
    if not options.version:
        return [FieldError(path, "is forbidden without resourceVersion")]
    if options.continue_token:
        return [FieldError(path, "is forbidden with continue")]
    if options.version_match == "Exact" and options.version == "0":
        return [FieldError(path, "Exact is forbidden for resourceVersion 0")]
    return []


def parse_write_options(query: QueryParams) -> WriteOptions:
    """Parse the options of a create, update or patch."""
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        message = f"must be Ignore, Strict or Warn, not '{shown(validation)}'"
        raise InvalidError(f"fieldValidation: {message}", causes=[FieldError("fieldValidation", message)])
    return WriteOptions(
        dry_run=parse_dry_run(query.getlist("dryRun")), field_validation=_VALIDATIONS[validation]
    )


def parse_dry_run(values: list[str]) -> bool:
    """Parse dryRun; its only value is All."""
    if wrong := [value for value in values if value != "All"]:
        message = f"must be All, not '{shown(wrong[0])}'"
        raise InvalidError(f"dryRun: {message}", causes=[FieldError("dryRun", message)])
    return bool(values)


def bool_param(query: QueryParams, name: str) -> bool:
    """Parse a boolean parameter; without a value it is true, absent it is false."""
    value = query.get(name)
    if value is None:
        return False
    if not value or value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise BadRequestError(f"{name} must be true or false, not '{shown(value)}'")


def int_param(query: QueryParams, name: str) -> int | None:
    """Parse a non-negative integer parameter; None if it is absent."""
    value = query.get(name, "")
    if not value:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > _NUMBER_DIGITS:
        raise BadRequestError(f"{name} must be an integer of at least 0, not '{shown(value)}'")
    return int(value)


class Kubelet(Protocol):
    """The kubelet as the API server sees it: containers for logs and exec, and resource usage."""

    def find_run(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> Run:  # noqa: FBT001, FBT002 - signature of the agent
        """Return the latest run of a container, or the one before it; ClusterError if there is none."""
        ...

    def usage(self) -> UsageReport:
        """Return the last measurement."""
        ...


class NoKubelet:
    """Kubelet of an API server without nodes of its own."""

    def find_run(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> Run:  # noqa: ARG002, FBT001, FBT002
        raise NotFoundError(f'no kubelet runs here: pod "{pod}" has no running container "{container}"')

    def usage(self) -> UsageReport:
        return NO_USAGE


NO_KUBELET: Final[Kubelet] = NoKubelet()


NAME: Final = "name"
"""Attribute of `request.state` with the name of the object in the body, once it is known."""


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """A request for an existing path, with all that a handler needs."""

    request: Request
    target: Target
    registry: Registry
    kubelet: Kubelet
    clock: Callable[[], float]
    stopping: asyncio.Event
    """Set at shutdown; streaming responses must end then."""
