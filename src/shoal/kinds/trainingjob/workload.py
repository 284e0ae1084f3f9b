"""TrainingJobs as workloads, and what the scheduler writes into their status.

The master and the parameter servers are needed; the number of trainers may vary.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.indexes import parse_indexes
from shoal.api.podspec import Container, ContainerPort, PodSpec, is_gpu
from shoal.kinds.base import PlannedJob
from shoal.kinds.pod_classes import PodClass, PodClassCache
from shoal.kinds.pods import PodRecord, created_at
from shoal.kinds.status import common_fields, scale_records
from shoal.kinds.trainingjob import TYPE
from shoal.kinds.trainingjob.types import Role, RoleStatus, TrainingJob
from shoal.kinds.workload_spec import (
    SUSPENDED,
    ElasticSpec,
    FollowingSpec,
    Slot,
    SlotSeries,
    WorkloadSpec,
    timestamp,
)


def workload_spec(
    job: TrainingJob, classes: PodClassCache, pods: Sequence[PodRecord], now: float
) -> WorkloadSpec | None:
    """What a TrainingJob wants; None when it is finished."""
    spec, status = job.spec, job.status
    if status.phase in FINISHED_PHASES:
        return None
    trainers = _Instances(job, "trainer", spec.trainer, classes, pods)
    minimum = max(spec.trainer.min_instance - len(trainers.abandoned), 0)
    if trainers.are_final:
        minimum = min(minimum, trainers.size)
    return WorkloadSpec(
        kind=TYPE.kind,
        metadata=job.metadata,
        created=created_at(job.metadata, now),
        slots=(*_fixed_slots(job, classes, pods), *trainers.wanted(minimum)),
        minimum=minimum,
        maximum=spec.trainer.max_instance,
        elastic=ElasticSpec(
            series=trainers.series,
            ceiling=spec.trainer.max_instance,
            records=status.scale_records,
            following=_following(job, classes),
        ),
        optimistic=not any(is_gpu(resource) for resource in trainers.series.pod_class.shape.requests),
        priority_class=spec.priority_class_name,
        held=SUSPENDED if spec.suspend else None,
        allocations=status.allocations,
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
        whole_minimum=status.whole_minimum,
    )


def status_after(planned: PlannedJob[TrainingJob]) -> msgspec.Struct:
    """The status after a plan: the node of each pod, and the desired number of each role."""
    status = planned.job.status
    return replace(
        status,
        allocations=planned.allocations,
        replicas=_desired(planned),
        scale_records=scale_records(status.scale_records, planned),
        **common_fields(planned, allocates=True),
    )


def _desired(planned: PlannedJob[TrainingJob]) -> dict[str, RoleStatus]:
    """How many pods of each role there are to be: those with a node, and those that have succeeded.

    The pods of an optimistic job are created before there is room.
    """
    workload, before = planned.workload, planned.job.status.replicas
    evicted = {eviction.task for eviction in planned.outcome.evictions}
    optimistic = workload.optimistic and planned.verdict.state == "Unscheduled" and not workload.held
    tasks = [task for task in workload.tasks if task not in evicted] if optimistic else []
    sizes = Counter(task.role for task in dict.fromkeys((*tasks, *planned.nodes)))
    sizes.update(slot.role for slot in planned.completed)
    sizes["trainer"] += 0
    roles = dict.fromkeys((*before, *sorted(sizes)))
    return {role: replace(before.get(role, RoleStatus()), desired=sizes[role]) for role in roles}


class _Instances:
    """The instances of a role: which have a pod or a node, have succeeded, or are given up for good.

    `are_final`: no more are started, since one has succeeded in a fault-tolerant job; then only those that
    still run are left.
    """

    def __init__(
        self, job: TrainingJob, role: str, spec: Role, classes: PodClassCache, pods: Sequence[PodRecord]
    ) -> None:
        status, self.series = job.status, _series(job, role, spec, classes)
        numbers_of = self.series.numbers_of
        self.completed = parse_indexes(status.completed.get(role, ""))
        self.completed.update(numbers_of(pod.name for pod in pods if pod.succeeded))
        self.abandoned = parse_indexes(status.failed.get(role, ""))
        self.are_final = role == "trainer" and job.spec.fault_tolerant and bool(self.completed)
        if self.are_final:
            self.occupied, self._nominated = set(numbers_of(pod.name for pod in pods if not pod.finished)), []
            return
        bound = (pod.name for pod in pods if pod.keeps_place)
        self.occupied = {*numbers_of(bound), *numbers_of(status.allocations)}
        self._nominated = numbers_of(status.nominations)

    @property
    def size(self) -> int:
        """The number of instances that have a pod or a node, or have succeeded."""
        return len((self.occupied | self.completed) - self.abandoned)

    def wanted(self, minimum: int) -> list[Slot]:
        """The slots of the role, at least `minimum`."""
        return self.series.wanted_slots(
            self.occupied,
            minimum,
            nominated=self._nominated,
            completed=self.completed,
            abandoned=self.abandoned,
        )

    def fixed(self, number: int, *, follows: bool = False) -> Slot:
        """The slot of an instance whose number does not vary, or follows that of the trainers."""
        slot = self.series.slot(number, varying=False, follows=follows)
        return replace(slot, completed=number in self.completed)


def _fixed_slots(job: TrainingJob, classes: PodClassCache, pods: Sequence[PodRecord]) -> list[Slot]:
    """The master, the parameter servers of the minimum, and those that follow the trainers."""
    spec, slots = job.spec, []
    if spec.master:
        slots.append(_Instances(job, "master", spec.master, classes, pods).fixed(0))
    if spec.pserver:
        servers, least = _Instances(job, "pserver", spec.pserver, classes, pods), spec.pserver.min_instance
        slots += [servers.fixed(number) for number in range(least)]
        if spec.pserver.scale_with_trainers:
            more = sorted(number for number in servers.occupied | servers.completed if number >= least)
            slots += [servers.fixed(number, follows=True) for number in more]
    return slots


def _following(job: TrainingJob, classes: PodClassCache) -> FollowingSpec | None:
    """The parameter servers, if their number follows that of the trainers."""
    pserver = job.spec.pserver
    if pserver is None or not pserver.scale_with_trainers:
        return None
    return FollowingSpec(
        series=_series(job, "pserver", pserver, classes),
        least=pserver.min_instance,
        most=pserver.max_instance,
    )


def _series(job: TrainingJob, role: str, spec: Role, classes: PodClassCache) -> SlotSeries:
    return SlotSeries(
        prefix=f"{job.metadata.name}-{role}-", role=role, pod_class=_pod_class(job, spec, classes)
    )


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
