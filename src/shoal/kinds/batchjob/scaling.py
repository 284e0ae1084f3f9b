"""Which pods an unfinished Job creates, and which active pods it deletes."""

from collections.abc import Sequence
from typing import Final

import msgspec

from shoal.api.managed import ManagedJob, ManagedPod
from shoal.cluster.backoff import Backoff
from shoal.cluster.times import to_seconds
from shoal.controllers.changes import Create, earliest
from shoal.controllers.jobs.ends import finish_time, has_stopped
from shoal.kinds.batchjob.pods import (
    IsNameFree,
    completion_index,
    create_pod,
    free_name_of_index,
    free_names,
    was_disrupted,
)
from shoal.kinds.batchjob.tracking import IndexFailures, PodCounts, counts_as_failed, failures_after

_BACKOFF: Final = Backoff(10.0, 600.0)
"""Seconds between a failure and the next pod."""
_BATCH_SIZE: Final = 500
"""Pods to create in one reconcile."""
_PHASES: Final = ("Pending", "Unknown", "Running")
"""Phases of active pods, in order of progress."""


class PodPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Pods to create, pods to delete, and when the next may be created."""

    creates: tuple[Create, ...] = ()
    deletes: tuple[ManagedPod, ...] = ()
    requeue_at: float | None = None


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """Indexes that have succeeded or failed for good, and the last pods of those that are to be retried."""

    closed: frozenset[int] = frozenset()
    last: dict[int, ManagedPod] = {}


def plan_pods(  # noqa: PLR0913 - all that it depends on
    job: ManagedJob,
    counts: PodCounts,
    indexes: IndexState,
    pods: Sequence[ManagedPod],
    *,
    is_free: IsNameFree,
    now: float,
) -> PodPlan:
    """Bring the number of active pods to the wanted one: surplus pods are deleted before any is created."""
    active = [pod for pod in pods if pod.active]
    if job.spec.suspend:
        return PodPlan(deletes=tuple(active))
    wanted = _wanted(job, counts, len(active))
    surplus = _surplus_pods(job, active, indexes.closed, wanted)
    if surplus:
        return PodPlan(deletes=surplus)
    terminating = (
        sum(pod.terminating and not has_stopped(pod) for pod in pods) if _waits_for_terminating(job) else 0
    )
    missing = min(wanted - len(active) - terminating, _BATCH_SIZE)
    if missing <= 0:
        return PodPlan()
    ready_at = None if job.spec.backoff_limit_per_index is not None else _backoff_end(job, pods)
    if ready_at is not None and ready_at > now:
        return PodPlan(requeue_at=ready_at)
    if job.indexed:
        return _plan_indexed(job, indexes, pods, missing, is_free=is_free, now=now)
    names = free_names(job, len(pods), is_free)
    return PodPlan(creates=tuple(create_pod(job, next(names)) for _ in range(missing)))


def _wanted(job: ManagedJob, counts: PodCounts, active: int) -> int:
    """Return how many pods are to be active."""
    if job.spec.completions is None:
        return active if counts.total_succeeded else job.spec.parallelism
    return max(min(job.spec.completions - counts.total_succeeded, job.spec.parallelism), 0)


def _waits_for_terminating(job: ManagedJob) -> bool:
    """Return whether a terminating pod is replaced only when it has stopped."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


# --- surplus pods ------------------------------------------------------------------------------------------


def _surplus_pods(
    job: ManagedJob, active: list[ManagedPod], closed: frozenset[int], wanted: int
) -> tuple[ManagedPod, ...]:
    """Return pods that are not needed: those that could never count, then those with the least progress."""
    useless = _useless_pods(job, active, closed) if job.indexed else []
    excess = max(len(active) - wanted - len(useless), 0)
    rest = [pod for pod in active if pod not in useless] if excess else []
    return (*useless, *sorted(rest, key=_progress)[:excess])


def _useless_pods(job: ManagedJob, active: list[ManagedPod], closed: frozenset[int]) -> list[ManagedPod]:
    """Return pods without a valid index or of a closed one, and all but the best pod of each open index."""
    useless: list[ManagedPod] = []
    best: dict[int, ManagedPod] = {}
    for pod in active:
        index = completion_index(pod)
        if index is None or index >= job.completions or index in closed:
            useless.append(pod)
        elif index in best:
            worse, best[index] = sorted((best[index], pod), key=_progress)
            useless.append(worse)
        else:
            best[index] = pod
    return useless


def _progress(pod: ManagedPod) -> tuple[bool, int, bool, float, str]:
    """Sort key by progress; the younger of two pods in the same state has made less."""
    phase = _PHASES.index(pod.status.phase) if pod.status.phase in _PHASES else 0
    created = pod.metadata.creation_timestamp
    age = -to_seconds(created) if created else 0.0
    return bool(pod.spec.node_name), phase, pod.ready, age, pod.metadata.name


# --- missing pods ------------------------------------------------------------------------------------------


def _plan_indexed(  # noqa: PLR0913 - all that it depends on
    job: ManagedJob,
    indexes: IndexState,
    pods: Sequence[ManagedPod],
    missing: int,
    *,
    is_free: IsNameFree,
    now: float,
) -> PodPlan:
    """Create pods for the lowest indexes without one. A terminating pod holds its index until it stops."""
    held = {completion_index(pod) for pod in pods if not has_stopped(pod)} | indexes.closed
    creates: list[Create] = []
    requeue_at: float | None = None
    for index in range(job.completions):
        if len(creates) == missing:
            break
        if index in held:
            continue
        previous = indexes.last.get(index)
        ready_at = _index_backoff_end(job, previous) if previous else None
        if ready_at is not None and ready_at > now:
            requeue_at = earliest(requeue_at, ready_at)
            continue
        creates.append(_create_indexed(job, index, previous, is_free))
    return PodPlan(creates=tuple(creates), requeue_at=requeue_at)


def _create_indexed(job: ManagedJob, index: int, previous: ManagedPod | None, is_free: IsNameFree) -> Create:
    failures = failures_after(job, previous) if previous else IndexFailures()
    annotations = failures.annotations() if job.spec.backoff_limit_per_index is not None else {}
    return create_pod(job, free_name_of_index(job, index, is_free), index, annotations)


def _backoff_end(job: ManagedJob, pods: Sequence[ManagedPod]) -> float | None:
    """Return when the back-off after the failures since the last success ends; None if there were none."""
    ends = [(finish_time(pod), pod) for pod in pods if has_stopped(pod)]
    known = [(to_seconds(time), pod) for time, pod in ends if time is not None]
    success = max((time for time, pod in known if pod.status.phase == "Succeeded"), default=0.0)
    failures = [
        time
        for time, pod in known
        if pod.status.phase == "Failed"
        and time > success
        and not was_disrupted(pod)
        and counts_as_failed(job, pod)
    ]
    return max(failures) + _BACKOFF.delay(len(failures)) if failures else None


def _index_backoff_end(job: ManagedJob, pod: ManagedPod) -> float | None:
    """Return when the back-off of an index after its last pod ends; None if there is none."""
    time = finish_time(pod)
    if time is None or was_disrupted(pod):
        return None
    return to_seconds(time) + _BACKOFF.delay(sum(failures_after(job, pod)))
