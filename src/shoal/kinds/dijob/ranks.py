"""The ranks of a DIJob: which are wanted, which pod has which rank, and which have completed.

In template form the rank is part of a pod's name. In tasks form `status.workers` records which pod has which
rank: a new pod takes the lowest free rank, so that no running pod ever changes its rank.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Final

import msgspec

from shoal.api.managed import ManagedPod
from shoal.api.names import parse_small_int
from shoal.api.podspec import Template
from shoal.controllers.jobs.ends import has_stopped
from shoal.controllers.jobs.pods import is_ours
from shoal.controllers.jobs.slots import JobSlots, completed_slots, pods_by_slot
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob import RANK_LABEL
from shoal.kinds.dijob.types import ManagedDIJob, Task, Worker

GENERATION: Final = "diengine/generation"
"""Annotation of a pod: the generation that it was created in."""


class TaskPod(msgspec.Struct, frozen=True, eq=False):
    """A pod of a task."""

    task: Task
    index: int

    @property
    def suffix(self) -> str:
        """The end of the pod's name."""
        return f"-{self.task.title}-{self.index}"


class Ranks(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The ranks of a job at one time.

    `is_elastic`: the scheduler sizes the job, and a pod is created once its rank has a node. `task_pods` are
    the pods that are wanted in tasks form, by rank.
    """

    slots: JobSlots[int]
    is_elastic: bool
    task_pods: dict[int, TaskPod]
    workers: dict[int, Worker]


def read_ranks(job: ManagedDIJob, pods: Sequence[ManagedPod], config: SchedulerConfig) -> Ranks:
    """Return the ranks of a job with its own pods."""
    workers = {worker.rank: worker for worker in job.status.workers}
    task_pods: dict[int, TaskPod] = {}
    if job.spec.tasks:
        ranks = _assign_ranks(job, pods)
        task_pods = {ranks[name]: one for name, one in _wanted_task_pods(job).items()}
        current, others = pods_by_slot(pods, lambda pod: ranks.get(pod.metadata.name))
        workers |= {ranks[name]: _worker_of(workers, ranks[name], name) for name in _wanted_task_pods(job)}
    else:
        current, others = pods_by_slot(pods, rank_of)
    recorded = [rank for rank, worker in workers.items() if worker.phase == "Succeeded"]
    completed = completed_slots(recorded, current)
    elastic = is_elastic(job, config)
    wanted = task_pods if job.spec.tasks else _elastic_ranks(job, completed) if elastic else _sized_ranks(job)
    slots = JobSlots(wanted=tuple(sorted(wanted)), completed=completed, pods=current, others=others)
    return Ranks(slots=slots, is_elastic=elastic, task_pods=task_pods, workers=workers)


def is_elastic(job: ManagedDIJob, config: SchedulerConfig) -> bool:
    """Return whether the scheduler sizes a job: then a pod is created once its rank has a node."""
    template: Template | None = job.spec.template
    return job.spec.preemptible and template is not None and is_ours(template, config)


def rank_of(pod: ManagedPod) -> int | None:
    """Return the rank in the labels of a pod."""
    return parse_small_int(pod.metadata.labels.get(RANK_LABEL, ""))


def generation_of(pod: ManagedPod) -> int | None:
    """Return the generation in which a pod was created."""
    return parse_small_int(pod.metadata.annotations.get(GENERATION, ""))


def _wanted_task_pods(job: ManagedDIJob) -> dict[str, TaskPod]:
    """Return the pods that a job in tasks form wants, by name."""
    pods = (TaskPod(task, index) for task in job.spec.tasks for index in range(task.replicas))
    return {f"{job.metadata.name}{one.suffix}": one for one in pods}


def _assign_ranks(job: ManagedDIJob, pods: Sequence[ManagedPod]) -> dict[str, int]:
    """Return the rank of each wanted pod and of each existing one in tasks form, by name.

    A pod keeps its rank: as its label says while it runs, else as it is recorded. A rank is free once its pod
    is no longer wanted and has ended.
    """
    wanted = _wanted_task_pods(job)
    labels = {pod.metadata.name: rank for pod in pods if (rank := rank_of(pod)) is not None}
    running = {pod.metadata.name for pod in pods if not has_stopped(pod)}
    ranks: dict[str, int] = {}
    _claim(ranks, ((name, rank) for name, rank in labels.items() if name in running))
    _claim(ranks, ((one.pod, one.rank) for one in job.status.workers if one.pod in wanted))
    _claim(ranks, ((name, rank) for name, rank in labels.items() if name in wanted))
    taken = set(ranks.values())
    free: Iterator[int] = (rank for rank in count() if rank not in taken)
    ranks |= {name: next(free) for name in wanted if name not in ranks}
    _claim(ranks, labels.items())
    return ranks


def _claim(ranks: dict[str, int], claims: Iterable[tuple[str, int]]) -> None:
    """Give ranks to pods that have none, unless another pod has the rank."""
    taken = set(ranks.values())
    for name, rank in claims:
        if name not in ranks and rank not in taken:
            ranks[name] = rank
            taken.add(rank)


def _worker_of(workers: Mapping[int, Worker], rank: int, pod: str) -> Worker:
    """Return the entry of a rank; a new one if the rank had another pod before."""
    known = workers.get(rank)
    return known if known and known.pod == pod else Worker(rank=rank, pod=pod)


def _sized_ranks(job: ManagedDIJob) -> Iterable[int]:
    """Return the wanted ranks of a job that has the size in its status."""
    replicas = job.status.replicas
    return range(job.spec.min_replicas if replicas is None else replicas)


def _elastic_ranks(job: ManagedDIJob, completed: Collection[int]) -> Iterable[int]:
    """Return the wanted ranks of a job that the scheduler sizes.

    These are the ranks with a node, the completed ones, and the lowest others until there are `minReplicas`:
    exactly those that the scheduler plans.
    """
    present = {*completed, *(rank for rank, node in enumerate(job.status.allocation) if node)}
    others = (rank for rank in count() if rank not in present)
    return {*present, *islice(others, max(job.spec.min_replicas - len(present), 0))}
