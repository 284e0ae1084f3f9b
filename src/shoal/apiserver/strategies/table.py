"""The rules of every resource, by its full name."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError
from shoal.api.kinds import KINDS, OWN_KINDS
from shoal.apiserver.strategies import budgets, jobs, namespaces, plain, pods, priority, schemas, services
from shoal.apiserver.strategies.strategy import Rules
from shoal.cluster.resources import (
    BUDGETS,
    BY_KIND,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    Object,
    Resource,
)


def _of_view(resource: Resource[Object], thing: Object) -> Iterable[FieldError]:
    """All that the view of `shoal.api` says is wrong."""
    kind = KINDS[resource.api_version, resource.kind]
    try:
        decode(kind.view, thing, check=kind.errors)
    except InvalidObjectError as problem:
        return problem.errors
    return ()


def _pod_errors(pod: Object) -> Iterable[FieldError]:
    yield from _of_view(PODS, pod)
    yield from pods.errors(pod)


def _job_errors(job: Object) -> Iterable[FieldError]:
    yield from _of_view(JOBS, job)
    yield from jobs.errors(job)


def _node_errors(node: Object) -> Iterable[FieldError]:
    yield from _of_view(NODES, node)
    yield from plain.taint_errors(node)


def _class_errors(thing: Object) -> Iterable[FieldError]:
    yield from _of_view(PRIORITY_CLASSES, thing)
    yield from priority.errors(thing)


_TABLE: Final = (
    Rules(
        resource=PODS,
        default=pods.default,
        begin=pods.begin,
        derive=priority.admit_pod,
        errors=_pod_errors,
        frozen=pods.frozen,
        graceful=True,
    ),
    Rules(resource=NODES, default=plain.default_node, errors=_node_errors, keeps_status=True),
    Rules(
        resource=NAMESPACES,
        default=namespaces.default,
        begin=namespaces.begin,
        errors=partial(_of_view, NAMESPACES),
        carry=namespaces.carry,
        guard=namespaces.guard,
        deleting=namespaces.deleting,
        holds=namespaces.holds,
    ),
    Rules(
        resource=SERVICES,
        default=services.default,
        begin=services.begin,
        errors=services.errors,
        frozen=services.frozen,
        created_by_update=True,
    ),
    Rules(resource=CONFIG_MAPS, errors=plain.config_map_errors, frozen=plain.frozen_data),
    Rules(
        resource=SECRETS, default=plain.default_secret, errors=plain.secret_errors, frozen=plain.frozen_secret
    ),
    Rules(
        resource=EVENTS,
        default=plain.default_event,
        errors=plain.event_errors,
        any_finalizers=True,
        created_by_update=True,
    ),
    Rules(
        resource=LEASES,
        default=plain.default_lease,
        errors=plain.lease_errors,
        any_finalizers=True,
        unconditional=False,
        created_by_update=True,
    ),
    Rules(
        resource=PRIORITY_CLASSES,
        default=priority.default_class,
        admit=priority.admit_class,
        errors=_class_errors,
        frozen=priority.frozen_class,
        guard=priority.guard_class,
        counts_changes=False,
    ),
    Rules(
        resource=BUDGETS,
        default=budgets.default,
        begin=budgets.begin,
        errors=partial(_of_view, BUDGETS),
        any_finalizers=True,
        unconditional=False,
    ),
    Rules(
        resource=JOBS,
        default=jobs.default,
        begin=jobs.begin,
        carry=jobs.carry,
        errors=_job_errors,
        frozen=jobs.frozen,
        orphans=True,
    ),
    *(
        Rules(
            resource=BY_KIND[kind.api_version, kind.kind],
            default=schemas.filler(kind),
            errors=partial(schemas.errors, kind),
            custom=True,
            any_finalizers=True,
            unconditional=False,
        )
        for kind in OWN_KINDS
    ),
)
RULES: Final[Mapping[str, Rules]] = {rules.resource.full_name: rules for rules in _TABLE}
