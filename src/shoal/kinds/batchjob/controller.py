"""The controller of Jobs: from a Job and its pods to the changes that are due."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import with_condition
from shoal.api.indexes import format_indexes
from shoal.api.managed import JobCondition, ManagedJob, ManagedJobStatus, ManagedPod
from shoal.cluster.events import ObjectEvent, ObjectReference
from shoal.cluster.object_store import Key
from shoal.cluster.resources import JOBS, PODS
from shoal.cluster.times import to_datetime, to_seconds
from shoal.controllers.changes import (
    NO_CHANGES,
    Changes,
    Delete,
    Patch,
    Write,
    delete_object,
    earliest,
    patch_object,
    patch_status_of,
    reference_to,
    status_patch,
)
from shoal.controllers.jobs.ends import has_stopped
from shoal.controllers.resources import JOB, POD
from shoal.controllers.runtime import Controller, Watch
from shoal.controllers.stores import Stores
from shoal.kinds.batchjob.completion import deadline, final_condition, new_condition, terminal_target
from shoal.kinds.batchjob.pods import (
    FINALIZER,
    IsNameFree,
    describe_creates,
    has_tracking_finalizer,
)
from shoal.kinds.batchjob.scaling import IndexState, PodPlan, plan_pods
from shoal.kinds.batchjob.tracking import PodCounts, count_pods, failed_indexes, last_finished_pods

_MANAGED_BY: Final = "kubernetes.io/job-controller"
"""The value of `managedBy` of Jobs that this controller reconciles; others are left alone."""
_JOB_NAME_LABEL: Final = "batch.kubernetes.io/job-name"


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A Job, its pods, pods of a deleted Job of the same name, and which names of pods are free.

    `job` is None if only such orphans are left.
    """

    job: ManagedJob | None
    pods: tuple[ManagedPod, ...] = ()
    orphans: tuple[ManagedPod, ...] = ()
    is_free: IsNameFree = lambda _: True


def reconcile(view: JobView, now: float) -> Changes:
    """Create, delete and count the pods of a Job, and write its status."""
    job = view.job
    orphans = tuple(_release(pod) for pod in view.orphans if pod.terminating or pod.finished)
    if job is None:
        return Changes(stages=(orphans,))
    if job.spec.managed_by not in (None, _MANAGED_BY):
        return NO_CHANGES
    if job.metadata.deletion_timestamp is not None:
        return Changes(stages=((*orphans, *map(_release, filter(has_tracking_finalizer, view.pods))),))
    changes = _clean_up(job, view, now) if job.terminal_condition else _progress(job, view, now)
    return replace(changes, regarding=reference_to(JOBS, job.metadata), stages=(orphans, *changes.stages))


def _release(pod: ManagedPod) -> Patch:
    """Remove the finalizer of a pod that is counted, or that will never be counted."""
    left = [one for one in pod.metadata.finalizers if one != FINALIZER]
    return patch_object(PODS, pod.metadata, {"metadata": {"finalizers": left or None}})


def _delete(pod: ManagedPod) -> Delete:
    return delete_object(PODS, pod.metadata)


# --- finished Jobs -----------------------------------------------------------------------------------------


def _clean_up(job: ManagedJob, view: JobView, now: float) -> Changes:
    """Delete a finished Job when its time to live has passed, and pods that were created too late at once."""
    late: tuple[Write, ...] = (
        *(_delete(pod) for pod in view.pods if pod.active),
        *(_release(pod) for pod in view.pods if has_tracking_finalizer(pod) and has_stopped(pod)),
    )
    final, ttl = job.terminal_condition, job.spec.ttl_seconds_after_finished
    if ttl is None or final is None or final.last_transition_time is None:
        return Changes(stages=(late,))
    due = to_seconds(final.last_transition_time) + ttl
    if now < due:
        return Changes(stages=(late,), requeue_at=due)
    return Changes(stages=(late, (delete_object(JOBS, job.metadata, propagation="Foreground"),)))


# --- unfinished Jobs ---------------------------------------------------------------------------------------


def _progress(job: ManagedJob, view: JobView, now: float) -> Changes:
    failed = failed_indexes(job, view.pods)
    counts = count_pods(job, view.pods)
    indexes = IndexState(closed=counts.completed | failed)
    target = terminal_target(job, counts, failed, view.pods, now)
    if target is None:
        indexes = replace(indexes, last=last_finished_pods(job, view.pods, indexes.closed))
        kept = frozenset(pod.metadata.uid for pod in indexes.last.values())
        counts = count_pods(job, view.pods, kept) if kept else counts
    status = _counted_status(job, counts, failed, view.pods, now)
    if target is not None:
        return _finish(job, view, counts, _set_condition(status, target, now), now)
    plan = plan_pods(job, counts, indexes, view.pods, is_free=view.is_free, now=now)
    status = _suspension(status, suspended=job.spec.suspend, now=now)
    requeue_at = earliest(plan.requeue_at, deadline(replace(job, status=status)))
    return _changes(job, counts, plan, status, requeue_at)


def _set_condition(status: ManagedJobStatus, condition: JobCondition, now: float) -> ManagedJobStatus:
    return replace(status, conditions=with_condition(status.conditions, condition, to_datetime(now)))


def _counted_status(
    job: ManagedJob, counts: PodCounts, failed: frozenset[int], pods: Iterable[ManagedPod], now: float
) -> ManagedJobStatus:
    """Return the status with the current counters."""
    pods, limited = list(pods), job.spec.backoff_limit_per_index is not None
    begins = job.status.start_time is None and not job.spec.suspend
    return replace(
        job.status,
        start_time=to_datetime(now) if begins else job.status.start_time,
        active=sum(pod.active for pod in pods),
        ready=sum(pod.active and pod.ready for pod in pods),
        terminating=sum(pod.terminating and not has_stopped(pod) for pod in pods),
        succeeded=counts.succeeded,
        failed=counts.failed,
        completed_indexes=format_indexes(counts.completed) if job.indexed else "",
        failed_indexes=format_indexes(failed) if limited else job.status.failed_indexes,
        uncounted_terminated_pods=counts.uncounted,
    )


def _finish(
    job: ManagedJob, view: JobView, counts: PodCounts, status: ManagedJobStatus, now: float
) -> Changes:
    """Delete active pods; when all have stopped and are counted, write the final condition."""
    target = status.true_condition("SuccessCriteriaMet") or status.true_condition("FailureTarget")
    final = final_condition(target, counts, view.pods, now) if target else None
    if final is not None:
        completed = final.last_transition_time if final.type == "Complete" else status.completion_time
        status = replace(_set_condition(status, final, now), completion_time=completed)
    plan = PodPlan(deletes=tuple(pod for pod in view.pods if pod.active))
    return _changes(job, counts, plan, status, None)


def _suspension(status: ManagedJobStatus, *, suspended: bool, now: float) -> ManagedJobStatus:
    """Set the Suspended condition; a Job that is resumed gets a new start time."""
    is_written = status.true_condition("Suspended") is not None
    if suspended and not is_written:
        return _set_condition(status, new_condition("Suspended", "JobSuspended", "Job suspended", now), now)
    if is_written and not suspended:
        resumed = new_condition("Suspended", "JobResumed", "Job resumed", now, "False")
        return replace(_set_condition(status, resumed, now), start_time=to_datetime(now))
    return status


def _changes(
    job: ManagedJob, counts: PodCounts, plan: PodPlan, status: ManagedJobStatus, requeue_at: float | None
) -> Changes:
    """First write the status, then remove finalizers, delete and create: see `Changes.stages`."""
    patch = status_patch(job.status, status)
    first = (patch_status_of(JOBS, job.metadata, patch),) if patch else ()
    then: tuple[Write, ...] = (*map(_release, counts.release), *map(_delete, plan.deletes), *plan.creates)
    return Changes(stages=(first, then), events=_events(job, plan, status), requeue_at=requeue_at)


def _events(job: ManagedJob, plan: PodPlan, status: ManagedJobStatus) -> tuple[ObjectEvent, ...]:
    regarding = reference_to(JOBS, job.metadata)
    new = [one for one in status.conditions if one not in job.status.conditions]
    events = [event for one in new for event in _condition_events(regarding, one)]
    if plan.creates:
        message = describe_creates(plan.creates)
        events.append(ObjectEvent(regarding=regarding, reason="SuccessfulCreate", message=message))
    return tuple(events)


def _condition_events(regarding: ObjectReference, new: JobCondition) -> Iterator[ObjectEvent]:
    """Yield the Event of a new condition, if it has one."""
    match new.type:
        case "Complete":
            yield ObjectEvent(regarding=regarding, reason="Completed", message="Job completed")
        case "Failed":
            yield ObjectEvent(regarding=regarding, reason=new.reason, message=new.message, type="Warning")
        case "Suspended":
            reason = new.reason.removeprefix("Job")
            yield ObjectEvent(regarding=regarding, reason=reason, message=new.message)


# --- the controller ----------------------------------------------------------------------------------------


def job_controller(stores: Stores) -> Controller[JobView]:
    """Return the controller of batch Jobs."""
    jobs, pods = stores.of(JOB), stores.of(POD)
    pods_by_job = pods.index(_job_of_pod)

    def get_view(key: Key) -> JobView | None:
        job, found = jobs.items.get(key), pods_by_job[key]
        if job is None and not found:
            return None
        uid = job.metadata.uid if job else None
        owners = [owner.uid if (owner := pod.metadata.controller) else "" for pod in found]
        return JobView(
            job=job,
            pods=tuple(pod for pod, owner in zip(found, owners, strict=True) if owner == uid),
            orphans=tuple(
                pod
                for pod, owner in zip(found, owners, strict=True)
                if owner != uid and has_tracking_finalizer(pod)
            ),
            is_free=lambda name: (key[0], name) not in pods.items,
        )

    return Controller(
        name="job-controller",
        resource=JOB,
        get_view=get_view,
        reconcile=reconcile,
        watches=(Watch(resource=POD, keys=_job_of_pod),),
        size=lambda view: len(view.pods),
    )


def _job_of_pod(pod: ManagedPod) -> Iterator[Key]:
    """Yield the key of the Job of a pod. A pod without an owner, which its Job left behind, has a label."""
    owner = pod.metadata.controller
    if owner is not None and owner.kind == "Job":
        yield pod.metadata.namespace, owner.name
    elif owner is None and has_tracking_finalizer(pod) and _JOB_NAME_LABEL in pod.metadata.labels:
        yield pod.metadata.namespace, pod.metadata.labels[_JOB_NAME_LABEL]
