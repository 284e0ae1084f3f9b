"""Counts pods that have ended, each once.

A pod is counted as long as it has its finalizer, and its finalizer stays until the count is written. So it is
of no matter who is killed when, or which pods somebody deletes.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from shoal.api.batch import indices
from shoal.controllers.jobs.ends import ended, taken
from shoal.controllers.jobs.indexes import index_of
from shoal.controllers.jobs.policy import judged
from shoal.controllers.jobs.views import Job, Uncounted
from shoal.controllers.views import Pod

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
