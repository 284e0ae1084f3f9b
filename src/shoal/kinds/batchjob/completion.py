"""When a Job is finished, and how: in two steps, as in Kubernetes.

First the outcome is decided (FailureTarget, SuccessCriteriaMet), and active pods are deleted. When all pods
have stopped and are counted, the Job is finished (Failed, Complete).
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from shoal.api.indexes import parse_indexes
from shoal.api.managed import JobCondition, ManagedJob, ManagedPod, SuccessRule
from shoal.cluster.times import to_datetime, to_seconds
from shoal.controllers.jobs.ends import has_stopped
from shoal.kinds.batchjob.pods import has_failed, has_tracking_finalizer
from shoal.kinds.batchjob.tracking import PodCounts, match_failure_policy

_FINAL_TYPES: Final = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


def new_condition(kind: str, reason: str, message: str, now: float, status: str = "True") -> JobCondition:
    """Return a condition that begins now."""
    time = to_datetime(now)
    return JobCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_probe_time=time,
        last_transition_time=time,
    )


def terminal_target(
    job: ManagedJob, counts: PodCounts, failed_indexes: frozenset[int], pods: Sequence[ManagedPod], now: float
) -> JobCondition | None:
    """Return the decided outcome of a Job, from its status or new; None while it goes on."""
    decided = job.status.true_condition("SuccessCriteriaMet") or job.status.true_condition("FailureTarget")
    if decided:
        return decided
    for reason, message in _failures(job, counts, failed_indexes, pods, now):
        return new_condition("FailureTarget", reason, message, now)
    for reason, message in _successes(job, counts, pods):
        return new_condition("SuccessCriteriaMet", reason, message, now)
    return None


def final_condition(
    target: JobCondition, counts: PodCounts, pods: Sequence[ManagedPod], now: float
) -> JobCondition | None:
    """Return the final condition of a Job with a decided outcome; None while pods run or are uncounted."""
    left = any(not has_stopped(pod) or has_tracking_finalizer(pod) for pod in pods)
    if left or counts.uncounted.succeeded or counts.uncounted.failed:
        return None
    return new_condition(_FINAL_TYPES[target.type], target.reason, target.message, now)


def deadline(job: ManagedJob) -> float | None:
    """Return until when a Job may run, in seconds since 1970; None if there is no limit."""
    limit, start = job.spec.active_deadline_seconds, job.status.start_time
    return None if limit is None or start is None or job.spec.suspend else to_seconds(start) + limit


# --- failure -----------------------------------------------------------------------------------------------


def _failures(
    job: ManagedJob, counts: PodCounts, failed_indexes: frozenset[int], pods: Sequence[ManagedPod], now: float
) -> Iterator[tuple[str, str]]:
    """Yield the reasons why a Job fails, with a message each, the most important first."""
    for pod in pods:
        match = match_failure_policy(job, pod) if has_tracking_finalizer(pod) and has_failed(pod) else None
        if match and match.action == "FailJob":
            yield "PodFailurePolicy", match.message
    if counts.total_failed > job.spec.backoff_limit or _restarts_exceed_limit(job, pods):
        yield "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    end = deadline(job)
    if end is not None and now >= end:
        yield "DeadlineExceeded", "Job was active longer than specified deadline"
    if job.spec.max_failed_indexes is not None and len(failed_indexes) > job.spec.max_failed_indexes:
        yield "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if failed_indexes and len(failed_indexes | counts.completed) >= job.completions:
        yield "FailedIndexes", "Job has failed indexes"


def _restarts_exceed_limit(job: ManagedJob, pods: Sequence[ManagedPod]) -> bool:
    """Return whether containers that are restarted in their pods have reached the back-off limit."""
    if not job.restarts_containers:
        return False
    restarts = sum(
        one.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for one in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return restarts > 0 and restarts >= job.spec.backoff_limit


# --- success -----------------------------------------------------------------------------------------------


def _successes(job: ManagedJob, counts: PodCounts, pods: Sequence[ManagedPod]) -> Iterator[tuple[str, str]]:
    """Yield the reasons why a Job succeeds, with a message each, the most important first."""
    match = match_success_policy(job, counts.completed) if job.indexed else ""
    if match:
        yield "SuccessPolicy", match
    needed = job.spec.completions if job.spec.completions is not None else 1
    if counts.total_succeeded >= needed and not any(pod.active for pod in pods):
        yield "CompletionsReached", "Reached expected number of succeeded pods"


def match_success_policy(job: ManagedJob, completed: AbstractSet[int]) -> str:
    """Return which rule of the success policy is met, for people; empty if none is."""
    policy = job.spec.success_policy
    for number, rule in enumerate(policy.rules if policy else ()):
        if _is_met(rule, completed, job.completions):
            return f"Matched rules at index {number}"
    return ""


def _is_met(rule: SuccessRule, completed: AbstractSet[int], completions: int) -> bool:
    named = rule.succeeded_indexes
    wanted = set(range(completions)) if named is None else parse_indexes(named, completions)
    needed = len(wanted) if rule.succeeded_count is None else rule.succeeded_count
    return len(wanted & completed) >= needed
