"""Bounds: when a gang certainly does not fit, seen without placing it.

Whatever the order in which a gang is placed, no node takes more of a shape than fits it alone, and no node
gives more of a resource than it has left, or than the shapes that fit it could use. If all nodes together
cannot give what the gang needs at least, it need not be tried. For a gang of one shape that is all there is
to it: what is not excluded fits.

Feasibility: what could run if only there were room, told apart from what never can.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from shoal.engine.filters import Filters
from shoal.engine.nodes import NodeSpan
from shoal.engine.placement import Misfit, Placed, Placer, equivalence_runs
from shoal.engine.queues import by_pool
from shoal.engine.ranking import Indices
from shoal.engine.resources import UNLIMITED, Amounts, exact_sums
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import PlacementPolicy, Task, Workload

_LARGE: Final = 2 * UNLIMITED
"""What comes to more than this is not counted, so that no sum overflows."""


class CapacityBound:
    """The most that the nodes of a span could take of a gang's minimum, and what it needs.

    Counted are pods of each shape, and then units of each resource that the shapes ask for.
    """

    def __init__(self, filters: Filters, span: NodeSpan, workload: Workload) -> None:
        """Look at every node."""
        self._ledger, self._span = filters.ledger, span
        tasks = workload.missing
        first = {task.shape: task for task in tasks}
        numbers = {shape: number for number, shape in enumerate(first)}
        self._suitable = np.array([filters.suitable(task)[span.columns] for task in first.values()])
        self._asked = np.array([self._ledger.demand(shape).vector for shape in first])
        self._often = np.bincount([numbers[task.shape] for task in tasks])[:, None]
        totals = (self._asked.astype(object) * self._often).sum(axis=0)
        self._rows = [row for row, total in enumerate(totals) if 0 < total < _LARGE]
        self._steps = np.gcd.reduce(self._asked[:, self._rows], axis=0)[:, None]
        weights = np.concatenate([np.eye(len(first), dtype=np.int64), self._asked[:, self._rows].T])
        self._needs = _needs(tasks, [weights[:, numbers[task.shape]] for task in tasks], workload.lacking)
        self._most = self._look(np.arange(len(span)))
        self._totals = exact_sums(self._most)

    def excludes(self) -> bool:
        """Whether there is certainly too little room."""
        return any(total < need for total, need in zip(self._totals, self._needs, strict=True))

    def refresh(self, columns: Sequence[int]) -> None:
        """Look again at nodes that have changed."""
        nodes = np.array([column for column in set(columns) if column in self._span], dtype=np.intp)
        nodes -= self._span.start
        before, self._most[:, nodes] = self._most[:, nodes], self._look(nodes)
        more = exact_sums(self._most[:, nodes] - before)
        self._totals = [total + change for total, change in zip(self._totals, more, strict=True)]

    def _look(self, nodes: Indices) -> Amounts:
        """The most that each of some nodes could take."""
        room = np.maximum(self._ledger.room[:, nodes + self._span.start], 0)
        times = room // np.maximum(self._asked, 1)[:, :, None]
        times[self._asked == 0] = UNLIMITED
        pods = np.minimum(times.min(axis=1), self._often) * self._suitable[:, nodes]
        units = room[self._rows] // self._steps * self._steps
        return np.concatenate([pods, np.minimum(units, self._asked[:, self._rows].T @ pods)])


def _needs(tasks: Sequence[Task], weights: Sequence[Amounts], lacking: int) -> list[int]:
    """What tasks need at least of all that is counted: all that do not vary, and the least of the others."""
    fixed = [weight for task, weight in zip(tasks, weights, strict=True) if not task.varying]
    varying = [weight for task, weight in zip(tasks, weights, strict=True) if task.varying]
    least = np.sort(np.array(varying).T, axis=1)[:, :lacking] if varying else np.zeros((len(weights[0]), 0))
    return [sum(map(int, some)) for some in zip(*fixed, *least.T, strict=True)]


class Feasibility:
    """Judges workloads against pools as if these were empty and all their nodes well."""

    def __init__(self, snapshot: Snapshot, filters: Filters) -> None:
        """Judge by what the filters let through."""
        self._snapshot, self._filters = snapshot, filters
        self._evaluated: set[Workload] = set()
        self._fitting: set[tuple[Workload, int]] = set()
        self._misfits: dict[tuple[Workload, int], Misfit] = {}
        self._alike: dict[tuple[object, ...], tuple[int, str] | None] = {}

    def evaluate(self, workloads: Collection[Workload]) -> None:
        """Judge workloads by their home pools, and what does not fit there by who may lend to it."""
        fresh = [workload for workload in workloads if workload not in self._evaluated]
        self._evaluated.update(fresh)
        self._evaluate(by_pool(fresh))
        asking: defaultdict[int, list[Workload]] = defaultdict(list)
        for workload in fresh:
            if not self.fits_home(workload):
                for lender in self._lenders(workload):
                    asking[lender].append(workload)
        self._evaluate(asking)

    def fits_home(self, workload: Workload) -> bool:
        """Whether its minimum would fit its home pool, were that empty."""
        return (workload, workload.pool) in self._fitting

    def never_fits(self, workload: Workload) -> Misfit | None:
        """The task that no pool open to the workload could ever take; None while there is hope."""
        pools = (workload.pool, *self._lenders(workload))
        if any((workload, pool) in self._fitting for pool in pools):
            return None
        found = (self._misfits.get((workload, pool)) for pool in pools)
        return next((misfit for misfit in found if misfit), None)

    def _lenders(self, workload: Workload) -> tuple[int, ...]:
        return self._snapshot.pools[workload.pool].lenders if workload.may_borrow else ()

    def _evaluate(self, asking: Mapping[int, list[Workload]]) -> None:
        """Judge workloads by pools; each pool is emptied once for all that ask for it."""
        ledger = self._filters.ledger
        for number, workloads in asking.items():
            pool = self._snapshot.pools[number]
            with ledger.attempt():
                ledger.clear(pool.span)
                for workload in workloads if len(pool.span) else ():
                    self._evaluate_one(workload, number)

    def _evaluate_one(self, workload: Workload, pool: int) -> None:
        """A workload whose pods do not all exist yet is not judged."""
        least = max(workload.minimum - workload.done, 0)
        if sum(task.varying for task in workload.tasks) < least:
            return
        misfit = self._misfit_of(workload, pool, least)
        if misfit:
            self._misfits[workload, pool] = misfit
        else:
            self._fitting.add((workload, pool))

    def _misfit_of(self, workload: Workload, pool: int, least: int) -> Misfit | None:
        """Workloads that are alike are judged once: in an empty pool nobody else matters."""
        tasks = [task for task in workload.tasks if not task.follows]
        key = (pool, workload.placement, least, equivalence_runs(tasks, self._filters))
        if key not in self._alike:
            misfit = self._misfit(tasks, least, workload.placement, pool)
            self._alike[key] = (tasks.index(misfit.task), misfit.message) if misfit else None
        known = self._alike[key]
        return Misfit(tasks[known[0]], known[1]) if known else None

    def _misfit(self, tasks: list[Task], least: int, policy: PlacementPolicy, pool: int) -> Misfit | None:
        placer = Placer(self._filters, self._snapshot.pools[pool].span, policy)
        with self._filters.ledger.attempt():
            outcome = placer.place(tasks, least, minimum_only=True)
        return outcome.misfit if outcome.placed is None else None


class FitTest(ABC):
    """Whether what is wanted still fits, as victims are put back one by one.

    `standing` is where it was last seen to fit, if the test remembers that.
    """

    last_fit: Placed = []

    @abstractmethod
    def fits(self) -> bool:
        """Whether it fits now."""

    @abstractmethod
    def placed(self) -> Placed:
        """Where it goes, once nobody more can be put back."""

    def refresh(self, columns: Sequence[int]) -> None:  # noqa: B027 - who looks anew each time need not know
        """Learn that something changed on these nodes."""


class NodeFitTest(FitTest):
    """One task on one node."""

    def __init__(self, filters: Filters, span: NodeSpan, task: Task, column: int) -> None:
        self._filters, self._span, self._task, self._column = filters, span, task, column

    def fits(self) -> bool:
        return self._filters.fits_on(self._task, self._column, self._span)

    def placed(self) -> Placed:
        return [(self._task, self._column)]


class GangFitTest(FitTest):
    """A gang in a pool: where a bound does not tell, it is placed to see, or stands where it stood."""

    def __init__(self, filters: Filters, span: NodeSpan, workload: Workload) -> None:
        self._filters, self._ledger, self._span, self._workload = filters, filters.ledger, span, workload
        self._bound = CapacityBound(filters, span, workload)
        self._has_inter_pod_rules = any(filters.has_inter_pod_rules(task) for task in workload.minimum_tasks)
        self._is_counted = is_uniform(workload) and not self._has_inter_pod_rules
        self._taken: tuple[Placed, dict[int, Amounts]] = ([], {})
        self._changed: Sequence[int] = ()

    def fits(self) -> bool:
        if self._bound.excludes():
            return False
        if self._is_counted or (self.last_fit and not self._has_inter_pod_rules and self._is_undisturbed()):
            return True
        placed = self._place()
        self.last_fit = placed or self.last_fit
        return placed is not None

    def refresh(self, columns: Sequence[int]) -> None:
        self._changed = columns
        self._bound.refresh(columns)

    def placed(self) -> Placed:
        """See `RoomTest`; where it stood last, should it not find its way again."""
        return self._place() or self.last_fit

    def _place(self) -> Placed | None:
        placer = Placer(self._filters, self._span, self._workload.placement)
        with self._ledger.attempt():
            return placer.place(self._workload.missing, self._workload.lacking, minimum_only=True).placed

    def _is_undisturbed(self) -> bool:
        """Whether nodes that have changed still have room for what the gang takes of them."""
        taken = self._amounts()
        return not any(
            ((taken[column] > self._ledger.room[:, column]) & (taken[column] > 0)).any()
            for column in self._changed
            if column in taken
        )

    def _amounts(self) -> dict[int, Amounts]:
        """What the gang takes of each node where it stands."""
        if self._taken[0] is not self.last_fit:
            amounts: dict[int, Amounts] = {}
            for task, column in self.last_fit:
                vector = self._ledger.demand(task.shape).vector
                amounts[column] = amounts[column] + vector if column in amounts else vector
            self._taken = self.last_fit, amounts
        return self._taken[1]


def is_uniform(workload: Workload) -> bool:
    """Whether all that a workload misses is of one kind."""
    return len({(task.shape, task.identity) for task in workload.missing}) == 1
