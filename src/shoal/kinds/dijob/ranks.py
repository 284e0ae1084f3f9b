"""The ranks of a DIJob: which are wanted, which pod has which rank, and which have completed.

In template form the rank is part of a pod's name. In tasks form `status.workers` records which pod has which
rank: a new pod takes the lowest free rank, so that no running pod ever changes its rank.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final

import msgspec

from shoal.api.managed import ManagedPod
from shoal.api.names import parse_small_int
from shoal.api.podspec import Template
from shoal.controllers.jobs.ends import has_stopped, pod_end
from shoal.controllers.jobs.pods import is_ours
from shoal.controllers.jobs.tracking import is_tracked
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob import RANK_LABEL
from shoal.kinds.dijob.types import ManagedDIJob, Task, Worker

GENERATION: Final = "diengine/generation"
"""Annotation of a pod: the generation that it was created in."""


class TaskSlot(msgspec.Struct, frozen=True, eq=False):
    """A pod of a task."""

    task: Task
    index: int

    @property
    def suffix(self) -> str:
        """The end of the pod's name."""
        return f"-{self.task.title}-{self.index}"


class Ranks(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The ranks of a job at one time.

    `pods` has the pod of each rank: one that has not stopped, else the last that has. `others` are further
    pods: older ones of a rank, and pods without one. `slots` are those of the tasks form.
    """

    wanted: tuple[int, ...]
    needs_allocation: bool
    slots: dict[int, TaskSlot]
    pods: dict[int, ManagedPod]
    others: tuple[ManagedPod, ...]
    workers: dict[int, Worker]
    completed: frozenset[int]

    @property
    def missing(self) -> list[int]:
        """Wanted ranks without a live pod that have not completed."""
        return [
            rank
            for rank in self.wanted
            if rank not in self.completed and not ((pod := self.pods.get(rank)) and pod.active)
        ]

    @property
    def surplus(self) -> list[ManagedPod]:
        """Pods whose rank is not wanted, the highest rank first."""
        wanted = set(self.wanted)
        ranks = sorted((rank for rank in self.pods if rank not in wanted), reverse=True)
        return [self.pods[rank] for rank in ranks]


def read_ranks(job: ManagedDIJob, pods: Sequence[ManagedPod], config: SchedulerConfig) -> Ranks:
    """Return the ranks of a job with its own pods."""
    workers = {worker.rank: worker for worker in job.status.workers}
    slots = assign_ranks(job, workers.values(), pods) if job.spec.tasks else {}
    by_name = {f"{job.metadata.name}{slot.suffix}": rank for rank, slot in slots.items()}
    by_name |= {worker.pod: worker.rank for worker in workers.values() if job.spec.tasks and worker.pod}
    current: dict[int, ManagedPod] = {}
    others: list[ManagedPod] = []
    for pod in pods:
        rank = by_name.get(pod.metadata.name) if job.spec.tasks else rank_of(pod)
        rival = current.get(rank) if rank is not None else None
        if rank is None or (rival is not None and _age(pod) < _age(rival)):
            others.append(pod)
            continue
        if rival is not None:
            others.append(rival)
        current[rank] = pod
    needs_allocation = is_elastic(job, config)
    done = {rank for rank, worker in workers.items() if worker.phase == "Succeeded"}
    done |= {rank for rank, pod in current.items() if pod.finished and _has_succeeded(pod)}
    return Ranks(
        wanted=tuple(sorted(slots)) if job.spec.tasks else tuple(_wanted(job, elastic=needs_allocation)),
        needs_allocation=needs_allocation,
        slots=slots,
        pods=current,
        others=tuple(others),
        workers=workers,
        completed=frozenset(done),
    )


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


def assign_ranks(
    job: ManagedDIJob, workers: Iterable[Worker], pods: Iterable[ManagedPod]
) -> dict[int, TaskSlot]:
    """Return the pod of each wanted rank of a job in tasks form.

    A rank is free once its pod is no longer wanted and has ended.
    """
    slots = {
        f"{job.metadata.name}{slot.suffix}": slot
        for task in job.spec.tasks
        for slot in (TaskSlot(task, index) for index in range(task.replicas))
    }
    running = {pod.metadata.name for pod in pods if not has_stopped(pod)}
    known = {worker.pod: worker.rank for worker in workers if worker.pod}
    taken = {rank for name, rank in known.items() if name in slots or name in running}
    free: Iterator[int] = (rank for rank in count() if rank not in taken)
    return {known[name] if name in known else next(free): slot for name, slot in slots.items()}


def _wanted(job: ManagedDIJob, *, elastic: bool) -> Iterable[int]:
    spec, status = job.spec, job.status
    if not elastic:
        return range(spec.min_replicas if status.replicas is None else status.replicas)
    allocated = (rank for rank, node in enumerate(status.allocation) if node)
    return sorted({*allocated, *range(spec.min_replicas)})


def _has_succeeded(pod: ManagedPod) -> bool:
    """Return whether a finished pod succeeded and is not counted yet; afterwards the status says so."""
    return is_tracked(pod) and pod_end(pod) == "succeeded"


def _age(pod: ManagedPod) -> tuple[bool, float]:
    created = pod.metadata.creation_timestamp
    return not has_stopped(pod), created.timestamp() if created else 0.0
