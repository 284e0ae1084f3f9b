"""Pools in figures: what each has, how it is used and by whom, and what waits for it."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from shoal.engine.plan import Plan
from shoal.engine.resources import CPU, MEMORY, PODS, UNLIMITED, Amounts, Layout, exact_sums
from shoal.engine.snapshot import Pool, Snapshot
from shoal.engine.workload import NOWHERE, Shape, Task, Workload


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of one pool by resource, in counted units.

    `used` includes `shared` (what workloads of other pools use) and `system` (what pods of other schedulers
    use); `borrowed` is what its own workloads use elsewhere. The number of pods is in `capacity` and
    `allocatable` only where every node limits it.
    """

    capacity: dict[str, int]
    allocatable: dict[str, int]
    used: dict[str, int]
    shared: dict[str, int]
    system: dict[str, int]
    borrowed: dict[str, int]
    pending: dict[str, int]
    pending_pods: int


def figures(snapshot: Snapshot, plan: Plan) -> list[Figures]:
    """The figures of every pool after a plan."""
    used, sums = used_after(snapshot, plan), _sums(snapshot, plan)
    return [_figures(snapshot, pool, used, sums[number]) for number, pool in enumerate(snapshot.pools)]


def _sums(snapshot: Snapshot, plan: Plan) -> list[dict[str, Counter[str]]]:
    """What waits, and what is used across the borders of pools; tasks that are alike are added up at once."""
    numbers = {pool.name: number for number, pool in enumerate(snapshot.pools)}
    alike: Counter[tuple[int, str, Shape]] = Counter()
    for workload, tasks in tasks_after(snapshot, plan).items():
        for task, column in tasks:
            if column == NOWHERE:
                alike[workload.pool, "pending", task.shape] += 1
            elif (host := numbers[snapshot.nodes.pools[column]]) != workload.pool:
                alike[host, "shared", task.shape] += 1
                alike[workload.pool, "borrowed", task.shape] += 1
    sums = [{name: Counter[str]() for name in ("shared", "borrowed", "pending")} for _ in snapshot.pools]
    for (pool, name, shape), count in alike.items():
        sums[pool][name].update({resource: count * amount for resource, amount in shape.amounts.items()})
    return sums


def tasks_after(snapshot: Snapshot, plan: Plan) -> dict[Workload, list[tuple[Task, int]]]:
    """The tasks of every workload after a plan, and where they are; new ones too, and none it gave."""
    after = seats(plan)
    given = {eviction.task for eviction in plan.evictions if eviction.reason == "Shrunk"}
    tasks = {
        workload: [(task, after.get(task, task.column)) for task in workload.tasks if task not in given]
        for workload in snapshot.workloads
    }
    known = {task for some in tasks.values() for task, _ in some}
    for new in (*plan.placements, *plan.nominations):
        if new.task not in known:
            tasks[new.workload].append((new.task, after.get(new.task, NOWHERE)))
    return tasks


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


def _figures(snapshot: Snapshot, pool: Pool, used: Amounts, counts: Mapping[str, Counter[str]]) -> Figures:
    """The sums of a pool, for resources that it has or that somebody wants."""
    nodes, columns = snapshot.nodes, pool.span.columns
    tables = {"capacity": nodes.capacity, "allocatable": nodes.alloc, "used": used, "system": snapshot.system}
    sums: dict[str, dict[str, int]] = dict(counts)
    for name, table in tables.items():
        sums[name] = dict(zip(nodes.layout.names, exact_sums(table[:, columns]), strict=True))
    unlimited = {PODS} if (nodes.alloc[nodes.layout.rows[PODS], columns] == UNLIMITED).any() else set()
    there = [
        name
        for name in nodes.layout.names
        if name in (CPU, MEMORY) or any(s.get(name) for s in sums.values())
    ]
    kept = {
        kind: {
            name: total.get(name, 0)
            for name in there
            if kind not in ("capacity", "allocatable") or name not in unlimited
        }
        for kind, total in sums.items()
    }
    return Figures(pending_pods=counts["pending"][PODS], **kept)


def _vector(layout: Layout, task: Task) -> Amounts:
    return layout.vector(task.shape.amounts)
