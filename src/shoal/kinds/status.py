"""Status fields that the scheduler writes, as far as several job kinds have them. Pure."""

from datetime import datetime
from typing import Any, Final

from shoal.api.meta import ScaleRecord
from shoal.cluster.times import to_datetime
from shoal.engine.plan import Resize
from shoal.engine.workload import Task
from shoal.kinds.base import PlannedJob

_MOST_RECORDS: Final = 20


def broken_since(planned: PlannedJob[Any]) -> datetime | None:
    """Since when a gang that was whole has had less than its minimum; None if it is whole or evicted."""
    broken = None if planned.outcome.evictions else planned.verdict.broken
    return None if broken is None else to_datetime(broken)


def nominations(planned: PlannedJob[Any], *, allocates: bool) -> dict[str, str]:
    """Nodes with reserved room, by pod name.

    Where a kind has no allocations (`allocates` is false), the room of placed tasks is reserved until all of
    them are bound. Binding a single pod that exists needs no such reservation.
    """
    outcome = planned.outcome
    reserved = dict(outcome.nominated)
    if not allocates and (outcome.unmade or len(outcome.placed) > 1):
        reserved |= outcome.placed
    return {task.name: node for task, node in reserved.items()}


def lost_tasks(planned: PlannedJob[Any]) -> set[Task]:
    """Tasks that have no node, or are evicted from it."""
    return {*planned.workload.missing, *(eviction.task for eviction in planned.outcome.evictions)}


def scale_records(
    before: tuple[ScaleRecord, ...], resize: Resize | None, now: float
) -> tuple[ScaleRecord, ...]:
    """The last changes of size. A change that is planned again while its pods are created is the same one."""
    last = (before[-1].from_, before[-1].to) if before else None
    if resize is None or (resize.before, resize.after) == last:
        return before
    reason = "Grown" if resize.after > resize.before else "Shrunk"
    record = ScaleRecord(time=to_datetime(now), from_=resize.before, to=resize.after, reason=reason)
    return (*before, record)[-_MOST_RECORDS:]
