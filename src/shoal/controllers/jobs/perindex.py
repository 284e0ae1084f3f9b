"""Jobs with a limit for each index: how often an index has failed is written on its pods.

The pod that failed last is kept until the next one of its index has been made, and carries the number on.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from shoal.api.batch import indices
from shoal.controllers.jobs.counting import counts_as_failed, tracked
from shoal.controllers.jobs.ends import ended, taken
from shoal.controllers.jobs.indexes import index_of
from shoal.controllers.jobs.policy import judged
from shoal.controllers.jobs.views import Job
from shoal.controllers.views import Pod

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
