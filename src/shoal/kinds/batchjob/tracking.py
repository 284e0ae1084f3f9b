"""Tracking of finished pods: each is counted once, and the failure policy decides how.

A pod is counted as long as it has its finalizer, and its finalizer stays until the count is written. So it
does not matter when the controller is killed, or which pods are deleted.

With a limit per index, the number of failures of an index is kept in annotations of its pods: the pod that
failed last is kept until the next pod of its index has been created, which carries the number on.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from shoal.api.indexes import parse_indexes
from shoal.api.managed import ContainerStatus, ExitCodes, FailureRule, ManagedJob, ManagedPod, UncountedPods
from shoal.controllers.jobs.ends import has_stopped
from shoal.kinds.batchjob.pods import (
    completion_index,
    has_failed,
    has_tracking_finalizer,
    number_annotation,
    was_disrupted,
)

_BATCH_SIZE: Final = 500
"""Pods that are counted in one reconcile: so that their uids fit into the status."""
_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


# --- the failure policy ------------------------------------------------------------------------------------


class FailurePolicyMatch(NamedTuple):
    """The action of the rule that matches a failed pod, and a message that says why it matches."""

    action: str
    message: str


def match_failure_policy(job: ManagedJob, pod: ManagedPod) -> FailurePolicyMatch | None:
    """Return the first rule that matches a failed pod; None if none does, and the failure just counts."""
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate(policy.rules if policy else ()):
        match = _match(rule, pod)
        if match:
            return FailurePolicyMatch(rule.action, f"{match} matching {rule.action} rule at index {number}")
    return None


def _match(rule: FailureRule, pod: ManagedPod) -> str:
    """Return what of a pod matches a rule, for people; empty if nothing does."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes:
        statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        code, container = next(_matching_codes(rule.on_exit_codes, statuses), (0, ""))
        return f"Container {container} for pod {name} failed with exit code {code}" if code else ""
    for condition in pod.status.conditions:
        if any(
            (one.type, one.status) == (condition.type, condition.status) for one in rule.on_pod_conditions
        ):
            return f"Pod {name} has condition {condition.type}"
    return ""


def _matching_codes(rule: ExitCodes, statuses: tuple[ContainerStatus, ...]) -> Iterator[tuple[int, str]]:
    for status in statuses:
        code = status.state.terminated.exit_code if status.state.terminated else 0
        applies = rule.container_name in (None, status.name)
        if code and applies and (code in rule.values) == (rule.operator == "In"):
            yield code, status.name


def counts_as_failed(job: ManagedJob, pod: ManagedPod) -> bool:
    """Return whether a pod that ended without success counts as a failure of the Job.

    Once the Job is about to fail, its last pods have failed with it, however they ended.
    """
    if job.status.true_condition("FailureTarget"):
        return True
    if was_disrupted(pod):
        return False
    match = match_failure_policy(job, pod)
    return match is None or match.action != "Ignore"


# --- counting ----------------------------------------------------------------------------------------------


class PodCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of finished pods. Once `uncounted` is written, the finalizers of `release` may be removed."""

    succeeded: int
    failed: int
    completed: frozenset[int]
    uncounted: UncountedPods
    release: tuple[ManagedPod, ...]

    @property
    def total_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted.succeeded)

    @property
    def total_failed(self) -> int:
        return self.failed + len(self.uncounted.failed)


def count_pods(job: ManagedJob, pods: Sequence[ManagedPod], kept: frozenset[str] = frozenset()) -> PodCounts:
    """Count finished pods; pods whose uid is in `kept` are counted later."""
    tracked = [pod for pod in pods if has_tracking_finalizer(pod)]
    release = tuple(pod for pod in tracked if has_stopped(pod) and pod.metadata.uid not in kept)[:_BATCH_SIZE]
    uids = {pod.metadata.uid for pod in tracked}
    old = job.status.uncounted_terminated_pods
    recorded = {*old.succeeded, *old.failed}
    completed = parse_indexes(job.status.completed_indexes, job.completions) if job.indexed else set[int]()
    succeeded = [uid for uid in old.succeeded if uid in uids]
    failed = [uid for uid in old.failed if uid in uids]
    released = (len(old.succeeded) - len(succeeded), len(old.failed) - len(failed))
    for pod in release:
        if pod.metadata.uid in recorded:
            continue
        index = completion_index(pod)
        if job.indexed and (index is None or index >= job.completions):
            continue
        if pod.status.phase != "Succeeded":
            failed += [pod.metadata.uid] if counts_as_failed(job, pod) else []
        elif job.indexed and index is not None:
            completed.add(index)
        else:
            succeeded.append(pod.metadata.uid)
    return PodCounts(
        succeeded=len(completed) if job.indexed else job.status.succeeded + released[0],
        failed=job.status.failed + released[1],
        completed=frozenset(completed),
        uncounted=UncountedPods(succeeded=tuple(succeeded), failed=tuple(failed)),
        release=release,
    )


# --- failures per index ------------------------------------------------------------------------------------


class IndexFailures(NamedTuple):
    """How often pods of an index have failed, and how often such a failure was ignored."""

    counted: int = 0
    ignored: int = 0

    def annotations(self) -> dict[str, str]:
        """Return the annotations of the next pod of the index."""
        ignored = {_IGNORED: str(self.ignored)} if self.ignored else {}
        return {_FAILURES: str(self.counted)} | ignored


def failures_before(pod: ManagedPod) -> IndexFailures:
    """Return the failures of an index before a pod of it was created."""
    return IndexFailures(number_annotation(pod, _FAILURES), number_annotation(pod, _IGNORED))


def failures_after(job: ManagedJob, pod: ManagedPod) -> IndexFailures:
    """Return the failures of an index, including its pod, which has ended."""
    before = failures_before(pod)
    if was_disrupted(pod):
        return before
    if counts_as_failed(job, pod):
        return before._replace(counted=before.counted + 1)
    return before._replace(ignored=before.ignored + 1)


def failed_indexes(job: ManagedJob, pods: Iterable[ManagedPod]) -> frozenset[int]:
    """Return the indexes that have failed for good."""
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        return frozenset()
    failed = parse_indexes(job.status.failed_indexes or "", job.completions)
    for pod in pods:
        index = completion_index(pod)
        if has_tracking_finalizer(pod) and has_failed(pod) and index is not None and index < job.completions:
            match = match_failure_policy(job, pod)
            fails_index = match is not None and match.action == "FailIndex"
            if fails_index or failures_after(job, pod).counted > limit:
                failed.add(index)
    return frozenset(failed)


def last_finished_pods(
    job: ManagedJob, pods: Sequence[ManagedPod], closed: frozenset[int]
) -> dict[int, ManagedPod]:
    """Return the pod that ended last of each index that is still to be retried."""
    if job.spec.backoff_limit_per_index is None:
        return {}
    running = {completion_index(pod) for pod in pods if not has_stopped(pod)}
    last: dict[int, ManagedPod] = {}
    for pod in pods:
        index = completion_index(pod)
        if index is None or index in running or index in closed:
            continue
        if not has_stopped(pod) or not has_tracking_finalizer(pod) or pod.status.phase == "Succeeded":
            continue
        if index not in last or sum(failures_before(pod)) >= sum(failures_before(last[index])):
            last[index] = pod
    return last
