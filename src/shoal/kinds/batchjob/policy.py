"""Jobs with a limit for each index: how often an index has failed is written on its pods.

The pod that failed last is kept until the next one of its index has been made, and carries the number on.

Policies of a Job: what becomes of a pod that failed, and when enough has succeeded.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import NamedTuple

from shoal.api.batch import indices
from shoal.controllers.views import DISRUPTION, ContainerStatus, Pod
from shoal.kinds.batchjob.views import ExitCodes, FailureRule, Job, SuccessRule


def ended(pod: Pod) -> bool:
    """Whether nothing of a pod runs any more.

    Its node says so by its phase. A pod that is being deleted without any time left has no node, or its node
    has let go of it, or somebody has given both up.
    """
    return pod.finished or (pod.leaving and pod.metadata.deletion_grace_period_seconds in (0, None))


def taken(pod: Pod) -> bool:
    """Whether a pod was taken away: by the scheduler, with its node, or by somebody's hand.

    One whose containers had failed when it was deleted was not. Where both happened within one second, where
    the pod was given time to end, or where nobody knows, the deletion came first.
    """
    if pod.status.phase == "Succeeded":
        return False
    if pod.has(DISRUPTION):
        return True
    asked = pod.metadata.deletion_timestamp
    if asked is None or not pod.finished:
        return asked is not None
    if pod.metadata.deletion_grace_period_seconds:
        return True
    stopped = _containers_stopped(pod)
    return stopped is None or stopped >= asked


def end_time(pod: Pod) -> datetime | None:
    """When a pod ended, as far as it is known; when it was made, else."""
    unready = next((c for c in pod.status.conditions if c.type == "Ready" and c.status == "False"), None)
    known = (
        _containers_stopped(pod),
        unready.last_transition_time if unready else None,
        _asked_to_leave(pod),
        pod.metadata.creation_timestamp,
    )
    return next((time for time in known if time is not None), None)


def _containers_stopped(pod: Pod) -> datetime | None:
    """When the last container ended, if all have."""
    ends = [
        one.state.terminated.finished_at if one.state.terminated else None
        for one in pod.status.container_statuses
    ]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def _asked_to_leave(pod: Pod) -> datetime | None:
    metadata = pod.metadata
    if metadata.deletion_timestamp is None:
        return None
    return metadata.deletion_timestamp - timedelta(seconds=metadata.deletion_grace_period_seconds or 0)


class Judgement(NamedTuple):
    """What a rule says about a pod that failed, and why."""

    action: str
    why: str


def judged(job: Job, pod: Pod) -> Judgement | None:
    """What the first rule says that is about this pod; None if none is, and it just counts."""
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate(policy.rules if policy else ()):
        why = _match(rule, pod)
        if why:
            return Judgement(rule.action, f"{why} matching {rule.action} rule at index {number}")
    return None


def _match(rule: FailureRule, pod: Pod) -> str:
    """What of a pod a rule is about; nothing if it is about others."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes:
        statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        code, container = next(_codes(rule.on_exit_codes, statuses), (0, ""))
        return f"Container {container} for pod {name} failed with exit code {code}" if code else ""
    for condition in pod.status.conditions:
        if any(
            (one.type, one.status) == (condition.type, condition.status) for one in rule.on_pod_conditions
        ):
            return f"Pod {name} has condition {condition.type}"
    return ""


def _codes(rule: ExitCodes, statuses: tuple[ContainerStatus, ...]) -> Iterator[tuple[int, str]]:
    for status in statuses:
        code = status.state.terminated.exit_code if status.state.terminated else 0
        meant = rule.container_name in (None, status.name)
        if code and meant and (code in rule.values) == (rule.operator == "In"):
            yield code, status.name


def enough(job: Job, completed: AbstractSet[int]) -> str:
    """What says that the completed indexes are enough; nothing if they are not."""
    policy = job.spec.success_policy
    for number, rule in enumerate(policy.rules if policy else ()):
        if _suffices(rule, completed, job.completions):
            return f"Matched rules at index {number}"
    return ""


def _suffices(rule: SuccessRule, completed: AbstractSet[int], completions: int) -> bool:
    named = rule.succeeded_indexes
    wanted = set(range(completions)) if named is None else indices(named, completions)
    needed = len(wanted) if rule.succeeded_count is None else rule.succeeded_count
    return len(wanted & completed) >= needed
