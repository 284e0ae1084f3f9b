"""TYJobs as workloads, and what the scheduler writes into their status.

The leader is needed, workers may vary.
"""

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import FINISHED_PHASES
from shoal.kinds.base import PlannedJob
from shoal.kinds.pod_classes import PodClassCache
from shoal.kinds.pods import created_at
from shoal.kinds.status import broken_since, lost_tasks, nominations
from shoal.kinds.tyjob import TYPE
from shoal.kinds.tyjob.types import TYJob
from shoal.kinds.workload_spec import Slot, WorkloadSpec, timestamp


def workload_spec(job: TYJob, classes: PodClassCache, now: float) -> WorkloadSpec | None:
    """What a TYJob wants; None when it is finished or terminating."""
    spec, status, meta = job.spec, job.status, job.metadata
    if spec.terminating or status.stage in FINISHED_PHASES:
        return None
    policy = spec.scheduler_policy
    return WorkloadSpec(
        kind=TYPE.kind,
        metadata=meta,
        created=created_at(meta, now),
        slots=_slots(job, classes),
        minimum=job.workers if policy.basic_policy == "Gang" else spec.min_workers_num,
        maximum=job.workers,
        own_priority=spec.priority,
        queue_policy=policy.job_queue_policy,
        placement=policy.basic_policy,
        allocations=status.allocations,
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
    )


def status_after(planned: PlannedJob[TYJob]) -> msgspec.Struct:
    """The status after a plan: the node of each pod, and the schedule state."""
    status = planned.job.status
    lost = {task.name for task in lost_tasks(planned)}
    allocations = {name: node for name, node in status.allocations.items() if name not in lost}
    allocations |= {task.name: node for task, node in planned.outcome.placed.items()}
    return replace(
        status,
        allocations=allocations,
        schedule_state=planned.verdict.state,
        nominations=nominations(planned, allocates=True),
        broken_since=broken_since(planned),
    )


def _slots(job: TYJob, classes: PodClassCache) -> tuple[Slot, ...]:
    name, namespace, spec = job.metadata.name, job.metadata.namespace, job.spec
    leader = Slot(
        name=f"{name}-{spec.leader.name}",
        role="leader",
        pod_class=classes.of_template(namespace, spec.leader.template),
        varying=False,
        leads=True,
    )
    workers = (
        Slot(name=f"{name}-{workers.name}-{i}", role="worker", pod_class=pod_class)
        for workers in spec.worker_sets
        for pod_class in [classes.of_template(namespace, workers.template)]
        for i in range(workers.counts)
    )
    return leader, *workers
