"""Pools in figures: what each has, how it is used and by whom, and what waits for it."""

import msgspec
import numpy as np

from shoal.scheduling.plan import Plan
from shoal.scheduling.resources import CPU, MEMORY, PODS, UNLIMITED, Amounts, Layout, exact_sums
from shoal.scheduling.snapshot import Snapshot
from shoal.scheduling.workload import NOWHERE, Task


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
    layout = snapshot.nodes.layout
    shared = np.zeros_like(snapshot.used)
    pending = np.zeros((len(snapshot.used), len(snapshot.pools)), dtype=np.int64)
    for workload in snapshot.workloads:
        home = snapshot.pools[workload.pool].span
        for task in workload.tasks:
            column = after.get(task, task.column)
            if column == NOWHERE:
                pending[:, workload.pool] += _vector(layout, task)
            elif column not in home:
                shared[:, column] += _vector(layout, task)
    tables = {
        "capacity": snapshot.nodes.capacity,
        "allocatable": snapshot.nodes.alloc,
        "used": used_after(snapshot, plan),
        "shared": shared,
        "system": snapshot.system,
    }
    return [
        _figures(
            layout,
            {name: table[:, pool.span.columns] for name, table in tables.items()},
            pending[:, [number]],
        )
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


def _figures(layout: Layout, tables: dict[str, Amounts], pending: Amounts) -> Figures:
    """The sums of a pool's tables, for resources that it has or that somebody wants."""
    sums = {
        name: dict(zip(layout.names, exact_sums(t), strict=True))
        for name, t in (*tables.items(), ("pending", pending))
    }
    if (tables["allocatable"][layout.rows[PODS]] == UNLIMITED).any():
        del sums["allocatable"][PODS]
    names = [
        name for name in layout.names if name in (CPU, MEMORY) or any(s.get(name) for s in sums.values())
    ]
    kept = {kind: {name: total[name] for name in names if name in total} for kind, total in sums.items()}
    return Figures(pending_pods=sums["pending"][PODS], **kept)


def _vector(layout: Layout, task: Task) -> Amounts:
    return layout.vector({**task.shape.requests, PODS: 1})
