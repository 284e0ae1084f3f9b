"""Estimates over the room that a plan leaves: where a search for changes should look.

Would a workload fit if a node had more resources, or if another workload ended? The answers consider free
room only and need no plan. What other workloads would do with that room only a plan can tell: an estimate
selects candidates, a plan of the changed world decides.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from shoal.engine.affinity import Occupant
from shoal.engine.filters import Filters
from shoal.engine.layout import Amounts, exact_sums
from shoal.engine.nodes import NodeSpan
from shoal.engine.placement import Placer
from shoal.engine.workload import Shape, Task, Workload
from shoal.explain.planned_cluster import PlannedCluster

_MAX_AMOUNT: Final = 10**15
"""More than any node has of a resource, in counted units. A larger shortage is not proposed as a change."""


class NodeShortage(msgspec.Struct, frozen=True, eq=False):
    """Resources that one node lacks for the unplaced tasks of a workload.

    `cost` is the sum of the amounts relative to the requests. `is_modest`: the node at most doubles.
    """

    cost: float
    column: int
    amounts: dict[str, int]
    is_modest: bool


class Consumer(msgspec.Struct, frozen=True, eq=False):
    """A user of node resources: another workload, or, if `is_foreign`, a pod of another scheduler.

    It has pods on nodes, reservations, or both.
    """

    key: str
    occupants: tuple[Occupant, ...]
    reservations: tuple[Occupant, ...] = ()
    is_foreign: bool = False

    @property
    def shapes(self) -> list[tuple[int, Shape]]:
        """Columns and shapes of its pods and reservations."""
        return [(one.column, one.shape) for one in (*self.occupants, *self.reservations)]


def other_workloads(planned: PlannedCluster) -> list[Consumer]:
    """All other workloads that have nodes or reservations after a plan, by key."""
    occupants: defaultdict[str, list[Occupant]] = defaultdict(list)
    reservations: defaultdict[str, list[Occupant]] = defaultdict(list)
    for workload in planned.snapshot.workloads:
        for task in (task for task in workload.placed if task not in planned.evicted):
            occupants[workload.key].append(Occupant(task.column, task.shape, task.identity))
    for placement in planned.plan.placements:
        task = placement.task
        occupants[placement.workload.key].append(Occupant(placement.column, task.shape, task.identity))
    for nomination in planned.nominations:
        task = nomination.task
        reservations[nomination.workload.key].append(Occupant(nomination.column, task.shape, task.identity))
    keys = sorted({*occupants, *reservations})
    own = planned.workload.key
    return [Consumer(key, tuple(occupants[key]), tuple(reservations[key])) for key in keys if key != own]


class FitEstimator:
    """Estimates whether the missing tasks of a workload fit: those of its minimum, or, if `whole`, all.

    `goal` has these tasks. Every method leaves the ledger as it was.
    """

    def __init__(self, planned: PlannedCluster, *, whole: bool) -> None:
        """Use the room that a plan leaves."""
        self._planned, self._workload, self._whole = planned, planned.workload, whole
        self.snapshot, self.filters = planned.snapshot, planned.filters_after_plan()
        self._ledger = self.filters.ledger
        self._missing = planned.missing
        self.goal = planned.missing if whole else planned.minimum_tasks
        self._need = sum(task.varying for task in self.goal)

    def pools(self) -> list[int]:
        """Pools in which the workload may be placed: its home pool, then those that may lend to it."""
        borrows = self._workload.may_borrow and not self._planned.placed
        return [self._workload.pool, *(self.snapshot.pools[self._workload.pool].lenders if borrows else ())]

    def fits(self, pool: int) -> bool:
        """Whether the goal fits a pool, now or once leaving pods are gone."""
        if self._fits(pool):
            return True
        with self._without_leaving(pool) as has_changed:
            return has_changed and self._fits(pool)

    def fits_without(self, consumers: Iterable[Consumer], pool: int) -> bool:
        """Whether the goal fits a pool if some consumers ended."""
        with self.without(consumers):
            return self.fits(pool)

    @contextmanager
    def without(self, consumers: Iterable[Consumer]) -> Iterator[None]:
        """Context in which some consumers have ended."""
        with self._ledger.attempt():
            for consumer in consumers:
                for occupant in consumer.occupants:
                    self._ledger.remove(occupant)
                for reservation in consumer.reservations:
                    self._ledger.release(reservation)
            yield

    def unplaced(self, pool: int) -> list[Task]:
        """Tasks of the goal that do not fit a pool after as many as possible are placed there."""
        with self._ledger.attempt():
            return self._place_what_fits(pool)

    def shortages(self, pool: int, most: int) -> list[NodeShortage]:
        """The smallest shortages of nodes of a pool: up to `most` now, and as many without leaving pods."""
        found = self._shortages(pool, most)
        with self._without_leaving(pool) as has_changed:
            return [*found, *(self._shortages(pool, most) if has_changed else ())]

    def shortage_on(self, node: str) -> dict[str, int]:
        """Resources that one node lacks; empty if more resources there would not help."""
        column = self.snapshot.nodes.columns[node]
        for pool in self.pools():
            span = self.snapshot.pools[pool].span
            if column in span:
                found = (one for one in self._shortages(pool, len(span)) if one.column == column)
                return next((one.amounts for one in found), {})
        return {}

    def nodes_needed(self, pool: int, column: int) -> int | None:
        """Estimated number of new nodes like a given one, including those that earlier workloads would use.

        None if such a node could not hold each of the unplaced tasks.
        """
        unplaced = self.unplaced(pool)
        if not all(self._holds(shape, column) for shape in dict.fromkeys(task.shape for task in unplaced)):
            return None
        earlier = [(self._fill_nodes(w.minimum_tasks, column), w.missing) for w in self._waiting_before(pool)]
        count, needed = 0, self._fill_nodes(unplaced, column)
        while needed > count:
            count = needed
            competing = [task for least, tasks in earlier if least <= count for task in tasks]
            needed = self._fill_nodes([*competing, *unplaced], column)
        return count

    def _fill_nodes(self, tasks: Iterable[Task], column: int) -> int:
        """The number of empty nodes like a given one that tasks fill, one after another in order."""
        capacity = self.snapshot.nodes.alloc[:, column]
        free, count = capacity.copy(), 1
        for demand in (self._ledger.demand(task.shape).vector for task in tasks):
            if (demand > free).any():
                free, count = capacity.copy(), count + 1
            free = np.maximum(free - demand, 0)
        return count

    def _waiting_before(self, pool: int) -> list[Workload]:
        """Waiting workloads of a pool that are served before this one."""
        order = list(self._planned.plan.verdicts.items())
        own = next((n for n, (workload, _) in enumerate(order) if workload is self._workload), len(order))
        return [workload for workload, verdict in order[:own] if verdict.waiting and workload.pool == pool]

    def _holds(self, shape: Shape, column: int) -> bool:
        """Whether a node could hold a task if it were empty, ready and schedulable."""
        nodes, rules = self.snapshot.nodes, shape.nodes
        suits = nodes.selected(rules)[column] and nodes.tolerated(rules, ignore_transient=True)[column]
        return bool(suits and (self._ledger.demand(shape).vector <= nodes.alloc[:, column]).all())

    def _fits(self, pool: int) -> bool:
        with self._ledger.attempt():
            outcome = self._placer(pool).place(self._missing, self._need, minimum_only=True)
            return outcome.placed is not None

    @contextmanager
    def _without_leaving(self, pool: int) -> Iterator[bool]:
        """Context in which leaving pods are gone, if that counts; yields whether it changes anything.

        Room that will become free is reserved for minimums only, and only in the home pool.
        """
        span = self.snapshot.pools[pool].span
        counts = not self._whole and pool == self._workload.pool
        leaving = [one for one in self._planned.leaving if counts and one.column in span]
        with self._ledger.attempt():
            for occupant in leaving:
                self._ledger.remove(occupant)
            yield bool(leaving)

    def _place_what_fits(self, pool: int) -> list[Task]:
        """Place tasks of the goal in the ledger, as if each were optional; return those that do not fit."""
        optional = {replace(task, varying=True, follows=False): task for task in self.goal}
        placed = self._placer(pool).place(list(optional), 0).placed or []
        fitting = {optional[copy] for copy, _ in placed}
        return [task for task in self.goal if task not in fitting]

    def _shortages(self, pool: int, most: int) -> list[NodeShortage]:
        span = self.snapshot.pools[pool].span
        with self._ledger.attempt():
            unplaced = self._place_what_fits(pool)
            if not unplaced or not len(span):
                return []
            requested, room = self._sum(unplaced), self._ledger.room[:, span.columns]
            short = np.where(requested[:, None] > 0, np.maximum(requested[:, None] - room, 0), 0)
            cost = (short / np.maximum(self._sum(self.goal), 1)[:, None]).sum(axis=0)
            usable = np.logical_and.reduce(
                [(short < _MAX_AMOUNT).all(axis=0), *(self.filters.allowed(t, span) for t in unplaced)]
            )
        cost = np.where(usable, cost, np.inf)
        order = np.argsort(cost, kind="stable")[:most]
        return [self._shortage(span, int(i), short, float(cost[i])) for i in order if cost[i] < np.inf]

    def _shortage(self, span: NodeSpan, index: int, short: Amounts, cost: float) -> NodeShortage:
        names, column = self.snapshot.nodes.layout.names, span.start + index
        amounts = {names[row]: int(n) for row, n in enumerate(short[:, index]) if n}
        is_modest = bool((short[:, index] <= self.snapshot.nodes.alloc[:, column]).all())
        return NodeShortage(cost, column, amounts, is_modest)

    def _placer(self, pool: int) -> Placer:
        span = self.snapshot.pools[pool].span
        return Placer(self.filters, span, self._workload.placement, self._planned.placed)

    def _sum(self, tasks: Iterable[Task]) -> Amounts:
        """The sum of the requests of tasks, at most `_MAX_AMOUNT` of each resource: no overflow."""
        vectors = [self._ledger.demand(task.shape).vector.astype(float) for task in tasks]
        total: Amounts = np.minimum(np.sum(vectors, axis=0), _MAX_AMOUNT).astype(np.int64)
        return total


class ReleaseGains:
    """How much it would help tasks if a consumer released its resources, given the ledger as it is now."""

    def __init__(self, filters: Filters) -> None:
        """Measure on the ledger of these filters."""
        self._filters, self._ledger = filters, filters.ledger
        self._totals = exact_sums(filters.ledger.nodes.alloc)
        self._freed_by: dict[Consumer, dict[int, Amounts]] = {}

    def could_help(self, consumer: Consumer, tasks: Iterable[Task], span: NodeSpan) -> bool:
        """Whether a node of a span would take more of the tasks without a consumer.

        With inter-pod rules every consumer in the span could be in the way, whatever room it has.
        """
        distinct = _one_per_shape(tasks)
        if any(self._filters.has_inter_pod_rules(task) for task in distinct):
            return self.is_in(consumer, span)
        return self._gain(consumer, distinct, span) > 0

    def best(self, consumers: Iterable[Consumer], tasks: Sequence[Task], span: NodeSpan) -> Consumer | None:
        """The consumer whose end would help the tasks most; of equally helpful ones the smallest."""
        present = [consumer for consumer in consumers if self.is_in(consumer, span)]
        distinct = _one_per_shape(tasks)
        ranks = [
            (-self._gain(consumer, distinct, span), self._least_shortage(consumer, tasks[:1], span))
            for consumer in present
        ]
        first = min(ranks, default=None)
        best = [consumer for consumer, rank in zip(present, ranks, strict=True) if rank == first]
        return min(best, key=self.size, default=None)

    def is_in(self, consumer: Consumer, span: NodeSpan) -> bool:
        """Whether a consumer has pods or reservations in a span."""
        return any(column in span for column in self._freed(consumer))

    def size(self, consumer: Consumer) -> tuple[bool, Fraction, int, str]:
        """Sort key, smallest first: own before foreign, then dominant share, number of pods, key."""
        used = self._sum(shape for _, shape in consumer.shapes)
        shares = (Fraction(int(a), b) for a, b in zip(used, self._totals, strict=True) if b)
        return consumer.is_foreign, max(shares, default=Fraction(0)), len(consumer.occupants), consumer.key

    def _freed(self, consumer: Consumer) -> dict[int, Amounts]:
        """Amounts that the end of a consumer frees, by column."""
        if consumer not in self._freed_by:
            found: defaultdict[int, list[Shape]] = defaultdict(list)
            for column, shape in consumer.shapes:
                found[column].append(shape)
            self._freed_by[consumer] = {column: self._sum(shapes) for column, shapes in found.items()}
        return self._freed_by[consumer]

    def _gain(self, consumer: Consumer, tasks: list[Task], span: NodeSpan) -> int:
        """How many more tasks, each shape counted by itself, its nodes would take without a consumer."""
        return sum(
            self._max_count(task, column, freed) - self._max_count(task, column, 0)
            for column, freed in self._freed(consumer).items()
            if column in span
            for task in tasks
            if self._filters.suitable(task)[column]
        )

    def _least_shortage(self, consumer: Consumer, tasks: Iterable[Task], span: NodeSpan) -> float:
        """What a task would still lack on the best node of a consumer, relative to its requests."""
        shortages = (
            self._shortage(task, column, freed)
            for column, freed in self._freed(consumer).items()
            if column in span
            for task in tasks
            if self._filters.suitable(task)[column]
        )
        return min(shortages, default=np.inf)

    def _max_count(self, task: Task, column: int, freed: Amounts | int) -> int:
        demand = self._ledger.demand(task.shape)
        room = self._ledger.room[:, column] + freed
        return max(min(int(room[r]) // n for r, n in zip(demand.rows, demand.amounts, strict=True)), 0)

    def _shortage(self, task: Task, column: int, freed: Amounts) -> float:
        demand, room = self._ledger.demand(task.shape), self._ledger.room[:, column] + freed
        requested = zip(demand.rows, demand.amounts, strict=True)
        return sum(max(n - int(room[row]), 0) / n for row, n in requested)

    def _sum(self, shapes: Iterable[Shape]) -> Amounts:
        total = np.zeros(len(self._totals), dtype=np.int64)
        for shape in shapes:
            total += self._ledger.demand(shape).vector
        return total


def _one_per_shape(tasks: Iterable[Task]) -> list[Task]:
    """One task of each shape."""
    return list({task.shape: task for task in tasks}.values())
