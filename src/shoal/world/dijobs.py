"""DIJobs as workloads: ranks of one template, or the pods of all tasks."""

from collections.abc import Sequence

from shoal.api.dijob import PRIORITIES, DIJob
from shoal.scheduling.reasons import Reason
from shoal.world.book import Book
from shoal.world.pods import PodRecord, created
from shoal.world.sketch import Sketch, Slot, timestamp, with_lowest


def sketch(job: DIJob, book: Book, pods: Sequence[PodRecord], now: float) -> Sketch | None:
    """What a DIJob wants; None when it has ended."""
    spec, status = job.spec, job.status
    if status.phase in ("Succeeded", "Failed"):
        return None
    slots = _ranks(job, book, pods) if spec.template is not None else _tasks(job, book)
    nodes = dict(enumerate(status.allocation)) if spec.preemptible else {}
    return Sketch(
        kind="DIJob",
        metadata=job.metadata,
        created=created(job.metadata, now),
        slots=tuple(slots.values()),
        minimum=len(slots) if spec.tasks else min(spec.min_replicas, len(slots)),
        maximum=len(slots) if spec.tasks else spec.maximum,
        elastic=spec.preemptible and not spec.tasks,
        own_priority=PRIORITIES[spec.priority],
        may_borrow=spec.preemptible,
        evictable=spec.preemptible,
        held=Reason("Held", "it is suspended") if spec.suspend else None,
        allocations={slot.name: nodes[rank] for rank, slot in slots.items() if rank in nodes},
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
    )


def _ranks(job: DIJob, book: Book, pods: Sequence[PodRecord]) -> dict[int, Slot]:
    """A rank whose pod is there, or has succeeded, keeps its pod's name, of whatever generation that is."""
    meta, blueprint = job.metadata, book.template(job.metadata.namespace, job.spec.template or {})
    standing = [pod for pod in pods if not pod.leaving and pod.phase != "Failed"]
    names = {pod.rank: pod.name for pod in sorted(standing, key=lambda pod: (not pod.finished, pod.created))}
    seated = {pod.rank for pod in standing if pod.rank is not None and pod.keeps_place}
    return {
        rank: Slot(
            name=names.get(rank, f"{meta.name}-{job.status.generation}-{rank}"),
            role="replica",
            blueprint=blueprint,
        )
        for rank in _wanted(job, seated)
    }


def _wanted(job: DIJob, seated: set[int]) -> list[int]:
    """The ranks there are to be: as many as was decided; those that have nodes, and the minimum."""
    spec, status = job.spec, job.status
    if not spec.preemptible:
        return list(range(spec.min_replicas if status.replicas is None else status.replicas))
    return with_lowest(seated | set(range(len(status.allocation))), spec.min_replicas)


def _tasks(job: DIJob, book: Book) -> dict[int, Slot]:
    meta = job.metadata
    slots = (
        Slot(
            name=f"{meta.name}-{task.title}-{i}",
            role=task.title,
            blueprint=book.template(meta.namespace, task.template),
        )
        for task in job.spec.tasks
        for i in range(task.replicas)
    )
    return dict(enumerate(slots))
