"""The slots of a TYJob: the leader, and the workers of all sets; the name of a pod tells its slot."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from shoal.api.indexes import IndexRanges, format_index_map, parse_index_map
from shoal.api.managed import ManagedPod
from shoal.api.names import parse_small_int
from shoal.controllers.jobs.slots import JobSlots, completed_slots, pods_by_slot
from shoal.kinds.tyjob.types import ManagedTYJob, TYJobSpec


class TYSlot(NamedTuple):
    """The leader, or one worker of a set; `member` is the name of the leader or of the set.

    `number` is the index of a worker in its set.
    """

    role: Literal["leader", "worker"]
    member: str
    number: int = 0

    @property
    def name(self) -> str:
        """The name of its pod without that of the job: `learner`, `actor-3`."""
        return self.member if self.role == "leader" else f"{self.member}-{self.number}"


def read_slots(job: ManagedTYJob, pods: Sequence[ManagedPod]) -> JobSlots[TYSlot]:
    """Return the slots of a job with its own pods. Abandoned workers are not wanted."""
    spec, abandoned = job.spec, recorded_slots(job.spec, job.status.failed)
    leader, sets = leader_slot(spec), frozenset(workers.name for workers in spec.worker_sets)
    prefix, wanted = f"{job.metadata.name}-", (slot for slot in worker_slots(spec) if slot not in abandoned)
    current, others = pods_by_slot(
        pods, lambda pod: _slot_of(pod.metadata.name.removeprefix(prefix), leader, sets)
    )
    recorded = recorded_slots(spec, job.status.completed)
    return JobSlots(
        wanted=(leader, *wanted),
        completed=completed_slots(recorded, current),
        pods=current,
        others=others,
        abandoned=frozenset(abandoned),
    )


def leader_slot(spec: TYJobSpec) -> TYSlot:
    """Return the slot of the leader."""
    return TYSlot("leader", spec.leader.name)


def worker_slots(spec: TYJobSpec) -> Iterator[TYSlot]:
    """Yield the slots of all workers; the place of a worker in this order is its rank."""
    for workers in spec.worker_sets:
        for index in range(workers.counts):
            yield TYSlot("worker", workers.name, index)


def recorded_slots(spec: TYJobSpec, ranges: Mapping[str, IndexRanges]) -> set[TYSlot]:
    """Return the slots in a record of indexes by leader or set."""
    leader = leader_slot(spec)
    return {
        leader if member == leader.member else TYSlot("worker", member, index)
        for member, index in parse_index_map(ranges)
    }


def record_slots(slots: Iterable[TYSlot]) -> dict[str, IndexRanges]:
    """Return slots as a record of indexes by leader or set."""
    return format_index_map((slot.member, slot.number) for slot in slots)


def _slot_of(name: str, leader: TYSlot, sets: Collection[str]) -> TYSlot | None:
    """Return the slot of a pod by its name without that of the job; None if it has none."""
    if name == leader.name:
        return leader
    member, _, text = name.rpartition("-")
    index = parse_small_int(text)
    if index is None or member not in sets:
        return None
    slot = TYSlot("worker", member, index)
    return slot if slot.name == name else None
