"""Report: what one or more cycles decided, with the documented keys of `docs/plan-format.md`.

Also the usage of each pool after a plan, which metrics and the status of pools show.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from shoal.engine.config import SchedulerConfig
from shoal.engine.layout import Amounts, ResourceLayout, exact_sums
from shoal.engine.plan import Eviction, Placement, Plan, State
from shoal.engine.queues import cluster_totals, dominant_share, queue_key
from shoal.engine.resources import CPU, MEMORY, PODS, UNLIMITED, format_amount
from shoal.engine.snapshot import Pool, Snapshot
from shoal.engine.workload import NO_NODE, Reason, Shape, Task, Workload


class PoolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of one pool by resource, in units.

    `used` includes `shared` (used by workloads of other pools) and `system` (used by pods of other
    schedulers); `borrowed` is what its own workloads use in other pools, and `pending` what they wait for.
    The number of pods is in `capacity` and `allocatable` only if every node limits it.
    """

    capacity: dict[str, int]
    allocatable: dict[str, int]
    used: dict[str, int]
    shared: dict[str, int]
    system: dict[str, int]
    borrowed: dict[str, int]
    pending: dict[str, int]
    pending_pods: int


def pool_usages(snapshot: Snapshot, plan: Plan) -> list[PoolUsage]:
    """The usage of every pool after a plan."""
    used, sums = used_after(snapshot, plan), _sums_by_pool(snapshot, plan)
    return [_pool_usage(snapshot, pool, used, sums[number]) for number, pool in enumerate(snapshot.pools)]


def _sums_by_pool(snapshot: Snapshot, plan: Plan) -> list[dict[str, Counter[str]]]:
    """What is pending, shared and borrowed in every pool; tasks of one shape are added up at once."""
    numbers = {pool.name: number for number, pool in enumerate(snapshot.pools)}
    counts: Counter[tuple[int, str, Shape]] = Counter()
    for workload, tasks in tasks_after(snapshot, plan).items():
        for task, column in tasks:
            if column == NO_NODE:
                counts[workload.pool, "pending", task.shape] += 1
            elif (host := numbers[snapshot.nodes.pools[column]]) != workload.pool:
                counts[host, "shared", task.shape] += 1
                counts[workload.pool, "borrowed", task.shape] += 1
    sums = [{name: Counter[str]() for name in ("shared", "borrowed", "pending")} for _ in snapshot.pools]
    for (pool, name, shape), count in counts.items():
        sums[pool][name].update({resource: count * amount for resource, amount in shape.amounts.items()})
    return sums


def tasks_after(snapshot: Snapshot, plan: Plan) -> dict[Workload, list[tuple[Task, int]]]:
    """The tasks of every workload after a plan, with their columns (NO_NODE: pending).

    New tasks of the plan are included, tasks by which a workload shrank are not.
    """
    after = columns_after(plan)
    shrunk = {eviction.task for eviction in plan.evictions if eviction.reason == "Shrunk"}
    tasks = {
        workload: [(task, after.get(task, task.column)) for task in workload.tasks if task not in shrunk]
        for workload in snapshot.workloads
    }
    listed = {task for rows in tasks.values() for task, _ in rows}
    for new in (*plan.placements, *plan.nominations):
        if new.task not in listed:
            tasks[new.workload].append((new.task, after.get(new.task, NO_NODE)))
    return tasks


def columns_after(plan: Plan) -> dict[Task, int]:
    """The columns of the tasks that a plan evicts or places."""
    evicted = {eviction.task: NO_NODE for eviction in plan.evictions}
    return evicted | {placement.task: placement.column for placement in plan.placements}


def used_after(snapshot: Snapshot, plan: Plan) -> Amounts:
    """What is used of every node after a plan."""
    used = snapshot.used.copy()
    layout = snapshot.nodes.layout
    for placement in plan.placements:
        used[:, placement.column] += _vector(layout, placement.task)
    for eviction in plan.evictions:
        used[:, eviction.task.column] -= _vector(layout, eviction.task)
    return used


def _pool_usage(
    snapshot: Snapshot, pool: Pool, used: Amounts, counts: Mapping[str, Counter[str]]
) -> PoolUsage:
    """The usage of a pool, for resources that it has or that a task requests."""
    nodes, columns = snapshot.nodes, pool.span.columns
    tables = {"capacity": nodes.capacity, "allocatable": nodes.alloc, "used": used, "system": snapshot.system}
    sums: dict[str, dict[str, int]] = dict(counts)
    for name, table in tables.items():
        sums[name] = dict(zip(nodes.layout.names, exact_sums(table[:, columns]), strict=True))
    unlimited = {PODS} if (nodes.alloc[nodes.layout.rows[PODS], columns] == UNLIMITED).any() else set()
    names = [
        name
        for name in nodes.layout.names
        if name in (CPU, MEMORY) or any(s.get(name) for s in sums.values())
    ]
    amounts = {
        kind: {
            name: total.get(name, 0)
            for name in names
            if kind not in ("capacity", "allocatable") or name not in unlimited
        }
        for kind, total in sums.items()
    }
    return PoolUsage(pending_pods=counts["pending"][PODS], **amounts)


def _vector(layout: ResourceLayout, task: Task) -> Amounts:
    return layout.vector(task.shape.amounts)


class CycleResult(msgspec.Struct, frozen=True, eq=False):
    """One cycle: its snapshot and its plan."""

    snapshot: Snapshot
    plan: Plan

    @property
    def stable(self) -> bool:
        """Whether the plan changes nothing, and no pod is terminating."""
        return not self.plan.has_changes() and not self.snapshot.terminating


class _Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all entries of a report."""


class PlacementEntry(_Entry, frozen=True, kw_only=True):
    """A task that got a node."""

    pod: str
    job: str
    role: str
    node: str
    pool: str
    home: str
    borrowed: bool


class EvictionEntry(_Entry, frozen=True, kw_only=True):
    """A task that lost its node."""

    pod: str
    job: str
    node: str
    reason: str
    beneficiary: str | None = msgspec.field(name="for")


class JobEntry(_Entry, frozen=True, kw_only=True):
    """The state of a workload."""

    job: str
    state: State
    pool: str
    priority: int
    job_priority: int | None
    position: int | None
    share: float
    min: int
    max: int
    current: int
    target: int
    allocation: dict[str, str]
    nominated: dict[str, str]
    reasons: tuple[Reason, ...]


class PoolEntry(_Entry, frozen=True, kw_only=True):
    """The usage of a pool, with amounts as Kubernetes quantities."""

    pool: str
    nodes: tuple[str, ...]
    preemption: bool
    borrowing: bool
    sharing: bool
    capacity: dict[str, str]
    allocatable: dict[str, str]
    used: dict[str, str]
    shared: dict[str, str]
    system: dict[str, str]
    pending: dict[str, str]
    pending_pods: int


class Report(_Entry, frozen=True, kw_only=True):
    """The decisions of all cycles, and the state after the last."""

    cycles: int
    stable: bool
    placements: tuple[PlacementEntry, ...]
    evictions: tuple[EvictionEntry, ...]
    jobs: tuple[JobEntry, ...]
    pools: tuple[PoolEntry, ...]


def report(results: Sequence[CycleResult], config: SchedulerConfig) -> Report:
    """The report of these cycles, of which there must be at least one."""
    last = results[-1]
    return Report(
        cycles=len(results),
        stable=last.stable,
        placements=tuple(
            _placement_entry(result.snapshot, p) for result in results for p in result.plan.placements
        ),
        evictions=tuple(
            _eviction_entry(result.snapshot, e) for result in results for e in result.plan.evictions
        ),
        jobs=tuple(_job_entries(last, config)),
        pools=tuple(
            _pool_entry(last.snapshot, pool, usage)
            for pool, usage in zip(last.snapshot.pools, pool_usages(last.snapshot, last.plan), strict=True)
        ),
    )


def _placement_entry(snapshot: Snapshot, placement: Placement) -> PlacementEntry:
    workload, task = placement.workload, placement.task
    pool, home = snapshot.nodes.pools[placement.column], snapshot.pools[workload.pool].name
    return PlacementEntry(
        pod=f"{workload.namespace}/{task.name}",
        job=workload.key,
        role=task.role,
        node=snapshot.nodes.names[placement.column],
        pool=pool,
        home=home,
        borrowed=pool != home,
    )


def _eviction_entry(snapshot: Snapshot, eviction: Eviction) -> EvictionEntry:
    workload, task = eviction.workload, eviction.task
    return EvictionEntry(
        pod=f"{workload.namespace}/{task.name}",
        job=workload.key,
        node=snapshot.nodes.names[task.column],
        reason=eviction.reason,
        beneficiary=eviction.beneficiary.key if eviction.beneficiary else None,
    )


def _job_entries(result: CycleResult, config: SchedulerConfig) -> list[JobEntry]:
    snapshot = result.snapshot
    key = queue_key(snapshot, config.queue_policy)
    ordered = sorted(snapshot.workloads, key=lambda workload: (workload.pool, key(workload)))
    describe = _job_describer(result)
    positions: dict[int, int] = {}
    entries = []
    for workload in ordered:
        waiting = result.plan.verdict(workload).waiting
        if waiting:
            positions[workload.pool] = positions.get(workload.pool, 0) + 1
        entries.append(describe(workload, positions[workload.pool] if waiting else None))
    return entries


def _job_describer(result: CycleResult) -> Callable[[Workload, int | None], JobEntry]:
    snapshot, plan = result.snapshot, result.plan
    names, totals = snapshot.nodes.names, cluster_totals(snapshot)
    after = tasks_after(snapshot, plan)
    reserved = {nomination.task: nomination.column for nomination in plan.nominations}

    def describe(workload: Workload, position: int | None) -> JobEntry:
        verdict = plan.verdict(workload)
        tasks = after[workload]
        target = sum(t.varying for t, column in tasks if column != NO_NODE or t in reserved)
        counts_minimum = workload.optimistic and verdict.state == "Unscheduled" and not workload.held
        return JobEntry(
            job=workload.key,
            state=verdict.state,
            pool=snapshot.pools[workload.pool].name,
            priority=workload.priority,
            job_priority=workload.own_priority,
            position=position,
            share=float(dominant_share(workload, totals)),
            min=workload.minimum,
            max=workload.maximum,
            current=sum(task.varying for task in workload.placed),
            target=max(target, workload.minimum) if counts_minimum else target,
            allocation={task.name: names[column] for task, column in tasks if column != NO_NODE},
            nominated={task.name: names[reserved[task]] for task, _ in tasks if task in reserved},
            reasons=verdict.reasons,
        )

    return describe


def _pool_entry(snapshot: Snapshot, pool: Pool, usage: PoolUsage) -> PoolEntry:
    amounts: dict[str, Any] = {
        name: {resource: format_amount(resource, amount) for resource, amount in getattr(usage, name).items()}
        for name in ("capacity", "allocatable", "used", "shared", "system", "pending")
    }
    return PoolEntry(
        pool=pool.name,
        nodes=snapshot.nodes.names[pool.span.columns],
        preemption=pool.preemption,
        borrowing=pool.borrowing,
        sharing=pool.sharing,
        pending_pods=usage.pending_pods,
        **amounts,
    )
