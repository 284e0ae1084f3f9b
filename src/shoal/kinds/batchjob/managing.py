"""Which pods a Job that goes on makes, and which it sends away."""

from collections.abc import Sequence
from typing import Final

import msgspec

from shoal.cluster.times import seconds
from shoal.controllers.changes import Create, earliest
from shoal.controllers.views import Pod
from shoal.kinds.batchjob.counting import Failures, Tally, counts_as_failed, failures_after
from shoal.kinds.batchjob.pods import IsFree, name_of_index, names, pod_of
from shoal.kinds.batchjob.policy import end_time, ended, taken
from shoal.kinds.batchjob.views import Job, index_of

_FIRST: Final = 10.0
_MOST: Final = 600.0
"""Seconds to wait after a failure: so many after the first, twice as many after each, and never more."""
_AT_ONCE: Final = 500
"""Pods to make in one turn."""
_PHASES: Final = ("Pending", "Unknown", "Running")


class Staff(msgspec.Struct, frozen=True, kw_only=True):
    """Pods to make, pods to delete, and when the next may be made."""

    creates: tuple[Create, ...] = ()
    deletes: tuple[Pod, ...] = ()
    again: float | None = None


class Indexes(msgspec.Struct, frozen=True, kw_only=True):
    """Indexes that are done with, and the pods that ended last of those that are to be run again."""

    closed: frozenset[int] = frozenset()
    last: dict[int, Pod] = {}


def staff(  # noqa: PLR0913 - all that it depends on
    job: Job, counted: Tally, indexes: Indexes, pods: Sequence[Pod], *, is_free: IsFree, now: float
) -> Staff:
    """What to do about the number of pods: first too many go, then those that lack are made."""
    active = [pod for pod in pods if pod.active]
    if job.spec.suspend:
        return Staff(deletes=tuple(active))
    wanted = _wanted(job, counted, len(active))
    too_many = _too_many(job, active, indexes.closed, wanted)
    if too_many:
        return Staff(deletes=too_many)
    leaving = sum(pod.leaving and not ended(pod) for pod in pods) if _waits_for_leavers(job) else 0
    lacking = min(wanted - len(active) - leaving, _AT_ONCE)
    if lacking <= 0:
        return Staff()
    ready_at = None if job.spec.backoff_limit_per_index is not None else _after_failures(job, pods)
    if ready_at is not None and ready_at > now:
        return Staff(again=ready_at)
    if job.indexed:
        return _indexed(job, indexes, pods, lacking, is_free=is_free, now=now)
    free = names(job, len(pods), is_free)
    return Staff(creates=tuple(pod_of(job, next(free)) for _ in range(lacking)))


def _wanted(job: Job, counted: Tally, active: int) -> int:
    """How many pods are to be active."""
    if job.spec.completions is None:
        return active if counted.total_succeeded else job.spec.parallelism
    return max(min(job.spec.completions - counted.total_succeeded, job.spec.parallelism), 0)


def _waits_for_leavers(job: Job) -> bool:
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


# --- too many ----------------------------------------------------------------------------------------------


def _too_many(job: Job, active: list[Pod], closed: frozenset[int], wanted: int) -> tuple[Pod, ...]:
    """Pods that are not needed: those that could never count, then those that have come least far."""
    useless = _useless(job, active, closed) if job.indexed else []
    excess = max(len(active) - wanted - len(useless), 0)
    rest = [pod for pod in active if pod not in useless] if excess else []
    return (*useless, *sorted(rest, key=_progress)[:excess])


def _useless(job: Job, active: list[Pod], closed: frozenset[int]) -> list[Pod]:
    """Pods without an index, of one that is none or is done with, and all but the best of each other."""
    useless: list[Pod] = []
    best: dict[int, Pod] = {}
    for pod in active:
        index = index_of(pod)
        if index is None or index >= job.completions or index in closed:
            useless.append(pod)
        elif index in best:
            worse, best[index] = sorted((best[index], pod), key=_progress)
            useless.append(worse)
        else:
            best[index] = pod
    return useless


def _progress(pod: Pod) -> tuple[bool, int, bool, float, str]:
    """How far a pod has come; the younger of two has come less far."""
    phase = _PHASES.index(pod.status.phase) if pod.status.phase in _PHASES else 0
    made = pod.metadata.creation_timestamp
    return bool(pod.spec.node_name), phase, pod.ready, -seconds(made) if made else 0.0, pod.metadata.name


# --- too few -----------------------------------------------------------------------------------------------


def _indexed(  # noqa: PLR0913 - all that it depends on
    job: Job, indexes: Indexes, pods: Sequence[Pod], lacking: int, *, is_free: IsFree, now: float
) -> Staff:
    """Pods for the lowest indexes that have none. One that is on its way out holds its index to the end."""
    held = {index_of(pod) for pod in pods if not ended(pod)} | indexes.closed
    creates: list[Create] = []
    again: float | None = None
    for index in range(job.completions):
        if len(creates) == lacking:
            break
        if index in held:
            continue
        before = indexes.last.get(index)
        ready_at = _after_failure(job, before) if before else None
        if ready_at is not None and ready_at > now:
            again = earliest(again, ready_at)
            continue
        creates.append(_pod(job, index, before, is_free))
    return Staff(creates=tuple(creates), again=again)


def _pod(job: Job, index: int, before: Pod | None, is_free: IsFree) -> Create:
    failures = failures_after(job, before) if before else Failures()
    annotations = failures.annotations() if job.spec.backoff_limit_per_index is not None else {}
    return pod_of(job, name_of_index(job, index, is_free), index, annotations)


def _after_failures(job: Job, pods: Sequence[Pod]) -> float | None:
    """When a pod may be made after those that failed since the last success; None if none did."""
    ends = [(end_time(pod), pod) for pod in pods if ended(pod)]
    known = [(seconds(time), pod) for time, pod in ends if time is not None]
    success = max((time for time, pod in known if pod.status.phase == "Succeeded"), default=0.0)
    failures = [
        time
        for time, pod in known
        if pod.status.phase == "Failed" and time > success and not taken(pod) and counts_as_failed(job, pod)
    ]
    return _rested(max(failures), len(failures)) if failures else None


def _after_failure(job: Job, pod: Pod) -> float | None:
    """When an index may be run again after a pod of it."""
    time = end_time(pod)
    return None if time is None or taken(pod) else _rested(seconds(time), sum(failures_after(job, pod)))


def _rested(last: float, failures: int) -> float:
    return last + min(_FIRST * 2.0 ** min(failures - 1, 30), _MOST)
