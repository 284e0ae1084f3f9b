"""Report: what a few cycles decided, as one object with documented keys (`docs/plan-format.md`)."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from shoal.engine.config import SchedulerConfig
from shoal.engine.plan import Eviction, Placement, Plan, State
from shoal.engine.pools import Figures, figures, tasks_after
from shoal.engine.queues import cluster_totals, dominant_share, queue_key
from shoal.engine.resources import shown
from shoal.engine.snapshot import Pool, Snapshot
from shoal.engine.workload import NOWHERE, Reason, Workload


class Step(msgspec.Struct, frozen=True, eq=False):
    """One cycle: what it saw and what it decided."""

    snapshot: Snapshot
    plan: Plan

    @property
    def stable(self) -> bool:
        """Whether it changed nothing, and nothing was under way."""
        return not self.plan.changes() and not self.snapshot.leaving


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


def report(steps: Sequence[Step], config: SchedulerConfig) -> Report:
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
            for pool, sums in zip(last.snapshot.pools, figures(last.snapshot, last.plan), strict=True)
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


def _jobs(step: Step, config: SchedulerConfig) -> list[JobEntry]:
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


def _describer(step: Step) -> Callable[[Workload, int | None], JobEntry]:
    snapshot, plan = step.snapshot, step.plan
    names, totals = snapshot.nodes.names, cluster_totals(snapshot)
    after = tasks_after(snapshot, plan)
    kept = {nomination.task: nomination.column for nomination in plan.nominations}

    def describe(workload: Workload, position: int | None) -> JobEntry:
        verdict = plan.verdict(workload)
        seated = after[workload]
        target = sum(t.varying for t, column in seated if column != NOWHERE or t in kept)
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
            allocation={task.name: names[column] for task, column in seated if column != NOWHERE},
            nominated={task.name: names[kept[task]] for task, _ in seated if task in kept},
            reasons=verdict.reasons,
        )

    return describe


def _pool(snapshot: Snapshot, pool: Pool, sums: Figures) -> PoolEntry:
    amounts: dict[str, Any] = {
        name: {resource: shown(resource, amount) for resource, amount in getattr(sums, name).items()}
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
