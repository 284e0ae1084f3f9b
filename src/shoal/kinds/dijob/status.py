"""The status fields of a DIJob that follow from its pods: the workers, the size, the failures."""

from collections.abc import Collection, Iterator
from datetime import datetime

from msgspec.structs import replace

from shoal.api.managed import ManagedPod
from shoal.cluster.times import to_datetime
from shoal.controllers.jobs import phases
from shoal.controllers.jobs.ends import attempt, describe_end, has_stopped
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob.ranks import Ranks, generation_of, is_elastic
from shoal.kinds.dijob.types import ManagedDIJob, Worker


def with_size(job: ManagedDIJob, config: SchedulerConfig) -> ManagedDIJob:
    """Return the job with the size that the controller decides on, if it does.

    It follows the tasks; without tasks it begins with `minReplicas`, and is raised with it. The scheduler
    sizes elastic jobs.
    """
    spec, status = job.spec, job.status
    if spec.tasks:
        size = sum(task.replicas for task in spec.tasks)
    elif is_elastic(job, config):
        return job
    elif status.replicas is None:
        size = spec.min_replicas
    elif status.observed_generation != job.metadata.generation:
        size = max(status.replicas, spec.min_replicas)
    else:
        return job
    return replace(job, status=replace(status, replicas=size)) if size != status.replicas else job


def cost_of(failed: Collection[ManagedPod], restarting_since: datetime | None) -> int:
    """Return how many failures are added: workers that fail together cost one.

    A worker that was created before the job entered its present Restarting died of the same failure. Times
    are whole seconds: of the workers created in that second, only a further attempt came after it.
    """
    return int(any(restarting_since is None or _is_later(pod, restarting_since) for pod in failed))


def _is_later(pod: ManagedPod, since: datetime) -> bool:
    created = pod.metadata.creation_timestamp or to_datetime(0)
    second = since.replace(microsecond=0)
    return created > second or (created == second and attempt(pod) > 1)


def workers_of(job: ManagedDIJob, ranks: Ranks, ended: Collection[int]) -> Iterator[Worker]:
    """Yield the entry of every rank that is wanted, is nominated, or has a pod.

    `ended` are the ranks whose pods have ended now; all but those that have completed get successors.
    """
    slots = ranks.slots
    for rank in sorted({*slots.wanted, *_nominated_ranks(job), *slots.pods}):
        before, pod = ranks.workers.get(rank) or Worker(rank=rank), slots.pods.get(rank)
        after = _with_pod(before, pod, completed=rank in slots.completed) if pod else _without_pod(before)
        is_restart = rank in ended and rank not in slots.completed
        yield replace(after, restarts=after.restarts + 1) if is_restart else after


def _nominated_ranks(job: ManagedDIJob) -> Iterator[int]:
    for name in job.status.nominations if not job.spec.tasks else ():
        number = name.rpartition("-")[2]
        if number.isdigit():
            yield int(number)


def is_lost(worker: Worker) -> bool:
    """Return whether a worker that has no pod is recorded with one that had not ended."""
    return worker.phase not in ("", "Failed", "Succeeded")


def _without_pod(worker: Worker) -> Worker:
    phase, restarts = worker.phase if worker.phase == "Succeeded" else "", worker.restarts + is_lost(worker)
    if (worker.node, worker.ip, worker.phase) == ("", "", phase):
        return worker
    return replace(worker, node="", ip="", phase=phase, restarts=restarts)


def _with_pod(worker: Worker, pod: ManagedPod, *, completed: bool) -> Worker:
    """Return the entry of a rank with its pod; the same object if nothing changed."""
    name, node, ip = pod.metadata.name, pod.spec.node_name, pod.status.pod_ip
    phase = "Running" if not completed and _runs(pod) else _phase_of(pod, completed=completed)
    if phase == "Running" and (worker.pod, worker.node, worker.ip, worker.phase) == (name, node, ip, phase):
        return worker
    return replace(
        worker,
        pod=name,
        node=node,
        ip=ip,
        phase=phase,
        reason=_reason_of(pod, phase),
        generation=worker.generation if generation_of(pod) is None else generation_of(pod),
    )


def _runs(pod: ManagedPod) -> bool:
    return pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None


def _phase_of(pod: ManagedPod, *, completed: bool) -> str:
    if completed:
        return "Succeeded"
    if has_stopped(pod):
        return "Failed"
    return "Terminating" if pod.terminating else pod.status.phase


def _reason_of(pod: ManagedPod, phase: str) -> str:
    if phase == "Failed":
        return describe_end(pod)
    problem = phases.image_problem([pod]) if phase == "Pending" else None
    return problem[0] if problem else ""
