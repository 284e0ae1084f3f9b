"""Status fields that the scheduler writes, as far as several job kinds have them. Pure."""

from datetime import datetime
from typing import Any, Final

from shoal.api.meta import ScaleRecord
from shoal.cluster.times import to_datetime
from shoal.engine.plan import Eviction, Resize
from shoal.kinds.base import PlannedJob

_MOST_RECORDS: Final = 20


def common_fields(planned: PlannedJob[Any], *, allocates: bool) -> dict[str, Any]:
    """The fields that all kinds have: `nominations`, `broken_since` and `whole_minimum`.

    `allocates`: see `_nominations`.
    """
    return {
        "nominations": _nominations(planned, allocates=allocates),
        "broken_since": _broken_since(planned),
        "whole_minimum": _whole_minimum(planned),
    }


def _nominations(planned: PlannedJob[Any], *, allocates: bool) -> dict[str, str]:
    """Nodes with reserved room, by pod name.

    Where a kind has no allocations (`allocates` is false), the room of placed tasks is reserved until all of
    them are bound. Binding a single pod that exists needs no such reservation.
    """
    outcome = planned.outcome
    reserved = dict(outcome.nominated)
    if not allocates and (outcome.unmade or len(outcome.placed) > 1):
        reserved |= outcome.placed
    return {task.name: node for task, node in reserved.items()}


def _broken_since(planned: PlannedJob[Any]) -> datetime | None:
    """Since when a gang that was whole has had less than its minimum; None if it is whole or evicted."""
    broken = None if planned.outcome.evictions else planned.verdict.broken
    return None if broken is None else to_datetime(broken)


def _whole_minimum(planned: PlannedJob[Any]) -> int | None:
    """The minimum, once the plan meets it; until then the one that was met the last time."""
    workload, nodes = planned.workload, planned.nodes
    size = workload.done + sum(task.varying for task in nodes)
    whole = size >= workload.minimum and all(task in nodes for task in workload.tasks if task.is_fixed)
    known: int | None = planned.job.status.whole_minimum
    return workload.minimum if whole else known


def scale_records(before: tuple[ScaleRecord, ...], planned: PlannedJob[Any]) -> tuple[ScaleRecord, ...]:
    """The last changes of size, with that of the plan."""
    outcome = planned.outcome
    if outcome.resize is None:
        return before
    return with_record(before, scale_record(outcome.resize, outcome.evictions, planned.now))


def scale_record(resize: Resize, evictions: list[Eviction], now: float) -> ScaleRecord:
    """The record of a change of size; `evictions` are those of the same job in the same plan."""
    beneficiary = next((one.beneficiary.key for one in evictions if one.beneficiary), "")
    shrunk = f"Shrunk for {beneficiary}" if beneficiary else "Shrunk"
    return ScaleRecord(
        time=to_datetime(now),
        from_=resize.before,
        to=resize.after,
        reason="Grown" if resize.after > resize.before else shrunk,
    )


def with_record(records: tuple[ScaleRecord, ...], record: ScaleRecord) -> tuple[ScaleRecord, ...]:
    """The records with a new one; the oldest are dropped."""
    return (*records, record)[-_MOST_RECORDS:]
