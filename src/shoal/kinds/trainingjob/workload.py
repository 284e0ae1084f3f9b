"""TrainingJobs as workloads, and what the scheduler writes into their status.

The master and the parameter servers are needed; the number of trainers may vary.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.podspec import Container, ContainerPort, PodSpec, is_gpu
from shoal.kinds.base import PlannedJob
from shoal.kinds.pod_classes import PodClass, PodClassCache
from shoal.kinds.pods import PodRecord, created_at
from shoal.kinds.status import broken_since, nominations, scale_records
from shoal.kinds.trainingjob import TYPE
from shoal.kinds.trainingjob.types import Role, RoleStatus, TrainingJob
from shoal.kinds.workload_spec import ElasticSpec, FollowingSpec, Slot, SlotSeries, WorkloadSpec, timestamp


def workload_spec(
    job: TrainingJob, classes: PodClassCache, pods: Sequence[PodRecord], now: float
) -> WorkloadSpec | None:
    """What a TrainingJob wants; None when it is finished."""
    spec, status, trainer = job.spec, job.status, job.spec.trainer
    if status.phase in FINISHED_PHASES:
        return None
    trainers, fixed = _series(job, "trainer", trainer, classes), _fixed_slots(job, classes)
    pserver = spec.pserver
    following = None
    if pserver and pserver.scale_with_trainers:
        series = _series(job, "pserver", pserver, classes)
        following = FollowingSpec(series=series, least=pserver.min_instance, most=pserver.max_instance)
        fixed += [
            series.slot(number, varying=False, follows=True)
            for number in sorted(_occupied(series, pods))
            if number >= pserver.min_instance
        ]
    wanted = trainers.wanted_slots(_occupied(trainers, pods), trainer.min_instance, status.nominations)
    return WorkloadSpec(
        kind=TYPE.kind,
        metadata=job.metadata,
        created=created_at(job.metadata, now),
        slots=(*fixed, *wanted),
        minimum=trainer.min_instance,
        maximum=trainer.max_instance,
        elastic=ElasticSpec(
            series=trainers,
            ceiling=trainer.max_instance,
            records=status.scale_records,
            following=following,
        ),
        optimistic=not any(is_gpu(resource) for resource in trainers.pod_class.shape.requests),
        priority_class=spec.priority_class_name,
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
    )


def status_after(planned: PlannedJob[TrainingJob]) -> msgspec.Struct:
    """The status after a plan: the desired number of each role, and reserved rooms."""
    status = planned.job.status
    return replace(
        status,
        replicas=_desired(planned),
        scale_records=scale_records(status.scale_records, planned.outcome.resize, planned.now),
        nominations=nominations(planned, allocates=False),
        broken_since=broken_since(planned),
    )


def _desired(planned: PlannedJob[TrainingJob]) -> dict[str, RoleStatus]:
    """How many pods of each role there are to be: those with a node, or with room reserved for them.

    The pods of an optimistic job are created before there is room.
    """
    workload, outcome, before = planned.workload, planned.outcome, planned.job.status.replicas
    evicted = {eviction.task for eviction in outcome.evictions}
    optimistic = workload.optimistic and planned.verdict.state == "Unscheduled" and not workload.held
    tasks = set(workload.tasks if optimistic else workload.placed) - evicted
    tasks |= {*outcome.placed, *outcome.nominated}
    sizes = Counter(task.role for task in tasks)
    sizes["trainer"] += workload.done
    roles = dict.fromkeys((*before, *sorted(sizes)))
    return {role: replace(before.get(role, RoleStatus()), desired=sizes[role]) for role in roles}


def _fixed_slots(job: TrainingJob, classes: PodClassCache) -> list[Slot]:
    """The master, and the parameter servers of the minimum."""
    spec = job.spec
    slots = [_series(job, "master", spec.master, classes).slot(0, varying=False)] if spec.master else []
    if spec.pserver:
        series = _series(job, "pserver", spec.pserver, classes)
        slots += [series.slot(number, varying=False) for number in range(spec.pserver.min_instance)]
    return slots


def _series(job: TrainingJob, role: str, spec: Role, classes: PodClassCache) -> SlotSeries:
    return SlotSeries(
        prefix=f"{job.metadata.name}-{role}-", role=role, pod_class=_pod_class(job, spec, classes)
    )


def _occupied(series: SlotSeries, pods: Iterable[PodRecord]) -> set[int]:
    """The numbers of a series whose pods have nodes, or have succeeded."""
    found = (series.number_of(pod.name) for pod in pods if pod.keeps_place)
    return {number for number in found if number is not None}


def _pod_class(job: TrainingJob, role: Role, classes: PodClassCache) -> PodClass:
    """The class of a role's pods; with the host network each pod takes the job's ports on its node."""
    spec = job.spec
    ports = range(spec.port, spec.port + spec.ports_num + spec.ports_num_for_sparse)
    container = Container(
        resources=role.resources, ports=tuple(ContainerPort(container_port=p) for p in ports)
    )
    pod = PodSpec(
        containers=(container,),
        node_selector=spec.node_selector,
        host_network=spec.host_network,
        priority_class_name=spec.priority_class_name,
    )
    return classes.of_pod_spec(job.metadata.namespace, {}, {}, pod)
