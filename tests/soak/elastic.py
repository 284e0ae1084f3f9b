"""Elastic jobs keep between their minimum and maximum, and are not resized again within the cooldown.

Both are checked at each write of a size: the write carries the spec that it is for, since a write that is
based on an older version of the object conflicts.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from shoal.api.indexes import parse_indexes
from shoal.api.quantity import parse_duration
from shoal.apiserver.registry.records import Change
from shoal.cluster.resources import Object
from shoal.engine.config import SchedulerConfig

_COOLDOWN: Final = parse_duration(SchedulerConfig().cooldown)
_RESOLUTION: Final = 1.0
"""Times in a status are whole seconds."""


class _Size(NamedTuple):
    """The size of an elastic job, what it may be, and how many of its slots are completed.

    A job that has lost a part of its minimum keeps the rest for a while. A TrainingJob without room may have
    some of its pods already. Trainers that are not started again do not count towards the minimum: after a
    success that is every trainer of a fault-tolerant job.
    """

    minimum: int
    maximum: int
    size: int
    completed: int
    is_whole: bool


def check_sizes(changes: Sequence[Change]) -> Iterator[str]:
    """Yield sizes that a job may not have, and resizes within the cooldown."""
    for change in changes:
        read = _READERS.get(change.record.key.resource)
        if read is None or change.before is None or change.record.deleted:
            continue
        before, after = msgspec.json.decode(change.before.body), msgspec.json.decode(change.record.body)
        old, new = read(before), read(after)
        if old and new:
            name = f"{after['kind']} {after['metadata']['name']}"
            problems = (*_wrong_size(old, new), *_too_early(new, before, after))
            yield from (f"{name}: {problem}" for problem in problems)


def _wrong_size(old: _Size, new: _Size) -> Iterator[str]:
    """Yield sizes that were decided now. A job without room or that was evicted has its completed slots."""
    too_small = new.is_whole and new.completed < new.size < min(old.size, new.minimum)
    if too_small or new.size > max(old.size, new.maximum):
        yield f"it is resized from {old.size} to {new.size}, and may have {new.minimum} to {new.maximum}"


def _too_early(new: _Size, before: Object, after: Object) -> Iterator[str]:
    """Yield resizes within the cooldown for no other job; those that the spec demands are allowed."""
    old_records, records = ((one.get("status") or {}).get("scaleRecords") or [] for one in (before, after))
    if len(records) <= 1 or records == old_records:
        return
    last, record = records[-2:]
    passed = (_time(record) - _time(last)).total_seconds()
    demanded = not new.minimum <= record["from"] <= new.maximum
    if passed < _COOLDOWN - _RESOLUTION and not demanded and " for " not in record["reason"]:
        yield f"it is resized {passed:.0f} s after {last}: {record}"


def _time(record: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(record["time"])


def _of_dijob(job: Object) -> _Size | None:
    """Read the size of a preemptible job in template form without a requested size."""
    spec, status = job["spec"], job.get("status") or {}
    if "template" not in spec or not spec.get("preemptible") or status.get("requestedReplicas") is not None:
        return None
    minimum = spec.get("minReplicas", 1)
    completed = sum(worker.get("phase") == "Succeeded" for worker in status.get("workers") or ())
    return _Size(
        minimum=minimum,
        maximum=spec.get("maxReplicas", max(minimum, 1)),
        size=status.get("replicas") or 0,
        completed=completed,
        is_whole=not status.get("brokenSince"),
    )


def _of_trainingjob(job: Object) -> _Size | None:
    trainer, status = job["spec"]["trainer"], job.get("status") or {}
    figures = (status.get("replicas") or {}).get("trainer") or {}
    abandoned = len(parse_indexes((status.get("failed") or {}).get("trainer", "")))
    ends = bool(job["spec"].get("fault_tolerant") and figures.get("succeeded"))
    return _Size(
        minimum=0 if ends else trainer["min-instance"] - abandoned,
        maximum=trainer["max-instance"],
        size=figures.get("desired", 0),
        completed=figures.get("succeeded", 0),
        is_whole=bool(status.get("allocations")) and not status.get("brokenSince"),
    )


_READERS: Final = {
    "dijobs.diengine.opendilab.org": _of_dijob,
    "trainingjobs.paddlepaddle.org": _of_trainingjob,
}
