"""Parties: everybody else who has room, and how much it would help if they were gone."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

import msgspec
import numpy as np

from shoal.engine.affinity import Occupant
from shoal.engine.filters import Filters
from shoal.engine.nodes import NodeSpan
from shoal.engine.resources import Amounts, exact_sums
from shoal.engine.workload import Shape, Task
from shoal.explain.aftermath import Aftermath


class Party(msgspec.Struct, frozen=True, eq=False):
    """Somebody else who has room: pods on nodes, and room that is kept; a `stranger` is not ours to plan."""

    key: str
    seats: tuple[Occupant, ...]
    kept: tuple[Occupant, ...] = ()
    stranger: bool = False

    @property
    def shapes(self) -> list[tuple[int, Shape]]:
        """What it has on which nodes."""
        return [(one.column, one.shape) for one in (*self.seats, *self.kept)]


def parties(aftermath: Aftermath) -> list[Party]:
    """All other workloads that have room after a plan, or that room is kept for."""
    seats: defaultdict[str, list[Occupant]] = defaultdict(list)
    kept: defaultdict[str, list[Occupant]] = defaultdict(list)
    for workload in aftermath.snapshot.workloads:
        for task in (task for task in workload.placed if task not in aftermath.evicted):
            seats[workload.key].append(Occupant(task.column, task.shape, task.identity))
    for placement in aftermath.plan.placements:
        task = placement.task
        seats[placement.workload.key].append(Occupant(placement.column, task.shape, task.identity))
    for promise in aftermath.promises:
        task = promise.task
        kept[promise.workload.key].append(Occupant(promise.column, task.shape, task.identity))
    own = aftermath.workload.key
    return [Party(k, tuple(seats[k]), tuple(kept[k])) for k in sorted({*seats, *kept}) if k != own]


class Gains:
    """What it would bring to some tasks if somebody were gone, measured on the ledger as it is just then."""

    def __init__(self, filters: Filters) -> None:
        """Measure by what the filters let through."""
        self._filters, self._ledger = filters, filters.ledger
        self._totals = exact_sums(filters.ledger.nodes.alloc)
        self._room_of: dict[Party, dict[int, Amounts]] = {}

    def could_help(self, party: Party, tasks: Iterable[Task], span: NodeSpan) -> bool:
        """Whether a node of a span would take more of some tasks if somebody were gone."""
        kinds = _kinds(tasks)
        if any(self._filters.has_inter_pod_rules(task) for task in kinds):
            return self.is_in(party, span)
        return self._gain(party, kinds, span) > 0

    def best(self, others: Iterable[Party], tasks: Sequence[Task], span: NodeSpan) -> Party | None:
        """Who would help some tasks most: the smallest of the best."""
        there = [party for party in others if self.is_in(party, span)]
        kinds = _kinds(tasks)
        ranks = [(-self._gain(party, kinds, span), self._nearest(party, tasks[:1], span)) for party in there]
        first = min(ranks, default=None)
        best = [party for party, rank in zip(there, ranks, strict=True) if rank == first]
        return min(best, key=self.size, default=None)

    def is_in(self, party: Party, span: NodeSpan) -> bool:
        """Whether somebody has room in a span."""
        return any(column in span for column in self._freed(party))

    def size(self, party: Party) -> tuple[bool, Fraction, int, str]:
        """Who is small: ours before others', by the largest part of any resource, by number, by name."""
        taken = self._sum(shape for _, shape in party.shapes)
        parts = (Fraction(int(a), b) for a, b in zip(taken, self._totals, strict=True) if b)
        return party.stranger, max(parts, default=Fraction(0)), len(party.seats), party.key

    def _freed(self, party: Party) -> dict[int, Amounts]:
        """What somebody's end would free on each node."""
        if party not in self._room_of:
            found: defaultdict[int, list[Shape]] = defaultdict(list)
            for column, shape in party.shapes:
                found[column].append(shape)
            self._room_of[party] = {column: self._sum(shapes) for column, shapes in found.items()}
        return self._room_of[party]

    def _gain(self, party: Party, kinds: list[Task], span: NodeSpan) -> int:
        """How many more tasks, each kind for itself, its nodes would take without somebody."""
        return sum(
            self._times(task, column, freed) - self._times(task, column, 0)
            for column, freed in self._freed(party).items()
            if column in span
            for task in kinds
            if self._filters.suitable(task)[column]
        )

    def _nearest(self, party: Party, tasks: Iterable[Task], span: NodeSpan) -> float:
        """How much a task would still lack on the best of somebody's nodes, relative to what it asks for."""
        lacks = (
            self._lack(task, column, freed)
            for column, freed in self._freed(party).items()
            if column in span
            for task in tasks
            if self._filters.suitable(task)[column]
        )
        return min(lacks, default=np.inf)

    def _times(self, task: Task, column: int, freed: Amounts | int) -> int:
        demand = self._ledger.demand(task.shape)
        room = self._ledger.room[:, column] + freed
        return max(min(int(room[r]) // n for r, n in zip(demand.rows, demand.amounts, strict=True)), 0)

    def _lack(self, task: Task, column: int, freed: Amounts) -> float:
        demand, room = self._ledger.demand(task.shape), self._ledger.room[:, column] + freed
        asked = zip(demand.rows, demand.amounts, strict=True)
        return sum(max(n - int(room[row]), 0) / n for row, n in asked)

    def _sum(self, shapes: Iterable[Shape]) -> Amounts:
        total = np.zeros(len(self._totals), dtype=np.int64)
        for shape in shapes:
            total += self._ledger.demand(shape).vector
        return total


def _kinds(tasks: Iterable[Task]) -> list[Task]:
    """One task of each shape."""
    return list({task.shape: task for task in tasks}.values())
