"""Loose pods and gangs of loose pods as workloads, and the pods that batch Jobs are still to make."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, islice
from typing import Final

from shoal.api.batch import Job, indices
from shoal.api.meta import ObjectMeta, OwnerReference
from shoal.cache.pod_classes import Book
from shoal.cache.pods import PodRecord, created
from shoal.cache.workload_spec import Sketch, Slot

_NOTHING: Final[dict[str, str]] = {}
"""Most pods have nothing to say here: they share it."""


def pending_pods(
    job: Job, book: Book, pods: list[PodRecord], is_free: Callable[[str], bool], now: float
) -> Iterator[PodRecord]:
    """Pods that a batch Job wants and has not made yet, under names that are free in its namespace."""
    spec, meta = job.spec, job.metadata
    if spec.suspend or job.finished or meta.deletion_timestamp:
        return
    blueprint = book.template(meta.namespace, spec.template)
    owner = OwnerReference(kind="Job", name=meta.name, uid=meta.uid, controller=True)
    wanted = _indexed(job, pods) if spec.completion_mode == "Indexed" else _counted(job, pods)
    for names, rank in wanted:
        yield PodRecord(
            namespace=meta.namespace,
            name=next(filter(is_free, names)),
            blueprint=blueprint,
            created=created(meta, now),
            owner=owner,
            rank=rank,
        )


def _indexed(job: Job, pods: list[PodRecord]) -> Iterator[tuple[Iterator[str], int]]:
    """The lowest missing indices of an Indexed Job, each with the names its pod may have."""
    spec, name = job.spec, job.metadata.name
    completions = spec.completions or 0
    active = {pod.rank for pod in pods if _is_active(pod)}
    closed = indices(job.status.completed_indexes, completions) | indices(
        job.status.failed_indexes, completions
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


def pod_sketch(pod: PodRecord) -> Sketch:
    """A loose pod as a workload of its own."""
    return _sketch("Pod", pod.name, [pod], 1)


def gang_sketch(name: str, pods: Iterable[PodRecord]) -> Sketch:
    """Pods that start together or not at all, in the order they were made."""
    ordered = sorted(pods, key=lambda pod: (pod.created, pod.name))
    minimum = max(pod.blueprint.gang_min for pod in ordered) or len(ordered)
    return _sketch("Gang", name, ordered, minimum)


def _sketch(kind: str, name: str, pods: list[PodRecord], minimum: int) -> Sketch:
    first = pods[0]
    broken = [pod.broken_since for pod in pods if pod.broken_since is not None]
    return Sketch(
        kind=kind,
        metadata=ObjectMeta(name=name, namespace=first.namespace, labels=_NOTHING, annotations=_NOTHING),
        created=first.created,
        slots=tuple(Slot(name=pod.name, role="pod", blueprint=pod.blueprint) for pod in pods),
        minimum=minimum,
        maximum=len(pods),
        allocations=_NOTHING,
        nominations={pod.name: pod.nominated for pod in pods if pod.nominated} or _NOTHING,
        broken_since=min(broken, default=None),
    )
