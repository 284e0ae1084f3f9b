"""Clean-up of a finished job: pods by its policy, service and host files in every case, at last itself."""

from typing import Any, TypeVar

from shoal.api.managed import ManagedConfigMap, ManagedService
from shoal.cluster.resources import CONFIG_MAPS, PODS, SERVICES, Resource
from shoal.cluster.times import to_seconds
from shoal.controllers.changes import Changes, Write, delete_object, reference_to
from shoal.controllers.jobs.ends import has_stopped
from shoal.controllers.jobs.pods import pod_events
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
    uids = {pod.metadata.uid for pod in deleted}
    released = (pod for pod in view.pods if is_tracked(pod) and pod.metadata.uid not in uids)
    writes: tuple[Write, ...] = (
        *(delete_object(PODS, pod.metadata) for pod in deleted),
        *(release(pod) for pod in released if has_stopped(pod)),
        *(delete_object(SERVICES, service.metadata) for service in _live(view.service)),
        *(delete_object(CONFIG_MAPS, hosts.metadata) for hosts in _live(view.hosts)),
    )
    events = tuple(
        pod_events(reference_to(resource, job.metadata), "Deleted", [pod.metadata.name for pod in deleted])
    )
    ttl, completed = job.spec.ttl_seconds_after_finished, job.status.completion_timestamp
    if ttl is None or completed is None:
        return Changes(stages=(writes,), events=events)
    due = to_seconds(completed) + ttl
    if now < due:
        return Changes(stages=(writes,), events=events, requeue_at=due)
    end = delete_object(resource, job.metadata, propagation="Background")
    return Changes(stages=(writes, (end,)), events=events)


def _live(one: T | None) -> tuple[T, ...]:
    return (one,) if one and one.metadata.deletion_timestamp is None else ()
