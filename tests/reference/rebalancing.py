"""Rebalancing: in pools where no workload waits, the most fulfilled give to the least fulfilled."""

from typing import Any

from tests.reference.elastic import (
    bound,
    candidates,
    growth_order,
    is_cooling_down,
    may_be_resized,
    new_servers,
    next_instance,
    next_step,
    reserve_growth,
)
from tests.reference.filters import fits
from tests.reference.model import Task, Workload
from tests.reference.state import CycleState

Object = dict[str, Any]
Transfer = tuple[Workload, Workload]
"""The workload that receives, and the one that donates."""


def rebalance(cycle: CycleState) -> None:
    config = cycle.world.config
    if not config.get("rebalance", True) or config.get("disablePreemption"):
        return
    for pool in cycle.queues:
        if not cycle.has_waiting(pool):
            _rebalance(cycle, pool)


def _rebalance(cycle: CycleState, pool: str) -> None:
    """A donor has lost an instance, and so does not receive."""
    while (found := _find_transfer(cycle, pool)) is not None:
        receiver, donor = found
        last = bound(donor)[0]
        node = last.node
        assert node is not None
        cycle.evict(donor, [last], "Shrunk", receiver.key)
        reserve_growth(cycle, receiver, [(next_instance(cycle, receiver), node)])


def _find_transfer(cycle: CycleState, pool: str) -> Transfer | None:
    for receiver in candidates(cycle):
        if receiver.pool != pool or not _needs_donor(cycle, receiver):
            continue
        wanted = next_instance(cycle, receiver)
        for donor in _donors(cycle, receiver):
            if _may_transfer(cycle, receiver, donor, wanted):
                return receiver, donor
    return None


def _needs_donor(cycle: CycleState, job: Workload) -> bool:
    """Whether it cannot grow even after all releases, but could in the room of one instance."""
    return not new_servers(cycle, job) and next_step(cycle, cycle.room_after_release, job) is None


def _donors(cycle: CycleState, receiver: Workload) -> list[Workload]:
    """Workloads that may donate, the most fulfilled first."""
    able = [job for job in cycle.jobs if job is not receiver and _may_donate(cycle, job, receiver)]
    return sorted(able, key=lambda job: (cycle.score(job), growth_order(cycle, job)), reverse=True)


def _may_donate(cycle: CycleState, job: Workload, receiver: Workload) -> bool:
    if not may_be_resized(cycle, job) or job.pool != receiver.pool or not job.preemptible or not bound(job):
        return False
    untouched = job.key not in {*cycle.victims, *cycle.placed, *cycle.nominated, *cycle.growing}
    spare = job.size > job.minimum and job.priority <= receiver.priority
    return untouched and spare and not is_cooling_down(cycle, job)


def _may_transfer(cycle: CycleState, receiver: Workload, donor: Workload, wanted: Task) -> bool:
    """Whether the donor's last instance makes room for the receiver, which stays at most as fulfilled."""
    last = bound(donor)[0]
    assert last.node is not None
    room = cycle.room_after_release.without({last})
    still_ahead = cycle.score(donor, -1) >= cycle.score(receiver, 1)
    return still_ahead and fits(room, room.nodes[last.node], wanted)
