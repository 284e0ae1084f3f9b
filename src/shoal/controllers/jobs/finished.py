"""Clean-up of a finished job: pods by its policy, service and host files in every case, at last itself."""

from typing import Any, TypeVar

from shoal.api.managed import ManagedConfigMap, ManagedService
from shoal.cluster.resources import CONFIG_MAPS, PODS, SERVICES, Resource
from shoal.cluster.times import to_seconds
from shoal.controllers.changes import Changes, Write, delete_object
from shoal.controllers.jobs.ends import has_stopped
from shoal.controllers.jobs.tracking import is_tracked, release
from shoal.controllers.jobs.view import J, JobView

T = TypeVar("T", bound=ManagedService | ManagedConfigMap)


def clean_up(resource: Resource[Any], job: J, view: JobView[J], now: float) -> Changes:
    """Return the deletions of a finished job."""
    policy = job.clean_pod_policy
    deleted = [
        pod
        for pod in view.pods
        if not pod.terminating and (policy == "All" or (policy == "Running" and not pod.finished))
    ]
    writes: tuple[Write, ...] = (
        *(delete_object(PODS, pod.metadata) for pod in deleted),
        *(release(pod) for pod in view.pods if is_tracked(pod) and has_stopped(pod) and pod not in deleted),
        *(delete_object(SERVICES, service.metadata) for service in _live(view.service)),
        *(delete_object(CONFIG_MAPS, hosts.metadata) for hosts in _live(view.hosts)),
    )
    ttl, completed = job.spec.ttl_seconds_after_finished, job.status.completion_timestamp
    if ttl is None or completed is None:
        return Changes(stages=(writes,))
    due = to_seconds(completed) + ttl
    if now < due:
        return Changes(stages=(writes,), requeue_at=due)
    return Changes(stages=(writes, (delete_object(resource, job.metadata, propagation="Background"),)))


def _live(one: T | None) -> tuple[T, ...]:
    return (one,) if one and one.metadata.deletion_timestamp is None else ()
