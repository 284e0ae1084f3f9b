"""Victims: which tasks of a pool may be evicted, which of them together, and in which order.

Tasks of three levels may be evicted: those of borrowers, whose home is another pool; surplus instances, which
an elastic workload at home has beyond its minimum; and those of workloads at home with a lower priority.

`NodeCandidates` is kept from one preempting workload to the next: between two of them only few nodes and
candidates change, and only those are evaluated again. Nodes that cost the same to clear form a group, and the
cost is computed for one node of each group.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

import msgspec
import numpy as np

from shoal.engine.elastic import fulfilment, varying_tasks
from shoal.engine.layout import Amounts
from shoal.engine.nodes import NodeSpan
from shoal.engine.releasing import Releasing
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Task, Workload

ReclaimOrder = tuple[float, int]
"""When a surplus instance is reclaimed, smallest first: its workload's negated fulfilment and rank."""

Surplus = tuple[tuple[ReclaimOrder, Task], ...]
"""Extra instances that others may reclaim, the highest number first."""

NO_RECLAIM_ORDER: ReclaimOrder = (-2.0, 0)
"""The order of units that are no surplus instances."""


class VictimLevel(IntEnum):
    """How much the eviction of a task matters; the lowest level is evicted first."""

    BORROWER = 0
    SURPLUS = 1
    HOME = 2


class EvictionUnit(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What is evicted together: one task, or all of a workload that would lose its minimum.

    `extra`: the task is an extra instance that must leave if a lower one does. A `whole` workload has all its
    extra instances in `extras`, the lowest first; those that may be reclaimed as surplus are units of their
    own, and not among its tasks.
    """

    workload: Workload
    level: VictimLevel
    tasks: tuple[Task, ...]
    whole: bool = False
    extra: bool = False
    extras: tuple[Task, ...] = ()
    order: ReclaimOrder = NO_RECLAIM_ORDER


class VictimCandidate(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A workload that may lose tasks of a pool: any of `tasks`, and `surplus` in its order.

    `extras` are all its extra instances, the lowest first, wherever they are.
    """

    workload: Workload
    borrower: bool
    tasks: tuple[Task, ...]
    surplus: Surplus = ()
    extras: tuple[Task, ...] = ()

    def is_extra(self, task: Task) -> bool:
        """Whether one of its tasks is an extra instance."""
        return bool(self.extras) and task.varying and task.number >= self.extras[0].number

    @property
    def importance(self) -> tuple[bool, int, float, str, str, str]:
        """Sort key, the most important first: workloads at home, then higher priorities, then older ones."""
        workload = self.workload
        return (
            self.borrower,
            -workload.priority,
            workload.created,
            workload.namespace,
            workload.name,
            workload.kind,
        )


class CandidateIndex:
    """The evictable workloads with tasks in each pool."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Look at every workload once."""
        self._by_pool: defaultdict[int, list[tuple[Workload, list[Task]]]] = defaultdict(list)
        self._candidates: dict[int, list[VictimCandidate]] = {}
        homes = [number for number, pool in enumerate(snapshot.pools) for _ in range(len(pool.span))]
        for workload in snapshot.workloads:
            if workload.evictable and workload.placed:
                by_pool: defaultdict[int, list[Task]] = defaultdict(list)
                for task in workload.placed:
                    by_pool[homes[task.column]].append(task)
                for pool, tasks in by_pool.items():
                    self._by_pool[pool].append((workload, tasks))

    def of(self, pool: int) -> list[VictimCandidate]:
        """The candidates of one pool, the most important first."""
        if pool not in self._candidates:
            found = [
                VictimCandidate(workload=workload, borrower=workload.pool != pool, tasks=tuple(tasks))
                for workload, tasks in self._by_pool[pool]
            ]
            self._candidates[pool] = sorted(found, key=lambda candidate: candidate.importance)
        return self._candidates[pool]


def extra_instances(workload: Workload, releasing: Releasing) -> tuple[Task, ...]:
    """The instances of an elastic workload above its minimum: those of the highest numbers, in order."""
    if workload.growth is None or not keeps_minimum(workload, releasing, without=()):
        return ()
    bound = varying_tasks(releasing.remaining(workload))
    count = min(max(workload.done + len(bound) - workload.minimum, 0), len(bound))
    return tuple(bound[len(bound) - count :])


def surplus_of(workload: Workload, extras: Sequence[Task], releasing: Releasing, rank: int) -> Surplus:
    """The extra instances that others may reclaim, the highest number first, with their reclaim order.

    Only the highest instance is ever reclaimed, so each has the fulfilment that the workload has with it and
    without those above it. Among equally fulfilled workloads the one that grows last gives first.
    """
    if workload.held or not extras:
        return ()
    size = workload.done + sum(task.varying for task in releasing.remaining(workload))
    return tuple(((-fulfilment(workload, size - k), -rank), task) for k, task in enumerate(reversed(extras)))


def eviction_units(
    candidate: VictimCandidate, tasks: Sequence[Task], surplus: Surplus, releasing: Releasing
) -> list[EvictionUnit]:
    """What is evicted if these tasks are: each alone, or all of a workload that would lose its minimum.

    With an extra instance go those above it, wherever they are. Without `tasks` only `surplus` is evicted.
    """
    workload = candidate.workload
    if not tasks:
        return [_surplus_unit(workload, order, task) for order, task in surplus]
    extras = _leaving_extras(candidate, tasks)
    rest = tuple(task for task in tasks if not candidate.is_extra(task))
    whole = bool(rest) and not keeps_minimum(workload, releasing, without=(*rest, *extras))
    if whole:
        extras = candidate.extras
        rest = tuple(task for task in releasing.remaining(workload) if not candidate.is_extra(task))
    level = VictimLevel.BORROWER if candidate.borrower else VictimLevel.HOME
    reclaimed = candidate.surplus[: len(extras)]
    units = [_surplus_unit(workload, order, task, extra=True) for order, task in reclaimed]
    if reclaimed:
        extras = ()
    if whole:
        tasks = (*rest, *extras)
        return [
            EvictionUnit(workload=workload, level=level, tasks=tasks, whole=True, extras=candidate.extras),
            *units,
        ]
    return [
        *(EvictionUnit(workload=workload, level=level, tasks=(task,)) for task in rest),
        *(EvictionUnit(workload=workload, level=level, tasks=(task,), extra=True) for task in extras),
        *units,
    ]


def _surplus_unit(
    workload: Workload, order: ReclaimOrder, task: Task, *, extra: bool = False
) -> EvictionUnit:
    return EvictionUnit(workload=workload, level=VictimLevel.SURPLUS, tasks=(task,), order=order, extra=extra)


def _leaving_extras(candidate: VictimCandidate, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The extra instances that leave with some tasks: from the lowest of these upwards."""
    numbers = [task.number for task in tasks if candidate.is_extra(task)]
    return candidate.extras[bisect_left(candidate.extras, min(numbers), key=_number) :] if numbers else ()


def _number(task: Task) -> int:
    return task.number


def reprieve_order(units: list[EvictionUnit]) -> list[EvictionUnit]:
    """The order in which units are put back: home, surplus in the reverse reclaim order, borrowers.

    Within home and borrowers the order of `units` is kept.
    """
    home = [unit for unit in units if unit.level is VictimLevel.HOME]
    surplus = sorted(
        (u for u in units if u.level is VictimLevel.SURPLUS), key=lambda u: u.order, reverse=True
    )
    return home + surplus + [unit for unit in units if unit.level is VictimLevel.BORROWER]


def keeps_minimum(workload: Workload, releasing: Releasing, *, without: Iterable[Task]) -> bool:
    """Whether a workload still has its minimum after its evictions so far and without these tasks."""
    lost = set(without)
    staying = [task for task in releasing.remaining(workload) if task not in lost]
    if sum([task.varying for task in staying]) + workload.done < workload.minimum:
        return False
    return sum([task.is_fixed for task in staying]) == sum([task.is_fixed for task in workload.tasks])


CostKey = tuple[object, ...]
"""Equal for nodes that cost the same to clear."""

Candidates = list[tuple[VictimCandidate, list[Task]]]
"""Candidates with the tasks that they could lose, the most important first."""


class NodeCandidates:
    """The candidates of a pool by node, for preemption by workloads of one priority.

    `evaluate` returns what a candidate could lose at present, or None. `by_cost_key` has the columns from
    which any task could be evicted, in groups of equal cost, each in order.
    """

    def __init__(
        self,
        span: NodeSpan,
        candidates: list[VictimCandidate],
        evaluate: Callable[[VictimCandidate], VictimCandidate | None],
    ) -> None:
        """Evaluate all candidates, which must be ordered by importance."""
        self._span, self._evaluate = span, evaluate
        self._ranked = {c.workload: (rank, c) for rank, c in enumerate(candidates)}
        self._candidates: dict[int, VictimCandidate] = {}
        self._tasks_on: defaultdict[int, dict[int, list[Task]]] = defaultdict(dict)
        self._cost_keys: dict[int, CostKey] = {}
        self._stale: dict[int, VictimCandidate | None] = {}
        self._room: Amounts | None = None
        self.by_cost_key: defaultdict[CostKey, list[int]] = defaultdict(list)
        self.update(self._ranked)

    def update(self, workloads: Iterable[Workload]) -> None:
        """Evaluate the candidates again that are among these workloads."""
        for rank, candidate in [self._ranked[w] for w in workloads if w in self._ranked]:
            before, now = self._candidates.pop(rank, None), self._evaluate(candidate)
            self._stale.setdefault(rank, before)
            if now:
                self._candidates[rank] = now

    def all_candidates(self) -> Candidates:
        """All candidates of the pool."""
        return [(candidate, list(candidate.tasks)) for _, candidate in sorted(self._candidates.items())]

    def at(self, column: int) -> Candidates:
        """The candidates with tasks on a node."""
        return [(self._candidates[rank], tasks) for rank, tasks in sorted(self._tasks_on[column].items())]

    def regroup(self, room: Amounts, cost_key_of: Callable[[int], CostKey]) -> None:
        """Compute the cost keys of nodes again whose `room` or candidates have changed."""
        stale = self._update_nodes()
        if self._room is not None:
            stale.update((np.flatnonzero((room != self._room).any(axis=0)) + self._span.start).tolist())
        self._room = room.copy()
        for column in sorted(stale):
            self._set_cost_key(column, cost_key_of(column) if self._tasks_on[column] else None)

    def _update_nodes(self) -> set[int]:
        """Update the tasks on each node for changed candidates; returns the affected columns."""
        affected: set[int] = set()
        for rank, before in self._stale.items():
            then, now = _tasks_by_column(before), _tasks_by_column(self._candidates.get(rank))
            affected.update(then, now)
            for column in then:
                del self._tasks_on[column][rank]
            for column, tasks in now.items():
                self._tasks_on[column][rank] = tasks
        self._stale.clear()
        return affected

    def _set_cost_key(self, column: int, cost_key: CostKey | None) -> None:
        before = self._cost_keys.pop(column, None)
        if before is not None:
            columns = self.by_cost_key[before]
            del columns[bisect_left(columns, column)]
            if not columns:
                del self.by_cost_key[before]
        if cost_key is not None:
            self._cost_keys[column] = cost_key
            insort(self.by_cost_key[cost_key], column)


def _tasks_by_column(candidate: VictimCandidate | None) -> dict[int, list[Task]]:
    """The nodes that a candidate could leave, with its tasks there.

    Of a candidate that could lose only surplus it is the node of the highest instance, without a task.
    """
    tasks: defaultdict[int, list[Task]] = defaultdict(list)
    if candidate and not candidate.tasks:
        tasks[candidate.surplus[0][1].column] = []
    for task in candidate.tasks if candidate else ():
        tasks[task.column].append(task)
    return tasks
