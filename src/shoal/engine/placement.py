"""Placement: tasks are placed one after another, each on its best node given those before.

Rankings and runs of equal tasks only make this faster; the result is the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby

import msgspec
import numpy as np

from shoal.engine.affinity import Occupant
from shoal.engine.filters import Filters
from shoal.engine.layout import exact_sums
from shoal.engine.nodes import NodeSpan
from shoal.engine.ranking import Levels, NodeRanking
from shoal.engine.scores import score_for, sibling_sign
from shoal.engine.workload import NO_NODE, Identity, PlacementPolicy, Shape, Task

Placed = list[tuple[Task, int]]
"""Tasks and the columns they were placed on, in the order of the decisions."""

Siblings = Levels
"""The number of pods of a job on each node of a span."""


class Misfit(msgspec.Struct, frozen=True, eq=False):
    """A task for which no node was found, and why."""

    task: Task
    message: str


class PlaceOutcome(msgspec.Struct, frozen=True, eq=False):
    """What was placed (None: not even the minimum, so nothing), and the first task that fitted nowhere."""

    placed: Placed | None
    misfit: Misfit | None = None


class Placer:
    """Places tasks of one workload on the nodes of one pool."""

    def __init__(
        self,
        filters: Filters,
        span: NodeSpan,
        policy: PlacementPolicy,
        present: Iterable[tuple[Task, int]] = (),
    ) -> None:
        """Place by `policy` within `span`; `present` are tasks of the workload that already have columns."""
        self._filters, self._ledger, self._span, self._policy = filters, filters.ledger, span, policy
        self._present = tuple(present)

    def place(self, tasks: Sequence[Task], need: int, *, minimum_only: bool = False) -> PlaceOutcome:
        """Place all tasks that do not vary and at least `need` of those that do, or none at all.

        With `minimum_only`, no more than these. What was placed stays in the ledger. If placing in the given
        order fails, the minimum is tried again in the order of decreasing size.
        """
        if sum(task.varying for task in tasks) < need:
            return PlaceOutcome(None)
        most = need if minimum_only else len(tasks)
        least = list(_least(tasks, need))
        first = self._place_in_order(tasks, least, most)
        if first.placed is None and self._may_still_fit(least):
            second = self._largest_first(tasks, least, most)
            return first if second.placed is None else second
        return first

    def _place_in_order(self, tasks: Sequence[Task], least: list[Task], most: int) -> PlaceOutcome:
        with self._ledger.attempt() as attempt:
            placed, misfit = self._place_tasks(tasks, self._policy, most, [])
            if not _enough(placed, least):
                return PlaceOutcome(None, misfit)
            attempt.keep()
            return PlaceOutcome(placed, misfit)

    def _largest_first(self, tasks: Sequence[Task], least: list[Task], most: int) -> PlaceOutcome:
        """Place the minimum by BinPack, largest dominant share of the pool first, then the rest as usual."""
        with self._ledger.attempt() as attempt:
            placed, misfit = self._place_tasks(self._by_share(least), "BinPack", len(least), [])
            if misfit:
                return PlaceOutcome(None, misfit)
            chosen = set(least)
            rest = [task for task in tasks if task not in chosen]
            more, misfit = self._place_tasks(
                rest, self._policy, most - sum(task.varying for task in least), placed
            )
            attempt.keep()
            return PlaceOutcome(placed + more, misfit)

    def _place_tasks(
        self, tasks: Iterable[Task], policy: PlacementPolicy, most: int, before: Placed
    ) -> tuple[Placed, Misfit | None]:
        """Place what fits, at most `most` varying tasks; returns also the first task that does not fit.

        Placing ends at a task that does not vary and does not fit.
        """
        placed: Placed = []
        misfit = None
        siblings = self._siblings(before)
        for _, equal in groupby(tasks, key=_equivalence_key):
            run = list(equal)
            varying = run[0].varying
            run = run[:most] if varying else run
            newly_placed = self._place_run(run, policy, siblings)
            placed += newly_placed
            if varying:
                most -= len(newly_placed)
            if len(newly_placed) < len(run):
                misfit = misfit or self._misfit(run[len(newly_placed)])
                if not varying:
                    break
        return placed, misfit

    def _place_run(self, run: list[Task], policy: PlacementPolicy, siblings: Siblings) -> Placed:
        placed: Placed = []
        if not run:
            return placed
        chooser = NodeChooser(self._filters, self._span, run[0], policy, siblings)
        while len(placed) < len(run) and (column := chooser.choose()) != NO_NODE:
            count = chooser.place(column, len(run) - len(placed))
            placed += [(task, column) for task in run[len(placed) : len(placed) + count]]
        return placed

    def _misfit(self, task: Task) -> Misfit:
        return Misfit(task, self._filters.describe_misfit(task, self._span))

    def _siblings(self, placed: Placed) -> Siblings:
        """The number of the workload's tasks on each node."""
        siblings = np.zeros(len(self._span), dtype=np.int64)
        for _, column in (*self._present, *placed):
            if column in self._span:
                siblings[column - self._span.start] += 1
        return siblings

    def _may_still_fit(self, least: list[Task]) -> bool:
        """Whether another order could help.

        It cannot if all tasks are equal, or if the pool has too little room in total.
        """
        if len({task.shape for task in least}) <= 1 and not any(
            map(self._filters.has_inter_pod_rules, least[:1])
        ):
            return False
        layout = self._ledger.nodes.layout
        room = exact_sums(np.maximum(self._ledger.room[:, self._span.columns], 0))
        asked = [sum(task.shape.requests.get(name, 0) for task in least) for name in layout.names]
        return all(a <= r for a, r in zip(asked, room, strict=True))

    def _by_share(self, tasks: list[Task]) -> list[Task]:
        """Tasks by their dominant share of the pool, largest first."""
        layout = self._ledger.nodes.layout
        totals = dict(
            zip(layout.names, exact_sums(self._ledger.nodes.alloc[:, self._span.columns]), strict=True)
        )

        def share(task: Task) -> Fraction:
            requests = task.shape.requests.items()
            return max((Fraction(n, totals[r]) for r, n in requests if totals[r]), default=Fraction(0))

        return sorted(tasks, key=share, reverse=True)


def equivalence_runs(tasks: Iterable[Task], filters: Filters) -> tuple[object, ...]:
    """The runs of equivalent tasks: two sequences of tasks with equal runs are placed alike."""

    def key(task: Task) -> tuple[object, ...]:
        return task.shape, filters.has_inter_pod_rules(task) and task.identity, task.varying, task.leads

    return tuple((*kind, len(list(run))) for kind, run in groupby(tasks, key=key))


def _equivalence_key(task: Task) -> tuple[Shape, Identity, bool, bool]:
    """Equal for tasks that are placed by one chooser."""
    return task.shape, task.identity, task.varying, task.leads


def _least(tasks: Iterable[Task], need: int) -> Iterator[Task]:
    """The tasks of the minimum: all that do not vary, and the first `need` that do."""
    for task in tasks:
        if not task.varying:
            yield task
        elif need > 0:
            need -= 1
            yield task


def _enough(placed: Placed, least: list[Task]) -> bool:
    """Whether as many tasks are placed, varying ones and others, as the minimum has."""
    varying = sum(task.varying for task, _ in placed)
    needed = sum(task.varying for task in least)
    return varying >= needed and len(placed) - varying >= len(least) - needed


class NodeChooser:
    """Chooses nodes for equal tasks, one after another.

    Where the best node stays the best, it takes as many tasks as it has room for. `siblings` is kept up to
    date.
    """

    def __init__(
        self, filters: Filters, span: NodeSpan, task: Task, policy: PlacementPolicy, siblings: Siblings
    ) -> None:
        """Choose by a placement policy."""
        self._filters, self._ledger, self._span, self._task = filters, filters.ledger, span, task
        self._demand = self._ledger.demand(task.shape)
        self._score = score_for(policy, task)
        self._siblings, self._sign = siblings, sibling_sign(policy)
        self._has_inter_pod_rules = filters.has_inter_pod_rules(task)
        shared = not self._has_inter_pod_rules and not self._sign
        self._ranking = filters.ranking(task, span, self._score) if shared else None

    def choose(self) -> int:
        """The column of the best node, or NO_NODE."""
        if self._ranking is None:
            self._ranking = self._rank()
        return self._ranking.first()

    def place(self, column: int, most: int) -> int:
        """Place as many of the tasks on a node as would go there one after another; returns their number."""
        stays_best = self._score.stays_best and not self._has_inter_pod_rules
        count = min(most, self._ledger.max_count(self._demand, column)) if stays_best else 1
        self._ledger.add(Occupant(column, self._task.shape, self._task.identity), count)
        self._siblings[column - self._span.start] += count
        if self._has_inter_pod_rules:
            self._ranking = None
        elif self._ranking and self._ranking.levels is not None:
            self._ranking.levels[column - self._span.start] += count * self._sign
        return count

    def _rank(self) -> NodeRanking:
        """A ranking for this workload only, valid until a pod arrives that affects its inter-pod rules."""
        allowed = self._filters.allowed(self._task, self._span)
        ranking = NodeRanking(self._ledger, self._demand, self._span, self._score, allowed)
        if self._sign:
            ranking.levels = self._siblings * self._sign
        return ranking
