"""DIJobs as workloads, and what the scheduler writes into their status.

A job in template form has ranks of one template; a job in tasks form has the pods of all its tasks.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import FINISHED_PHASES
from shoal.engine.workload import Reason
from shoal.kinds.base import PlannedJob
from shoal.kinds.dijob import TYPE
from shoal.kinds.dijob.types import PRIORITIES, DIJob
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import PodRecord, created_at
from shoal.kinds.status import broken_since, lost_tasks, nominations, scale_records
from shoal.kinds.workload_spec import ElasticSpec, Slot, SlotSeries, WorkloadSpec, timestamp


def workload_spec(
    job: DIJob, classes: PodClassCache, pods: Sequence[PodRecord], now: float
) -> WorkloadSpec | None:
    """What a DIJob wants; None when it is finished."""
    spec, status = job.spec, job.status
    if status.phase in FINISHED_PHASES:
        return None
    slots = _task_slots(job, classes) if spec.tasks else _rank_slots(job, classes, pods)
    nodes = dict(enumerate(status.allocation)) if spec.preemptible else {}
    return WorkloadSpec(
        kind=TYPE.kind,
        metadata=job.metadata,
        created=created_at(job.metadata, now),
        slots=tuple(slots),
        minimum=len(slots) if spec.tasks else min(spec.min_replicas, len(slots)),
        maximum=len(slots) if spec.tasks else spec.maximum,
        elastic=_elastic(job, classes) if spec.preemptible and not spec.tasks else None,
        own_priority=PRIORITIES[spec.priority],
        may_borrow=spec.preemptible,
        evictable=spec.preemptible,
        held=Reason("Held", "it is suspended") if spec.suspend else None,
        allocations={slot.name: nodes[slot.number] for slot in slots if slot.number in nodes},
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
    )


def status_after(planned: PlannedJob[DIJob]) -> msgspec.Struct:
    """The status after a plan: the node of each rank if the job is preemptible, else reserved rooms."""
    job, status = planned.job, planned.job.status
    after = replace(
        status,
        nominations=nominations(planned, allocates=job.spec.preemptible),
        broken_since=broken_since(planned),
        scale_records=scale_records(status.scale_records, planned.outcome.resize, planned.now),
    )
    if not job.spec.preemptible:
        return after
    ranks = _rank_nodes(planned)
    return replace(after, allocation=ranks, replicas=sum(map(bool, ranks)))


def allocated_node(job: DIJob, pod: PodRecord) -> str:
    """The node that the status assigns to a rank."""
    nodes = job.status.allocation if job.spec.preemptible else ()
    return nodes[pod.rank] if pod.rank is not None and pod.rank < len(nodes) else ""


def _rank_nodes(planned: PlannedJob[DIJob]) -> tuple[str, ...]:
    """The node of each rank, up to the last rank that has one; "" for a rank without node."""
    nodes = {rank: node for rank, node in enumerate(planned.job.status.allocation) if node}
    for task in lost_tasks(planned):
        nodes.pop(task.number, None)
    nodes |= {task.number: node for task, node in planned.outcome.placed.items()}
    return tuple(nodes.get(rank, "") for rank in range(max(nodes, default=-1) + 1))


def _elastic(job: DIJob, classes: PodClassCache) -> ElasticSpec:
    """It grows up to its maximum, or to the size that was requested through the server."""
    spec, status = job.spec, job.status
    requested = spec.maximum if status.requested_replicas is None else status.requested_replicas
    return ElasticSpec(
        series=_series(job, classes),
        ceiling=min(max(requested, spec.min_replicas), spec.maximum),
        records=status.scale_records,
        sized_by_policy=True,
    )


def _series(job: DIJob, classes: PodClassCache) -> SlotSeries:
    meta = job.metadata
    return SlotSeries(
        prefix=f"{meta.name}-{job.status.generation or 0}-",
        role="replica",
        pod_class=classes.of_template(meta.namespace, job.spec.template or {}),
    )


def _rank_slots(job: DIJob, classes: PodClassCache, pods: Sequence[PodRecord]) -> list[Slot]:
    """Slots of the wanted ranks; a rank whose pod lives or succeeded keeps the name of that pod."""
    standing = [pod for pod in pods if not pod.leaving and pod.phase != "Failed"]
    names = {pod.rank: pod.name for pod in sorted(standing, key=lambda pod: (not pod.finished, pod.created))}
    occupied = {pod.rank for pod in pods if pod.rank is not None and pod.keeps_place}
    return [replace(slot, name=names.get(slot.number, slot.name)) for slot in _wanted(job, classes, occupied)]


def _wanted(job: DIJob, classes: PodClassCache, occupied: set[int]) -> list[Slot]:
    """A non-preemptible job: as many ranks as was decided. Else those with nodes, and the minimum."""
    spec, status, series = job.spec, job.status, _series(job, classes)
    if not spec.preemptible:
        decided = spec.min_replicas if status.replicas is None else status.replicas
        return [series.slot(rank) for rank in range(decided)]
    present = occupied | set(range(len(status.allocation)))
    return series.wanted_slots(present, spec.min_replicas, status.nominations)


def _task_slots(job: DIJob, classes: PodClassCache) -> list[Slot]:
    meta = job.metadata
    slots = (
        (task, i, pod_class)
        for task in job.spec.tasks
        for pod_class in [classes.of_template(meta.namespace, task.template)]
        for i in range(task.replicas)
    )
    return [
        Slot(name=f"{meta.name}-{task.title}-{i}", role=task.title, pod_class=pod_class, number=rank)
        for rank, (task, i, pod_class) in enumerate(slots)
    ]
