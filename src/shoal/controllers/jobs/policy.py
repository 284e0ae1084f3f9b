"""Policies of a Job: what becomes of a pod that failed, and when enough has succeeded."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from shoal.api.batch import indices
from shoal.controllers.jobs.views import ExitCodes, FailureRule, Job, SuccessRule
from shoal.controllers.views import ContainerStatus, Pod


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
