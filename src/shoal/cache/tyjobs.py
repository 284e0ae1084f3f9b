"""TYJobs as workloads: the leader must be there, workers may vary."""

from collections.abc import Iterable

from shoal.api.tyjob import TYJob
from shoal.cache.pod_classes import Book
from shoal.cache.pods import PodRecord, created
from shoal.cache.workload_spec import Sketch, Slot, timestamp


def sketch(job: TYJob, book: Book, _: Iterable[PodRecord], now: float) -> Sketch | None:
    """What a TYJob wants; None when it has ended."""
    spec, status, meta = job.spec, job.status, job.metadata
    if spec.terminating or status.stage in ("Succeeded", "Failed"):
        return None
    policy = spec.scheduler_policy
    return Sketch(
        kind="TYJob",
        metadata=meta,
        created=created(meta, now),
        slots=_slots(job, book),
        minimum=job.workers if policy.basic_policy == "Gang" else spec.min_workers_num,
        maximum=job.workers,
        own_priority=spec.priority,
        queue_policy=policy.job_queue_policy,
        placement=policy.basic_policy,
        allocations=status.allocations,
        nominations=status.nominations,
        broken_since=timestamp(status.broken_since),
    )


def _slots(job: TYJob, book: Book) -> tuple[Slot, ...]:
    name, namespace, spec = job.metadata.name, job.metadata.namespace, job.spec
    leader = Slot(
        name=f"{name}-{spec.leader.name}",
        role="leader",
        blueprint=book.template(namespace, spec.leader.template),
        varying=False,
        leads=True,
    )
    workers = (
        Slot(name=f"{name}-{workers.name}-{i}", role="worker", blueprint=blueprint)
        for workers in spec.worker_sets
        for blueprint in [book.template(namespace, workers.template)]
        for i in range(workers.counts)
    )
    return leader, *workers
