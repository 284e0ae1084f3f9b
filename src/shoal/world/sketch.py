"""Sketch: what a job of any kind wants, before it is known which of its pods exist.

A kind says in a Sketch which pods its job wants, in which order, and how many of them it needs; the rest of
the way to a Workload is the same for all kinds.
"""

from collections.abc import Mapping
from datetime import datetime
from itertools import count, islice

import msgspec

from shoal.api.meta import ObjectMeta
from shoal.scheduling.reasons import Reason
from shoal.scheduling.workload import PlacementPolicy, QueuePolicy
from shoal.world.book import Blueprint


class Slot(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A pod that a job wants: whether it exists is found out by its name."""

    name: str
    role: str
    blueprint: Blueprint
    varying: bool = True
    leads: bool = False


class Sketch(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A job as its kind describes it.

    `created` is in seconds. `allocations` and `nominations` give nodes by the names of
    pods. `optimistic`: its pods are made even before there is room for them.
    """

    kind: str
    metadata: ObjectMeta
    created: float
    slots: tuple[Slot, ...]
    minimum: int
    maximum: int
    elastic: bool = False
    optimistic: bool = False
    priority_class: str = ""
    own_priority: int | None = None
    queue_policy: QueuePolicy = "Priority"
    placement: PlacementPolicy = "BinPack"
    may_borrow: bool = True
    evictable: bool = True
    held: Reason | None = None
    allocations: Mapping[str, str] = {}
    nominations: Mapping[str, str] = {}
    broken_since: float | None = None


def timestamp(time: datetime | None) -> float | None:
    """A time in seconds."""
    return None if time is None else time.timestamp()


def with_lowest(present: set[int], least: int) -> list[int]:
    """Indices that are present, and the lowest others until there are `least`."""
    missing = (index for index in count() if index not in present)
    return sorted([*present, *islice(missing, max(least - len(present), 0))])
