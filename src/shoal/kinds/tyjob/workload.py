"""TYJobs as workloads, and what the scheduler writes into their status.

The leader is needed, workers may vary.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import FINISHED_PHASES
from shoal.api.indexes import parse_indexes
from shoal.kinds.base import PlannedJob
from shoal.kinds.pod_classes import PodClass, PodClassCache
from shoal.kinds.pods import created_at
from shoal.kinds.status import common_fields
from shoal.kinds.tyjob import TYPE
from shoal.kinds.tyjob.types import TYJob, WorkerSet
from shoal.kinds.workload_spec import SUSPENDED, Slot, WorkloadSpec, timestamp


def workload_spec(job: TYJob, classes: PodClassCache, now: float) -> WorkloadSpec | None:
    """What a TYJob wants; None when it is finished or terminating."""
    spec, status, meta = job.spec, job.status, job.metadata
    if spec.terminating or status.stage in FINISHED_PHASES:
        return None
    policy, slots = spec.scheduler_policy, _slots(job, classes)
    workers = sum(slot.varying for slot in slots)
    return WorkloadSpec(
        kind=TYPE.kind,
        metadata=meta,
        created=created_at(meta, now),
        slots=slots,
        minimum=workers if policy.basic_policy == "Gang" else spec.min_workers_num,
        maximum=workers,
        own_priority=spec.priority,
        queue_policy=policy.job_queue_policy,
        placement=policy.basic_policy,
        held=SUSPENDED if spec.suspend else None,
        allocations=status.allocations,
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
        whole_minimum=status.whole_minimum,
    )


def status_after(planned: PlannedJob[TYJob]) -> msgspec.Struct:
    """The status after a plan: the node of each pod, and the schedule state."""
    return replace(
        planned.job.status,
        allocations=planned.allocations,
        schedule_state=planned.verdict.state,
        **common_fields(planned, allocates=True),
    )


def _slots(job: TYJob, classes: PodClassCache) -> tuple[Slot, ...]:
    """The leader, and the workers that have not failed for good."""
    name, namespace, spec = job.metadata.name, job.metadata.namespace, job.spec
    leader = Slot(
        name=f"{name}-{spec.leader.name}",
        role="leader",
        pod_class=classes.of_template(namespace, spec.leader.template),
        varying=False,
        leads=True,
    )
    workers = (_set_slots(job, one, classes.of_template(namespace, one.template)) for one in spec.worker_sets)
    return leader, *chain.from_iterable(workers)


def _set_slots(job: TYJob, workers: WorkerSet, pod_class: PodClass) -> Iterator[Slot]:
    status, count = job.status, workers.counts
    completed = parse_indexes(status.completed.get(workers.name, ""), count)
    failed = parse_indexes(status.failed.get(workers.name, ""), count)
    for index in range(count):
        if index not in failed:
            name = f"{job.metadata.name}-{workers.name}-{index}"
            yield Slot(name=name, role="worker", pod_class=pod_class, completed=index in completed)
