"""How pods end: by themselves, or because they were taken away.

Counts pods that have ended, each once.

A pod is counted as long as it has its finalizer, and its finalizer stays until the count is written. So it is
of no matter who is killed when, or which pods somebody deletes.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from shoal.api.batch import indices
from shoal.controllers.views import Pod
from shoal.kinds.batchjob.policy import ended, judged, taken
from shoal.kinds.batchjob.views import Job, Uncounted, index_of

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
_AT_ONCE: Final = 500
"""How many pods are counted in one turn: a status has room for so many uids."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods have ended how, once `uncounted` is written; then `release` may lose their finalizers."""

    succeeded: int
    failed: int
    completed: frozenset[int]
    uncounted: Uncounted
    release: tuple[Pod, ...]

    @property
    def total_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted.succeeded)

    @property
    def total_failed(self) -> int:
        return self.failed + len(self.uncounted.failed)


def tracked(pod: Pod) -> bool:
    """Whether a pod waits to be counted."""
    return FINALIZER in pod.metadata.finalizers


def counts_as_failed(job: Job, pod: Pod) -> bool:
    """Whether a pod that ended without success is a failure of the job.

    Once the job is given up, whatever it was that ended its last pods, they have failed with it.
    """
    if job.status.condition("FailureTarget"):
        return True
    judgement = None if taken(pod) else judged(job, pod)
    return not taken(pod) and (judgement is None or judgement.action != "Ignore")


def tally(job: Job, pods: Sequence[Pod], kept: frozenset[str] = frozenset()) -> Tally:
    """Count; pods whose uid is in `kept` are counted later."""
    waiting = [pod for pod in pods if tracked(pod)]
    release = tuple(pod for pod in waiting if ended(pod) and pod.metadata.uid not in kept)[:_AT_ONCE]
    uids = {pod.metadata.uid for pod in waiting}
    old = job.status.uncounted_terminated_pods
    noted = {*old.succeeded, *old.failed}
    completed = indices(job.status.completed_indexes, job.completions) if job.indexed else set[int]()
    succeeded = [uid for uid in old.succeeded if uid in uids]
    failed = [uid for uid in old.failed if uid in uids]
    for pod in release:
        if pod.metadata.uid in noted:
            continue
        index = index_of(pod)
        if job.indexed and (index is None or index >= job.completions):
            continue
        if pod.status.phase != "Succeeded":
            failed += [pod.metadata.uid] if counts_as_failed(job, pod) else []
        elif job.indexed and index is not None:
            completed.add(index)
        else:
            succeeded.append(pod.metadata.uid)
    settled = len(old.succeeded) - sum(uid in uids for uid in old.succeeded)
    return Tally(
        succeeded=len(completed) if job.indexed else job.status.succeeded + settled,
        failed=job.status.failed + len(old.failed) - sum(uid in uids for uid in old.failed),
        completed=frozenset(completed),
        uncounted=Uncounted(succeeded=tuple(succeeded), failed=tuple(failed)),
        release=release,
    )


_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


class Failures(NamedTuple):
    """How often pods of an index have failed, and how often that was ignored."""

    counted: int = 0
    ignored: int = 0

    def annotations(self) -> dict[str, str]:
        """What the next pod of the index says."""
        ignored = {_IGNORED: str(self.ignored)} if self.ignored else {}
        return {_FAILURES: str(self.counted)} | ignored


def failures_before(pod: Pod) -> Failures:
    """How often the index of a pod had failed when the pod was made."""
    return Failures(*(_number(pod.metadata.annotations.get(key, "")) for key in (_FAILURES, _IGNORED)))


def failures_after(job: Job, pod: Pod) -> Failures:
    """How often it has failed with the pod, which has ended."""
    before = failures_before(pod)
    if taken(pod):
        return before
    if counts_as_failed(job, pod):
        return before._replace(counted=before.counted + 1)
    return before._replace(ignored=before.ignored + 1)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0  # noqa: PLR2004 - int32


def failed_indexes(job: Job, pods: Iterable[Pod]) -> frozenset[int]:
    """The indexes that are given up."""
    limit = job.spec.backoff_limit_per_index
    if limit is None:
        return frozenset()
    found = indices(job.status.failed_indexes or "", job.completions)
    for pod in pods:
        index = index_of(pod)
        if tracked(pod) and _has_failed(pod) and index is not None and index < job.completions:
            judgement = judged(job, pod)
            given_up = judgement is not None and judgement.action == "FailIndex"
            if given_up or failures_after(job, pod).counted > limit:
                found.add(index)
    return frozenset(found)


def _has_failed(pod: Pod) -> bool:
    return ended(pod) and pod.status.phase != "Succeeded" and not taken(pod)


def last_ended(job: Job, pods: Sequence[Pod], closed: frozenset[int]) -> dict[int, Pod]:
    """The pod that ended last of each index that has yet to be run again."""
    if job.spec.backoff_limit_per_index is None:
        return {}
    running = {index_of(pod) for pod in pods if not ended(pod)}
    found: dict[int, Pod] = {}
    for pod in pods:
        index = index_of(pod)
        if index is None or index in running or index in closed or not ended(pod) or not tracked(pod):
            continue
        if pod.status.phase != "Succeeded" and (
            index not in found or sum(failures_before(pod)) >= sum(failures_before(found[index]))
        ):
            found[index] = pod
    return found
