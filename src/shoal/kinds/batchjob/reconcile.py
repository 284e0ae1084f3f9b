"""The pure heart of the controller: from a Job and its pods to what is to be done.

How the controller of Jobs is put together: which objects it reads, and which wake it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.cluster.events import Note, Reference
from shoal.cluster.object_store import Key
from shoal.cluster.port import Deletion
from shoal.cluster.resources import JOBS, PODS
from shoal.cluster.times import moment, seconds
from shoal.controllers.changes import (
    NOTHING,
    Changes,
    Delete,
    Patch,
    PatchStatus,
    Write,
    earliest,
    status_patch,
)
from shoal.controllers.runtime import Controller, Wake
from shoal.controllers.stores import Stores
from shoal.controllers.views import POD, Pod, reference
from shoal.kinds.batchjob.counting import FINALIZER, Tally, failed_indexes, last_ended, tally, tracked
from shoal.kinds.batchjob.managing import Indexes, Staff, staff
from shoal.kinds.batchjob.pods import IsFree, described
from shoal.kinds.batchjob.policy import ended
from shoal.kinds.batchjob.verdict import condition, deadline_of, last, target, with_condition
from shoal.kinds.batchjob.views import JOB, Job, JobCondition, JobStatus, written

OURS: Final = "kubernetes.io/job-controller"


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A Job, if it is there, its pods, pods of an earlier Job of its name, and which names are free."""

    job: Job | None
    pods: tuple[Pod, ...] = ()
    orphans: tuple[Pod, ...] = ()
    is_free: IsFree = lambda _: True


def reconcile(view: View, now: float) -> Changes:
    """What is to be done about a Job."""
    job, orphans = view.job, tuple(_release(pod) for pod in view.orphans if pod.leaving or pod.finished)
    if job is None:
        return Changes(stages=(orphans,))
    if job.spec.managed_by not in (None, OURS):
        return NOTHING
    if job.metadata.deletion_timestamp is not None:
        return Changes(stages=((*orphans, *map(_release, filter(tracked, view.pods))),))
    changes = _aftermath(job, view, now) if job.finished else _progress(job, view, now)
    return replace(changes, about=reference(JOBS, job.metadata), stages=(orphans, *changes.stages))


def _release(pod: Pod) -> Patch:
    """Let a pod go that is counted, or that nobody counts."""
    metadata = pod.metadata
    left = [one for one in metadata.finalizers if one != FINALIZER]
    return Patch(
        resource=PODS,
        name=metadata.name,
        namespace=metadata.namespace,
        patch={"metadata": {"finalizers": left or None}},
        version=metadata.resource_version,
    )


def _delete(pod: Pod) -> Delete:
    metadata = pod.metadata
    return Delete(resource=PODS, name=metadata.name, namespace=metadata.namespace, how=metadata.this_one)


# --- after the end -----------------------------------------------------------------------------------------


def _aftermath(job: Job, view: View, now: float) -> Changes:
    """A Job that is over goes when its time has come; a pod that came too late goes at once."""
    late: tuple[Write, ...] = (
        *(_delete(pod) for pod in view.pods if pod.active),
        *(_release(pod) for pod in view.pods if tracked(pod) and ended(pod)),
    )
    over, ttl = job.finished, job.spec.ttl_seconds_after_finished
    if ttl is None or over is None or over.last_transition_time is None:
        return Changes(stages=(late,))
    due = seconds(over.last_transition_time) + ttl
    if now < due:
        return Changes(stages=(late,), again=due)
    how = Deletion(uid=job.metadata.uid, propagation="Foreground")
    away = Delete(resource=JOBS, name=job.metadata.name, namespace=job.metadata.namespace, how=how)
    return Changes(stages=(late, (away,)))


# --- on the way --------------------------------------------------------------------------------------------


def _progress(job: Job, view: View, now: float) -> Changes:
    given_up = failed_indexes(job, view.pods)
    counted = tally(job, view.pods)
    indexes = Indexes(closed=counted.completed | given_up)
    decided = target(job, counted, given_up, view.pods, now)
    if decided is None:
        indexes = replace(indexes, last=last_ended(job, view.pods, indexes.closed))
        kept = frozenset(pod.metadata.uid for pod in indexes.last.values())
        counted = tally(job, view.pods, kept) if kept else counted
    status = _counted(job, counted, given_up, view.pods, now)
    if decided is not None:
        return _ending(job, view, counted, with_condition(status, decided), now)
    plan = staff(job, counted, indexes, view.pods, is_free=view.is_free, now=now)
    status = _suspension(status, suspended=job.spec.suspend, now=now)
    again = earliest(plan.again, deadline_of(replace(job, status=status)))
    return _changes(job, counted, plan, status, again)


def _counted(
    job: Job, counted: Tally, given_up: frozenset[int], pods: Iterable[Pod], now: float
) -> JobStatus:
    """The status with what is known of the pods."""
    pods, limited = list(pods), job.spec.backoff_limit_per_index is not None
    begins = job.status.start_time is None and not job.spec.suspend
    return replace(
        job.status,
        start_time=moment(now) if begins else job.status.start_time,
        active=sum(pod.active for pod in pods),
        ready=sum(pod.active and pod.ready for pod in pods),
        terminating=sum(pod.leaving and not ended(pod) for pod in pods),
        succeeded=counted.succeeded,
        failed=counted.failed,
        completed_indexes=written(counted.completed) if job.indexed else "",
        failed_indexes=written(given_up) if limited else job.status.failed_indexes,
        uncounted_terminated_pods=counted.uncounted,
    )


def _ending(job: Job, view: View, counted: Tally, status: JobStatus, now: float) -> Changes:
    """Send away what still runs; when nothing is left, say that it is over."""
    decided = status.condition("SuccessCriteriaMet") or status.condition("FailureTarget")
    over = last(decided, counted, view.pods, now) if decided else None
    if over is not None:
        done = over.last_transition_time if over.type == "Complete" else status.completion_time
        status = replace(with_condition(status, over), completion_time=done)
    plan = Staff(deletes=tuple(pod for pod in view.pods if pod.active))
    return _changes(job, counted, plan, status, None)


def _suspension(status: JobStatus, *, suspended: bool, now: float) -> JobStatus:
    """Say that a job is suspended, or that it is no more: then its time begins anew."""
    is_said = status.condition("Suspended") is not None
    if suspended and not is_said:
        return with_condition(status, condition("Suspended", "JobSuspended", "Job suspended", now))
    if is_said and not suspended:
        resumed = condition("Suspended", "JobResumed", "Job resumed", now, "False")
        return replace(with_condition(status, resumed), start_time=moment(now))
    return status


def _changes(job: Job, counted: Tally, plan: Staff, status: JobStatus, again: float | None) -> Changes:
    """First what is to be remembered, then what it makes superfluous and what is new."""
    patch = status_patch(job.status, status)
    metadata = job.metadata
    remember = PatchStatus(
        resource=JOBS,
        name=metadata.name,
        namespace=metadata.namespace,
        patch={"status": patch},
        version=metadata.resource_version,
    )
    then: tuple[Write, ...] = (*map(_release, counted.release), *map(_delete, plan.deletes), *plan.creates)
    return Changes(stages=((remember,) if patch else (), then), notes=_notes(job, plan, status), again=again)


def _notes(job: Job, plan: Staff, status: JobStatus) -> tuple[Note, ...]:
    about = reference(JOBS, job.metadata)
    new = [one for one in status.conditions if one not in job.status.conditions]
    notes = [note for one in new for note in _told(about, one)]
    if plan.creates:
        notes.append(Note(about=about, reason="SuccessfulCreate", message=described(plan.creates)))
    return tuple(notes)


def _told(about: Reference, new: JobCondition) -> Iterator[Note]:
    """What people are told of a condition."""
    match new.type:
        case "Complete":
            yield Note(about=about, reason="Completed", message="Job completed")
        case "Failed":
            yield Note(about=about, reason=new.reason, message=new.message, type="Warning")
        case "Suspended":
            yield Note(about=about, reason=new.reason.removeprefix("Job"), message=new.message)


_LABEL = "batch.kubernetes.io/job-name"


def job_controller(stores: Stores) -> Controller[View]:
    """The controller of batch Jobs."""
    jobs, pods = stores.of(JOB), stores.of(POD)
    by_job = pods.index(_jobs)

    def look(key: Key) -> View | None:
        job, found = jobs.items.get(key), by_job[key]
        if job is None and not found:
            return None
        uid = job.metadata.uid if job else None
        owners = [owner.uid if (owner := pod.metadata.controller) else "" for pod in found]
        return View(
            job=job,
            pods=tuple(pod for pod, owner in zip(found, owners, strict=True) if owner == uid),
            orphans=tuple(
                pod for pod, owner in zip(found, owners, strict=True) if owner != uid and tracked(pod)
            ),
            is_free=lambda name: (key[0], name) not in pods.items,
        )

    return Controller(
        name="job-controller",
        resource=JOB,
        look=look,
        reconcile=reconcile,
        wakes=(Wake(resource=POD, keys=_jobs),),
        size=lambda view: len(view.pods),
    )


def _jobs(pod: Pod) -> Iterator[Key]:
    """The Job that a pod belongs to; one that was left behind by its Job is told by its label."""
    owner = pod.metadata.controller
    if owner is not None and owner.kind == "Job":
        yield pod.metadata.namespace, owner.name
    elif owner is None and tracked(pod) and _LABEL in pod.metadata.labels:
        yield pod.metadata.namespace, pod.metadata.labels[_LABEL]
