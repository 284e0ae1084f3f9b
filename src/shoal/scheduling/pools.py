"""Pools in figures: what each has, how it is used and by whom, and what waits for it."""

from collections.abc import Iterable

import msgspec
import numpy as np

from shoal.scheduling.plan import Plan
from shoal.scheduling.resources import CPU, MEMORY, PODS, UNLIMITED, Amounts, Layout, exact_sums
from shoal.scheduling.snapshot import Pool, Snapshot
from shoal.scheduling.workload import NOWHERE, Task, Workload


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of one pool by resource, in counted units.

    `used` includes `shared` (what workloads of other pools use) and `system` (what pods of other schedulers
    use). A resource that no node limits is not in `allocatable`.
    """

    capacity: dict[str, int]
    allocatable: dict[str, int]
    used: dict[str, int]
    shared: dict[str, int]
    system: dict[str, int]
    pending: dict[str, int]
    pending_pods: int


def figures(snapshot: Snapshot, plan: Plan) -> list[Figures]:
    """The figures of every pool after a plan."""
    after = seats(plan)
    shared, pending = (
        np.zeros_like(snapshot.used),
        np.zeros((len(snapshot.used), len(snapshot.pools)), np.int64),
    )
    waiting = [0] * len(snapshot.pools)
    layout = snapshot.nodes.layout
    for workload in snapshot.workloads:
        home = snapshot.pools[workload.pool].span
        for task in workload.tasks:
            column = after.get(task, task.column)
            if column == NOWHERE:
                waiting[workload.pool] += 1
                pending[:, workload.pool] += _vector(layout, task)
            elif not home.start <= column < home.stop:
                shared[:, column] += _vector(layout, task)
    used = used_after(snapshot, plan)
    return [
        _figures(snapshot, pool, used, shared, pending[:, [number]], waiting[number])
        for number, pool in enumerate(snapshot.pools)
    ]


def seats(plan: Plan) -> dict[Task, int]:
    """Where the tasks are after a plan that changed their place."""
    gone = {eviction.task: NOWHERE for eviction in plan.evictions}
    return gone | {placement.task: placement.column for placement in plan.placements}


def used_after(snapshot: Snapshot, plan: Plan) -> Amounts:
    """What is used of every node after a plan."""
    used = snapshot.used.copy()
    layout = snapshot.nodes.layout
    for placement in plan.placements:
        used[:, placement.column] += _vector(layout, placement.task)
    for eviction in plan.evictions:
        used[:, eviction.task.column] -= _vector(layout, eviction.task)
    return used


def _figures(
    snapshot: Snapshot, pool: Pool, used: Amounts, shared: Amounts, pending: Amounts, waiting: int
) -> Figures:
    nodes, span = snapshot.nodes, pool.span
    alloc = nodes.alloc[:, span]
    unlimited = {PODS} if (alloc[nodes.layout.rows[PODS]] == UNLIMITED).any() else set()
    sums = {
        "capacity": nodes.capacity[:, span],
        "allocatable": alloc,
        "used": used[:, span],
        "shared": shared[:, span],
        "system": snapshot.system[:, span],
        "pending": pending,
    }
    totals = {
        name: dict(zip(nodes.layout.names, exact_sums(table), strict=True)) for name, table in sums.items()
    }
    names = [
        name
        for name in nodes.layout.names
        if name in (CPU, MEMORY) or any(total[name] for total in totals.values())
    ]
    kept = {
        kind: {name: total[name] for name in names if kind != "allocatable" or name not in unlimited}
        for kind, total in totals.items()
    }
    return Figures(pending_pods=waiting, **kept)


def _vector(layout: Layout, task: Task) -> Amounts:
    return layout.vector({**task.shape.requests, PODS: 1})
