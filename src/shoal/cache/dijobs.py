"""DIJobs as workloads: ranks of one template, or the pods of all tasks."""

from collections.abc import Sequence

from msgspec.structs import replace

from shoal.api.dijob import PRIORITIES, DIJob
from shoal.cache.pod_classes import Book
from shoal.cache.pods import PodRecord, created
from shoal.cache.workload_spec import Elastic, Row, Sketch, Slot, seats, timestamp
from shoal.engine.workload import Reason


def sketch(job: DIJob, book: Book, pods: Sequence[PodRecord], now: float) -> Sketch | None:
    """What a DIJob wants; None when it has ended."""
    spec, status = job.spec, job.status
    if status.phase in ("Succeeded", "Failed"):
        return None
    slots = _tasks(job, book) if spec.tasks else _ranks(job, book, pods)
    nodes = dict(enumerate(status.allocation)) if spec.preemptible else {}
    return Sketch(
        kind="DIJob",
        metadata=job.metadata,
        created=created(job.metadata, now),
        slots=tuple(slots),
        minimum=len(slots) if spec.tasks else min(spec.min_replicas, len(slots)),
        maximum=len(slots) if spec.tasks else spec.maximum,
        elastic=_elastic(job, book) if spec.preemptible and not spec.tasks else None,
        own_priority=PRIORITIES[spec.priority],
        may_borrow=spec.preemptible,
        evictable=spec.preemptible,
        held=Reason("Held", "it is suspended") if spec.suspend else None,
        allocations={slot.name: nodes[slot.number] for slot in slots if slot.number in nodes},
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
    )


def _elastic(job: DIJob, book: Book) -> Elastic:
    """It grows up to its maximum, or to what was asked for through the server."""
    spec, status = job.spec, job.status
    asked = spec.maximum if status.requested_replicas is None else status.requested_replicas
    ceiling = min(max(asked, spec.min_replicas), spec.maximum)
    return Elastic(row=_row(job, book), ceiling=ceiling, records=status.scale_records)


def _row(job: DIJob, book: Book) -> Row:
    meta = job.metadata
    return Row(
        prefix=f"{meta.name}-{job.status.generation}-",
        role="replica",
        blueprint=book.template(meta.namespace, job.spec.template or {}),
    )


def _ranks(job: DIJob, book: Book, pods: Sequence[PodRecord]) -> list[Slot]:
    """A rank whose pod is there, or has succeeded, keeps its pod's name, of whatever generation that is."""
    standing = [pod for pod in pods if not pod.leaving and pod.phase != "Failed"]
    names = {pod.rank: pod.name for pod in sorted(standing, key=lambda pod: (not pod.finished, pod.created))}
    seated = {pod.rank for pod in pods if pod.rank is not None and pod.keeps_place}
    return [replace(slot, name=names.get(slot.number, slot.name)) for slot in _wanted(job, book, seated)]


def _wanted(job: DIJob, book: Book, seated: set[int]) -> list[Slot]:
    """The ranks there are to be: as many as was decided; those that have nodes, and the minimum."""
    spec, status, row = job.spec, job.status, _row(job, book)
    if not spec.preemptible:
        decided = spec.min_replicas if status.replicas is None else status.replicas
        return [row.slot(rank) for rank in range(decided)]
    present = seated | set(range(len(status.allocation)))
    return seats(row, present, spec.min_replicas, status.nominations)


def _tasks(job: DIJob, book: Book) -> list[Slot]:
    meta = job.metadata
    slots = (
        (task, i, blueprint)
        for task in job.spec.tasks
        for blueprint in [book.template(meta.namespace, task.template)]
        for i in range(task.replicas)
    )
    return [
        Slot(name=f"{meta.name}-{task.title}-{i}", role=task.title, blueprint=blueprint, number=rank)
        for rank, (task, i, blueprint) in enumerate(slots)
    ]
