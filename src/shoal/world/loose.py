"""Loose pods and gangs of loose pods as workloads, and the pods that batch Jobs are still to make."""

from collections.abc import Iterable, Iterator
from itertools import count, islice

from shoal.api.batch import Job, indices
from shoal.api.meta import ObjectMeta, OwnerReference
from shoal.world.book import Book
from shoal.world.pods import PodRecord, created
from shoal.world.sketch import Sketch, Slot


def pending_pods(job: Job, book: Book, pods: list[PodRecord], now: float) -> Iterator[PodRecord]:
    """Pods that a batch Job wants and has not made yet."""
    spec, meta = job.spec, job.metadata
    if spec.suspend or job.finished or meta.deletion_timestamp:
        return
    blueprint = book.template(meta.namespace, spec.template)
    owner = OwnerReference(kind="Job", name=meta.name, uid=meta.uid, controller=True)
    for name, rank in _names(job, pods):
        yield PodRecord(
            namespace=meta.namespace,
            name=name,
            blueprint=blueprint,
            created=created(meta, now),
            owner=owner,
            rank=rank,
        )


def _names(job: Job, pods: list[PodRecord]) -> Iterator[tuple[str, int | None]]:
    spec, name = job.spec, job.metadata.name
    active = [pod for pod in pods if not pod.finished and not pod.leaving]
    done = {pod.rank for pod in pods if pod.phase == "Succeeded"}
    taken = {pod.name for pod in pods}
    if spec.completion_mode == "Indexed":
        closed = indices(job.status.completed_indexes) | indices(job.status.failed_indexes) | done
        open_ = [i for i in range(spec.completions or 0) if i not in closed]
        missing = [i for i in open_ if i not in {pod.rank for pod in active}]
        wanted = min(spec.parallelism, len(open_)) - len(active)
        yield from ((f"{name}-{i}", i) for i in missing[: max(wanted, 0)])
        return
    succeeded = max(job.status.succeeded, sum(pod.phase == "Succeeded" for pod in pods))
    wanted = spec.parallelism
    if spec.completions is not None:
        wanted = min(wanted, spec.completions - succeeded)
    elif succeeded:
        wanted = 0
    names = (f"{name}-{k}" for k in count(len(pods)) if f"{name}-{k}" not in taken)
    yield from ((text, None) for text in islice(names, max(wanted - len(active), 0)))


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
        metadata=ObjectMeta(name=name, namespace=first.namespace),
        created=first.created,
        slots=tuple(Slot(name=pod.name, role="pod", blueprint=pod.blueprint) for pod in pods),
        minimum=minimum,
        maximum=len(pods),
        nominations={pod.name: pod.nominated for pod in pods if pod.nominated},
        broken_since=min(broken, default=None),
    )
