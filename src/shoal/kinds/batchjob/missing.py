"""Pods that a batch Job is still to create, for planning ahead."""

from collections.abc import Callable, Iterator
from itertools import chain, count, islice

from shoal.api.batch import Job
from shoal.api.indexes import parse_indexes
from shoal.api.meta import OwnerReference
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import PodRecord, created_at


def missing_pods(
    job: Job, classes: PodClassCache, pods: list[PodRecord], is_free: Callable[[str], bool], now: float
) -> Iterator[PodRecord]:
    """Pods that a batch Job wants and has not created yet, under names that are free in its namespace."""
    spec, meta = job.spec, job.metadata
    if spec.suspend or job.finished or meta.deletion_timestamp:
        return
    pod_class = classes.of_template(meta.namespace, spec.template)
    owner = OwnerReference(kind="Job", name=meta.name, uid=meta.uid, controller=True)
    wanted = _indexed(job, pods) if spec.completion_mode == "Indexed" else _counted(job, pods)
    for names, rank in wanted:
        yield PodRecord(
            namespace=meta.namespace,
            name=next(filter(is_free, names)),
            pod_class=pod_class,
            created=created_at(meta, now),
            owner=owner,
            rank=rank,
        )


def _indexed(job: Job, pods: list[PodRecord]) -> Iterator[tuple[Iterator[str], int]]:
    """The lowest missing indices of an Indexed Job, each with the names its pod may have."""
    spec, name = job.spec, job.metadata.name
    completions = spec.completions or 0
    active = {pod.rank for pod in pods if _is_active(pod)}
    closed = parse_indexes(job.status.completed_indexes, completions) | parse_indexes(
        job.status.failed_indexes or "", completions
    )
    closed |= {pod.rank for pod in pods if pod.phase == "Succeeded" and pod.rank is not None}
    open_ = [index for index in range(completions) if index not in closed]
    wanted = min(spec.parallelism, len(open_)) - sum(map(_is_active, pods))
    missing = (index for index in open_ if index not in active)
    for index in islice(missing, max(wanted, 0)):
        yield chain([f"{name}-{index}"], (f"{name}-{index}-{k}" for k in count())), index


def _counted(job: Job, pods: list[PodRecord]) -> Iterator[tuple[Iterator[str], None]]:
    """As many as the Job still wants, with names counted on from the pods it has."""
    spec = job.spec
    succeeded = max(job.status.succeeded, sum(pod.phase == "Succeeded" for pod in pods))
    wanted = spec.parallelism
    if spec.completions is not None:
        wanted = min(wanted, spec.completions - succeeded)
    elif succeeded:
        wanted = 0
    names = (f"{job.metadata.name}-{k}" for k in count(len(pods)))
    for _ in range(wanted - sum(map(_is_active, pods))):
        yield names, None


def _is_active(pod: PodRecord) -> bool:
    return not pod.finished and not pod.leaving
