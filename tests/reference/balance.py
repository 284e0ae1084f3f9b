"""Rebalancing: where nobody waits, the most fulfilled give to the least fulfilled that cannot grow."""

from typing import Any

from tests.reference.filters import fits
from tests.reference.growth import (
    candidates,
    is_resting,
    is_settled,
    new_servers,
    next_instance,
    promise,
    seated,
    step,
    tie,
)
from tests.reference.model import Task, Workload
from tests.reference.state import Cycle

Object = dict[str, Any]
Exchange = tuple[Workload, Workload]
"""Who receives, and who gives."""


def rebalance(cycle: Cycle) -> None:
    config = cycle.world.config
    if not config.get("rebalance", True) or config.get("disablePreemption"):
        return
    for pool in cycle.queues:
        if not cycle.has_waiting(pool):
            _rebalance(cycle, pool)


def _rebalance(cycle: Cycle, pool: str) -> None:
    """Who gave has lost something, and so does not receive."""
    while (found := _exchange(cycle, pool)) is not None:
        taker, giver = found
        last = seated(giver)[0]
        node = last.node
        assert node is not None
        cycle.evict(giver, [last], "Shrunk", taker.key)
        promise(cycle, taker, [(next_instance(cycle, taker), node)])


def _exchange(cycle: Cycle, pool: str) -> Exchange | None:
    for taker in candidates(cycle):
        if taker.pool != pool or not _is_stuck(cycle, taker):
            continue
        wanted = next_instance(cycle, taker)
        for giver in _givers(cycle, taker):
            if _helps(cycle, taker, giver, wanted):
                return taker, giver
    return None


def _is_stuck(cycle: Cycle, job: Workload) -> bool:
    """Whether it cannot grow even when those that leave are gone, and could with one instance's room."""
    return not new_servers(cycle, job) and step(cycle, cycle.waiting_room, job) is None


def _givers(cycle: Cycle, taker: Workload) -> list[Workload]:
    """Those that may give, the most fulfilled first."""
    able = [job for job in cycle.jobs if job is not taker and _may_give(cycle, job, taker)]
    return sorted(able, key=lambda job: (cycle.score(job), tie(cycle, job)), reverse=True)


def _may_give(cycle: Cycle, job: Workload, taker: Workload) -> bool:
    if not is_settled(cycle, job) or job.pool != taker.pool or not job.preemptible or not seated(job):
        return False
    untouched = job.key not in {*cycle.victims, *cycle.placed, *cycle.nominated, *cycle.growing}
    spare = job.size > job.minimum and job.priority <= taker.priority
    return untouched and spare and not is_resting(cycle, job)


def _helps(cycle: Cycle, taker: Workload, giver: Workload, wanted: Task) -> bool:
    """Whether the last instance of one makes room for one more of the other, which stays behind or equal."""
    last = seated(giver)[0]
    assert last.node is not None
    room = cycle.waiting_room.without({last})
    still_ahead = cycle.score(giver, -1) >= cycle.score(taker, 1)
    return still_ahead and fits(room, room.nodes[last.node], wanted)
