"""The strategy of every resource, by its full name."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from shoal.api import kinds, registry
from shoal.api.decode import decode
from shoal.api.fields import FieldError, InvalidObjectError
from shoal.apiserver.strategies import core, pods, schemas, workloads
from shoal.apiserver.strategies.strategy import Strategy
from shoal.cluster.resources import (
    BUDGETS,
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
    by_kind,
)


def _view_errors(resource: Resource[Object], obj: Object) -> Iterable[FieldError]:
    """Return the errors that the typed view of the kind finds."""
    kind = kinds.by_name()[resource.api_version, resource.kind]
    try:
        decode(kind.view, obj, check=kind.errors)
    except InvalidObjectError as problem:
        return problem.errors
    return ()


def _pod_errors(pod: Object) -> Iterable[FieldError]:
    yield from _view_errors(PODS, pod)
    yield from pods.pod_errors(pod)


def _job_errors(job: Object) -> Iterable[FieldError]:
    yield from _view_errors(JOBS, job)
    yield from workloads.job_errors(job)


def _node_errors(node: Object) -> Iterable[FieldError]:
    yield from _view_errors(NODES, node)
    yield from core.taint_errors(node)


def _class_errors(obj: Object) -> Iterable[FieldError]:
    yield from _view_errors(PRIORITY_CLASSES, obj)
    yield from workloads.priority_class_errors(obj)


_CORE: Final = (
    Strategy(
        resource=PODS,
        default=pods.default_pod,
        prepare_for_create=pods.prepare_pod_create,
        derive=workloads.set_pod_priority,
        validate=_pod_errors,
        validate_update=pods.pod_update_errors,
        graceful_deletion=True,
    ),
    Strategy(resource=NODES, default=core.default_node, validate=_node_errors, allow_status_on_create=True),
    Strategy(
        resource=NAMESPACES,
        default=core.default_namespace,
        prepare_for_create=core.prepare_namespace_create,
        validate=partial(_view_errors, NAMESPACES),
        prepare_for_update=core.prepare_namespace_update,
        check_delete=core.check_namespace_delete,
        prepare_for_delete=core.prepare_namespace_delete,
        blocks_deletion=core.namespace_blocks_deletion,
    ),
    Strategy(
        resource=SERVICES,
        default=core.default_service,
        prepare_for_create=core.prepare_service_create,
        validate=core.service_errors,
        validate_update=core.service_update_errors,
        allow_create_on_update=True,
    ),
    Strategy(resource=CONFIG_MAPS, validate=core.config_map_errors, validate_update=core.data_update_errors),
    Strategy(
        resource=SECRETS,
        default=core.default_secret,
        validate=core.secret_errors,
        validate_update=core.secret_update_errors,
    ),
    Strategy(
        resource=EVENTS,
        default=core.default_event,
        validate=core.event_errors,
        allow_unqualified_finalizers=True,
        allow_create_on_update=True,
    ),
    Strategy(
        resource=LEASES,
        default=core.default_lease,
        validate=core.lease_errors,
        allow_unqualified_finalizers=True,
        allow_unconditional_update=False,
        allow_create_on_update=True,
    ),
    Strategy(
        resource=PRIORITY_CLASSES,
        default=workloads.default_priority_class,
        admit=workloads.check_single_default,
        validate=_class_errors,
        validate_update=workloads.priority_class_update_errors,
        check_delete=workloads.check_priority_class_delete,
        bump_generation=False,
    ),
    Strategy(
        resource=BUDGETS,
        default=workloads.default_budget,
        prepare_for_create=workloads.prepare_budget_create,
        validate=partial(_view_errors, BUDGETS),
        allow_unqualified_finalizers=True,
        allow_unconditional_update=False,
    ),
    Strategy(
        resource=JOBS,
        default=workloads.default_job,
        prepare_for_create=workloads.prepare_job_create,
        prepare_for_update=workloads.prepare_job_update,
        validate=_job_errors,
        validate_update=workloads.job_update_errors,
        orphan_by_default=True,
    ),
)


@registry.cached_by_kinds
def strategies() -> Mapping[str, Strategy]:
    """Return the strategies of all resources by full name: built-in kinds, then our own kinds."""
    own = (
        Strategy(
            resource=by_kind()[kind.api_version, kind.kind],
            validate=partial(schemas.custom_resource_errors, kind),
            validate_update=partial(schemas.custom_resource_update_errors, kind),
            custom_resource=True,
            allow_unqualified_finalizers=True,
            allow_unconditional_update=False,
        )
        for kind in registry.kinds()
    )
    return {strategy.resource.full_name: strategy for strategy in (*_CORE, *own)}
