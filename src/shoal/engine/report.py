"""Report: what a few cycles decided, as one object with documented keys (`docs/plan-format.md`)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from shoal.engine.config import SchedulerConfig
from shoal.engine.plan import Eviction, Placement, Plan, State
from shoal.engine.queues import cluster_totals, dominant_share, queue_key
from shoal.engine.resources import (
    CPU,
    MEMORY,
    PODS,
    UNLIMITED,
    Amounts,
    ResourceLayout,
    exact_sums,
    format_amount,
)
from shoal.engine.snapshot import Pool, Snapshot
from shoal.engine.workload import NO_NODE, Reason, Shape, Task, Workload


class PoolUsage(msgspec.Struct, frozen=True, kw_only=True):
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


def pool_usages(snapshot: Snapshot, plan: Plan) -> list[PoolUsage]:
    """The figures of every pool after a plan."""
    used, sums = used_after(snapshot, plan), _sums(snapshot, plan)
    return [_figures(snapshot, pool, used, sums[number]) for number, pool in enumerate(snapshot.pools)]


def _sums(snapshot: Snapshot, plan: Plan) -> list[dict[str, Counter[str]]]:
    """What waits, and what is used across the borders of pools; tasks that are alike are added up at once."""
    numbers = {pool.name: number for number, pool in enumerate(snapshot.pools)}
    alike: Counter[tuple[int, str, Shape]] = Counter()
    for workload, tasks in tasks_after(snapshot, plan).items():
        for task, column in tasks:
            if column == NO_NODE:
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
    after = columns_after(plan)
    given = {eviction.task for eviction in plan.evictions if eviction.reason == "Shrunk"}
    tasks = {
        workload: [(task, after.get(task, task.column)) for task in workload.tasks if task not in given]
        for workload in snapshot.workloads
    }
    known = {task for some in tasks.values() for task, _ in some}
    for new in (*plan.placements, *plan.nominations):
        if new.task not in known:
            tasks[new.workload].append((new.task, after.get(new.task, NO_NODE)))
    return tasks


def columns_after(plan: Plan) -> dict[Task, int]:
    """Where the tasks are after a plan that changed their place."""
    gone = {eviction.task: NO_NODE for eviction in plan.evictions}
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


def _figures(snapshot: Snapshot, pool: Pool, used: Amounts, counts: Mapping[str, Counter[str]]) -> PoolUsage:
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
    return PoolUsage(pending_pods=counts["pending"][PODS], **kept)


def _vector(layout: ResourceLayout, task: Task) -> Amounts:
    return layout.vector(task.shape.amounts)


class CycleResult(msgspec.Struct, frozen=True, eq=False):
    """One cycle: what it saw and what it decided."""

    snapshot: Snapshot
    plan: Plan

    @property
    def stable(self) -> bool:
        """Whether it changed nothing, and nothing was under way."""
        return not self.plan.changes() and not self.snapshot.terminating


class _Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what stands in a report."""


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
    """How a workload stands."""

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
    """What a pool has and how it is used; amounts as Kubernetes writes them."""

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
    """All of it: the decisions of every cycle, and how things stand after the last."""

    cycles: int
    stable: bool
    placements: tuple[PlacementEntry, ...]
    evictions: tuple[EvictionEntry, ...]
    jobs: tuple[JobEntry, ...]
    pools: tuple[PoolEntry, ...]


def report(steps: Sequence[CycleResult], config: SchedulerConfig) -> Report:
    """What these cycles decided."""
    last = steps[-1]
    return Report(
        cycles=len(steps),
        stable=last.stable,
        placements=tuple(_placement(step.snapshot, p) for step in steps for p in step.plan.placements),
        evictions=tuple(_eviction(step.snapshot, e) for step in steps for e in step.plan.evictions),
        jobs=tuple(_jobs(last, config)),
        pools=tuple(
            _pool(last.snapshot, pool, sums)
            for pool, sums in zip(last.snapshot.pools, pool_usages(last.snapshot, last.plan), strict=True)
        ),
    )


def _placement(snapshot: Snapshot, placement: Placement) -> PlacementEntry:
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


def _eviction(snapshot: Snapshot, eviction: Eviction) -> EvictionEntry:
    workload, task = eviction.workload, eviction.task
    return EvictionEntry(
        pod=f"{workload.namespace}/{task.name}",
        job=workload.key,
        node=snapshot.nodes.names[task.column],
        reason=eviction.reason,
        beneficiary=eviction.beneficiary.key if eviction.beneficiary else None,
    )


def _jobs(step: CycleResult, config: SchedulerConfig) -> list[JobEntry]:
    snapshot = step.snapshot
    key = queue_key(snapshot, config.queue_policy)
    ordered = sorted(snapshot.workloads, key=lambda workload: (workload.pool, key(workload)))
    describe = _describer(step)
    positions: dict[int, int] = {}
    entries = []
    for workload in ordered:
        waiting = step.plan.verdict(workload).waiting
        if waiting:
            positions[workload.pool] = positions.get(workload.pool, 0) + 1
        entries.append(describe(workload, positions[workload.pool] if waiting else None))
    return entries


def _describer(step: CycleResult) -> Callable[[Workload, int | None], JobEntry]:
    snapshot, plan = step.snapshot, step.plan
    names, totals = snapshot.nodes.names, cluster_totals(snapshot)
    after = tasks_after(snapshot, plan)
    kept = {nomination.task: nomination.column for nomination in plan.nominations}

    def describe(workload: Workload, position: int | None) -> JobEntry:
        verdict = plan.verdict(workload)
        bound = after[workload]
        target = sum(t.varying for t, column in bound if column != NO_NODE or t in kept)
        hopeful = workload.optimistic and verdict.state == "Unscheduled" and not workload.held
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
            target=max(target, workload.minimum) if hopeful else target,
            allocation={task.name: names[column] for task, column in bound if column != NO_NODE},
            nominated={task.name: names[kept[task]] for task, _ in bound if task in kept},
            reasons=verdict.reasons,
        )

    return describe


def _pool(snapshot: Snapshot, pool: Pool, sums: PoolUsage) -> PoolEntry:
    amounts: dict[str, Any] = {
        name: {resource: format_amount(resource, amount) for resource, amount in getattr(sums, name).items()}
        for name in ("capacity", "allocatable", "used", "shared", "system", "pending")
    }
    return PoolEntry(
        pool=pool.name,
        nodes=snapshot.nodes.names[pool.span.columns],
        preemption=pool.preemption,
        borrowing=pool.borrowing,
        sharing=pool.sharing,
        pending_pods=sums.pending_pods,
        **amounts,
    )
