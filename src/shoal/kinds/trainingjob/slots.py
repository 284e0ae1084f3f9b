"""The slots of a TrainingJob: the instances of its roles; the name of a pod tells its instance."""

from collections.abc import Mapping, Sequence
from itertools import count, islice, repeat
from typing import NamedTuple

import msgspec

from shoal.api.indexes import IndexRanges, parse_index_map
from shoal.api.managed import ManagedPod
from shoal.api.names import parse_small_int
from shoal.controllers.jobs.ends import has_stopped, pod_end
from shoal.controllers.jobs.slots import JobSlots, completed_slots, pods_by_slot
from shoal.kinds.trainingjob import ROLES
from shoal.kinds.trainingjob.types import ManagedTrainingJob, RoleStatus


class Instance(NamedTuple):
    """The master, a parameter server or a trainer."""

    role: str
    number: int

    @property
    def suffix(self) -> str:
        """The end of its pod's name: `-trainer-3`."""
        return f"-{self.role}-{self.number}"

    @property
    def is_trainer(self) -> bool:
        """Whether it is a trainer."""
        return self.role == "trainer"


def read_slots(job: ManagedTrainingJob, pods: Sequence[ManagedPod]) -> JobSlots[Instance]:
    """Return the slots of a job with its own pods."""
    current, others = pods_by_slot(pods, lambda pod: instance_of(job.metadata.name, pod.metadata.name))
    completed = completed_slots(_recorded(job.status.completed), current)
    slots = JobSlots(
        wanted=tuple(one for role in job.spec.roles for one in _wanted(job, role, completed)),
        completed=completed,
        pods=current,
        others=others,
        abandoned=_recorded(job.status.failed),
    )
    is_last_attempt = job.spec.fault_tolerant and any(one.is_trainer for one in completed)
    return _without_retries(slots) if is_last_attempt else slots


def _without_retries(slots: JobSlots[Instance]) -> JobSlots[Instance]:
    """Return the slots of a job that starts no trainer any more: fault tolerant, once one has succeeded.

    Only the trainers are wanted that still run; those that have ended are abandoned. Of these the scheduler
    may have dropped some already.
    """
    stopped = {one: pod for one, pod in slots.pods.items() if one.is_trainer and has_stopped(pod)}
    wanted = {*slots.wanted}
    ended = {one for one, pod in stopped.items() if one in wanted or pod_end(pod) == "failed"}
    kept = (slots.pods.keys() - stopped.keys()) | slots.completed
    return msgspec.structs.replace(
        slots,
        wanted=tuple(one for one in slots.wanted if not one.is_trainer or one in kept),
        abandoned=slots.abandoned | (ended - slots.completed),
    )


def instance_of(job: str, pod: str) -> Instance | None:
    """Return the instance of a pod, given the names of job and pod; None if it is none."""
    role, _, text = pod.removeprefix(f"{job}-").rpartition("-")
    number = parse_small_int(text)
    instance = None if number is None else Instance(role, number)
    return instance if instance and role in ROLES and f"{job}{instance.suffix}" == pod else None


def _recorded(ranges: Mapping[str, IndexRanges]) -> frozenset[Instance]:
    return frozenset(Instance(*pair) for pair in parse_index_map(ranges))


def _wanted(job: ManagedTrainingJob, role: str, completed: frozenset[Instance]) -> list[Instance]:
    """Return the wanted instances of a role: those with nodes, then the lowest others, as many as desired.

    The pods of an optimistic job are created before there is room for them.
    """
    name, status = job.metadata.name, job.status
    allocated = {one for pod in status.allocations if (one := instance_of(name, pod)) is not None}
    taken = {one for one in allocated | completed if one.role == role}
    desired = status.replicas.get(role, RoleStatus()).desired
    free = (one for one in map(Instance, repeat(role), count()) if one not in taken)
    return sorted({*taken, *islice(free, max(desired - len(taken), 0))})
