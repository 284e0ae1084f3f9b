"""When a Job is over, and how: in two steps, as Kubernetes has it.

First it is decided (FailureTarget, SuccessCriteriaMet), and what still runs is sent away. When nothing is
left and everything is counted, it is over (Failed, Complete).
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from shoal.cluster.times import moment, seconds
from shoal.controllers.views import Pod
from shoal.kinds.batchjob.counting import Tally, tracked
from shoal.kinds.batchjob.policy import ended, enough, judged, taken
from shoal.kinds.batchjob.views import Job, JobCondition, JobStatus

_LAST: Final = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


def condition(kind: str, reason: str, message: str, now: float, status: str = "True") -> JobCondition:
    """A condition that begins now."""
    time = moment(now)
    return JobCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_probe_time=time,
        last_transition_time=time,
    )


def with_condition(status: JobStatus, new: JobCondition) -> JobStatus:
    """A status with a condition, in the place of the one of its type."""
    others = [new if one.type == new.type else one for one in status.conditions]
    if new not in others:
        others.append(new)
    return msgspec.structs.replace(status, conditions=tuple(others))


def target(
    job: Job, counted: Tally, failed_indexes: frozenset[int], pods: Sequence[Pod], now: float
) -> JobCondition | None:
    """What a job is about to become, decided before or now; None while it goes on."""
    decided = job.status.condition("SuccessCriteriaMet") or job.status.condition("FailureTarget")
    if decided:
        return decided
    for reason, message in _failures(job, counted, failed_indexes, pods, now):
        return condition("FailureTarget", reason, message, now)
    for reason, message in _successes(job, counted, pods):
        return condition("SuccessCriteriaMet", reason, message, now)
    return None


def _failures(
    job: Job, counted: Tally, failed_indexes: frozenset[int], pods: Sequence[Pod], now: float
) -> Iterator[tuple[str, str]]:
    for pod in pods:
        judgement = judged(job, pod) if tracked(pod) and _failed(pod) else None
        if judgement and judgement.action == "FailJob":
            yield "PodFailurePolicy", judgement.why
    if counted.total_failed > job.spec.backoff_limit or _restarted_too_often(job, pods):
        yield "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    deadline = deadline_of(job)
    if deadline is not None and now >= deadline:
        yield "DeadlineExceeded", "Job was active longer than specified deadline"
    if job.spec.max_failed_indexes is not None and len(failed_indexes) > job.spec.max_failed_indexes:
        yield "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if failed_indexes and len(failed_indexes | counted.completed) >= job.completions:
        yield "FailedIndexes", "Job has failed indexes"


def _failed(pod: Pod) -> bool:
    return ended(pod) and pod.status.phase != "Succeeded" and not taken(pod)


def _restarted_too_often(job: Job, pods: Sequence[Pod]) -> bool:
    """Whether containers that are started again in their pods have failed more often than they may."""
    if not job.restarts:
        return False
    restarts = sum(
        one.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for one in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return restarts > 0 and restarts >= job.spec.backoff_limit


def _successes(job: Job, counted: Tally, pods: Sequence[Pod]) -> Iterator[tuple[str, str]]:
    why = enough(job, counted.completed) if job.indexed else ""
    if why:
        yield "SuccessPolicy", why
    needed = job.spec.completions if job.spec.completions is not None else 1
    if counted.total_succeeded >= needed and not any(pod.active for pod in pods):
        yield "CompletionsReached", "Reached expected number of succeeded pods"


def deadline_of(job: Job) -> float | None:
    """Until when a job may run."""
    limit, start = job.spec.active_deadline_seconds, job.status.start_time
    return None if limit is None or start is None or job.spec.suspend else seconds(start) + limit


def last(decided: JobCondition, counted: Tally, pods: Sequence[Pod], now: float) -> JobCondition | None:
    """The end of a job for which it is decided; None while something is left of it."""
    left = any(not ended(pod) or tracked(pod) for pod in pods)
    uncounted = counted.uncounted.succeeded or counted.uncounted.failed
    if left or uncounted:
        return None
    return condition(_LAST[decided.type], decided.reason, decided.message, now)
