"""DIJobs as workloads, and what the scheduler writes into their status.

A job in template form has ranks of one template: a pod's name has the generation and the rank, and the
scheduler decides which ranks a preemptible one has. A job in tasks form has the pods of all its tasks; its
controller decides on their ranks, and the scheduler does not look at these.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.names import parse_small_int
from shoal.kinds.base import PlannedJob
from shoal.kinds.dijob import TYPE
from shoal.kinds.dijob.types import PRIORITIES, DIJob
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import PodRecord, created_at
from shoal.kinds.status import common_fields, scale_records
from shoal.kinds.workload_spec import (
    SUSPENDED,
    ElasticSpec,
    Slot,
    SlotSeries,
    WorkloadSpec,
    timestamp,
)


def workload_spec(
    job: DIJob, classes: PodClassCache, pods: Sequence[PodRecord], now: float
) -> WorkloadSpec | None:
    """What a DIJob wants; None when it is finished."""
    spec, status = job.spec, job.status
    if status.phase in FINISHED_PHASES:
        return None
    slots = _task_slots(job, classes) if spec.tasks else _rank_slots(job, classes, pods)
    return WorkloadSpec(
        kind=TYPE.kind,
        metadata=job.metadata,
        created=created_at(job.metadata, now),
        slots=tuple(slots),
        minimum=len(slots) if spec.tasks else min(spec.min_replicas, len(slots)),
        maximum=len(slots) if spec.tasks else spec.maximum,
        elastic=_elastic(job, classes) if allocates(job) else None,
        own_priority=PRIORITIES[spec.priority],
        may_borrow=spec.preemptible,
        evictable=spec.preemptible,
        held=SUSPENDED if spec.suspend else None,
        allocations=_by_name(slots, _allocated_ranks(job)) if allocates(job) else {},
        nominations=status.nominations if spec.tasks else _by_name(slots, _nominated_ranks(job)),
        broken_since=timestamp(status.broken_since),
        whole_minimum=status.whole_minimum,
    )


def allocates(job: DIJob) -> bool:
    """Whether the scheduler decides on the size of a job, and records the node of each rank."""
    return job.spec.preemptible and not job.spec.tasks


def status_after(planned: PlannedJob[DIJob]) -> msgspec.Struct:
    """The status after a plan: the node of each rank if it is recorded, else reserved rooms."""
    job, status = planned.job, planned.job.status
    after = replace(
        status,
        scale_records=scale_records(status.scale_records, planned),
        **common_fields(planned, allocates=allocates(job)),
    )
    if not allocates(job):
        return after
    ranks = _rank_nodes(planned)
    return replace(after, allocation=ranks, replicas=len(planned.nodes) + len(planned.completed))


def _rank_nodes(planned: PlannedJob[DIJob]) -> tuple[str, ...]:
    """The node of each rank, up to the last rank that has one; "" for a rank without node."""
    nodes = {task.number: node for task, node in planned.nodes.items()}
    return tuple(nodes.get(rank, "") for rank in range(max(nodes, default=-1) + 1))


def _allocated_ranks(job: DIJob) -> dict[int, str]:
    return {rank: node for rank, node in enumerate(job.status.allocation) if node}


def _nominated_ranks(job: DIJob) -> dict[int, str]:
    """The node of each nominated rank, whatever generation is in the pod's name."""
    prefix, found = f"{job.metadata.name}-", {}
    for name, node in job.status.nominations.items():
        generation, _, rank = name.removeprefix(prefix).partition("-")
        numbers = parse_small_int(generation), parse_small_int(rank)
        if name.startswith(prefix) and None not in numbers:
            found[numbers[1] or 0] = node
    return found


def _by_name(slots: Sequence[Slot], nodes: dict[int, str]) -> dict[str, str]:
    """The node of each pod by its name, from the nodes of ranks."""
    return {slot.name: nodes[slot.number] for slot in slots if slot.number in nodes}


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
    """Slots of the wanted ranks; a rank that has a pod keeps the name of that pod.

    Of several pods the one that is live counts, else one that succeeded, else one that still has a node.
    """
    ranked = [pod for pod in pods if pod.live or pod.succeeded or not pod.finished]
    names = {pod.rank: pod.name for pod in sorted(ranked, key=_standing)}
    occupied = {pod.rank for pod in pods if pod.rank is not None and pod.keeps_place}
    return [replace(slot, name=names.get(slot.number, slot.name)) for slot in _wanted(job, classes, occupied)]


def _standing(pod: PodRecord) -> tuple[bool, bool, float]:
    return pod.live, pod.succeeded, pod.created


def _wanted(job: DIJob, classes: PodClassCache, occupied: set[int]) -> list[Slot]:
    """A non-preemptible job: as many ranks as was decided. Else those with nodes, and the lowest ones."""
    spec, status, series = job.spec, job.status, _series(job, classes)
    completed = {worker.rank for worker in status.workers if worker.phase == "Succeeded"}
    if not spec.preemptible:
        decided = spec.min_replicas if status.replicas is None else status.replicas
        return [replace(series.slot(rank), completed=rank in completed) for rank in range(decided)]
    return series.wanted_slots(
        {*occupied, *_allocated_ranks(job), *range(spec.min_replicas)},
        spec.min_replicas,
        nominated=_nominated_ranks(job),
        completed=completed,
    )


def _task_slots(job: DIJob, classes: PodClassCache) -> list[Slot]:
    """The pods of all tasks, in the order of the tasks. Which rank each has is in `status.workers`."""
    meta = job.metadata
    completed = {worker.pod for worker in job.status.workers if worker.phase == "Succeeded"}
    names = (
        (f"{meta.name}-{task.title}-{i}", task.title, pod_class)
        for task in job.spec.tasks
        for pod_class in [classes.of_template(meta.namespace, task.template)]
        for i in range(task.replicas)
    )
    return [
        Slot(name=name, role=role, pod_class=pod_class, completed=name in completed)
        for name, role, pod_class in names
    ]
