"""DIJobs as workloads: ranks of one template, or the pods of all tasks."""

from collections.abc import Sequence

from shoal.api.dijob import PRIORITIES, DIJob
from shoal.scheduling.shape import Reason
from shoal.world.book import Book
from shoal.world.pods import PodRecord
from shoal.world.sketch import Sketch, Slot, timestamp, with_lowest


def sketch(job: DIJob, book: Book, pods: Sequence[PodRecord]) -> Sketch | None:
    """What a DIJob wants; None when it has ended."""
    spec, status = job.spec, job.status
    if status.phase in ("Succeeded", "Failed"):
        return None
    slots = _ranks(job, book, pods) if spec.template is not None else _tasks(job, book)
    return Sketch(
        kind="DIJob",
        metadata=job.metadata,
        slots=slots,
        minimum=len(slots) if spec.tasks else min(spec.min_replicas, len(slots)),
        maximum=len(slots) if spec.tasks else spec.maximum,
        elastic=spec.preemptible and not spec.tasks,
        own_priority=PRIORITIES[spec.priority],
        may_borrow=spec.preemptible,
        held=Reason("Held", "it is suspended") if spec.suspend else None,
        allocations=_allocations(slots, status.allocation) if spec.preemptible else {},
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
    )


def _ranks(job: DIJob, book: Book, pods: Sequence[PodRecord]) -> tuple[Slot, ...]:
    """A rank that exists keeps its pod's name, of whatever generation that is."""
    meta, template = job.metadata, job.spec.template or {}
    names = {pod.rank: pod.name for pod in sorted(pods, key=lambda pod: (not pod.leaving, pod.name))}
    staying = {pod.rank for pod in pods if pod.rank is not None and not pod.leaving}
    blueprint = book.template(meta.namespace, template)
    return tuple(
        Slot(
            name=names.get(rank, f"{meta.name}-{job.status.generation}-{rank}"),
            role="replica",
            blueprint=blueprint,
        )
        for rank in _wanted(job, staying)
    )


def _wanted(job: DIJob, present: set[int]) -> list[int]:
    """The ranks there are to be: as many as was decided; those allocated or present, and the minimum."""
    spec, status = job.spec, job.status
    if not spec.preemptible:
        return list(range(spec.min_replicas if status.replicas is None else status.replicas))
    return with_lowest(present | set(range(len(status.allocation))), spec.min_replicas)


def _tasks(job: DIJob, book: Book) -> tuple[Slot, ...]:
    meta = job.metadata
    return tuple(
        Slot(
            name=f"{meta.name}-{task.title}-{i}",
            role=task.title,
            blueprint=book.template(meta.namespace, task.template),
        )
        for task in job.spec.tasks
        for i in range(task.replicas)
    )


def _allocations(slots: tuple[Slot, ...], nodes: tuple[str, ...]) -> dict[str, str]:
    return {slot.name: node for slot, node in zip(slots, nodes, strict=False)}
