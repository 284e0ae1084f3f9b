"""Fit tests: whether a workload would fit, under assumptions about which pods are gone.

`CapacityBound` sees without placing that a gang certainly does not fit. `FitTest` answers whether the
workload that preempts still fits while victims are put back one by one. `Feasibility` answers whether a
workload could run in an empty pool, and so tells "not now" from "never".
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from shoal.engine.filters import Filters
from shoal.engine.impossibility import is_impossible
from shoal.engine.layout import Amounts, exact_sums
from shoal.engine.nodes import NodeSpan
from shoal.engine.placement import Misfit, Placed, Placer, equivalence_runs
from shoal.engine.queues import by_pool
from shoal.engine.ranking import Indices
from shoal.engine.resources import UNLIMITED
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import PlacementPolicy, Task, Workload

_LARGE: Final = 2 * UNLIMITED
"""Resources whose total requests exceed this are not counted, so that sums do not overflow."""


class CapacityBound:
    """An upper bound on what the nodes of a span could take of a gang's minimum, and what it needs.

    Whatever the order of placement, no node takes more tasks of a shape than fit it alone, and no node gives
    more of a resource than it has left, or than the shapes that fit it could use. If all nodes together give
    less than the gang needs at least, it cannot fit. For a gang of one shape without inter-pod rules the
    bound is exact: it fits unless it is excluded. Counted are the tasks of each shape, and the units of each
    requested resource.
    """

    def __init__(self, filters: Filters, span: NodeSpan, workload: Workload) -> None:
        """Compute the bound over every node of the span."""
        self._ledger, self._span = filters.ledger, span
        tasks = workload.missing
        first = {task.shape: task for task in tasks}
        numbers = {shape: number for number, shape in enumerate(first)}
        self._suitable = np.array([filters.suitable(task)[span.columns] for task in first.values()])
        self._requests = np.array([self._ledger.demand(shape).vector for shape in first])
        self._counts = np.bincount([numbers[task.shape] for task in tasks])[:, None]
        totals = (self._requests.astype(object) * self._counts).sum(axis=0)
        self._rows = [row for row, total in enumerate(totals) if 0 < total < _LARGE]
        self._gcds = np.gcd.reduce(self._requests[:, self._rows], axis=0)[:, None]
        weights = np.concatenate([np.eye(len(first), dtype=np.int64), self._requests[:, self._rows].T])
        self._needs = _needs(tasks, [weights[:, numbers[task.shape]] for task in tasks], workload.lacking)
        self._capacity = self._capacity_of(np.arange(len(span)))
        self._totals = exact_sums(self._capacity)

    def excludes(self) -> bool:
        """Whether the gang certainly does not fit."""
        return any(total < need for total, need in zip(self._totals, self._needs, strict=True))

    def refresh(self, columns: Sequence[int]) -> None:
        """Update the bound for nodes that have changed."""
        nodes = np.array([column for column in set(columns) if column in self._span], dtype=np.intp)
        nodes -= self._span.start
        before, self._capacity[:, nodes] = self._capacity[:, nodes], self._capacity_of(nodes)
        more = exact_sums(self._capacity[:, nodes] - before)
        self._totals = [total + change for total, change in zip(self._totals, more, strict=True)]

    def _capacity_of(self, nodes: Indices) -> Amounts:
        """The most that each of some nodes, by their positions in the span, could take."""
        room = np.maximum(self._ledger.room[:, nodes + self._span.start], 0)
        times = room // np.maximum(self._requests, 1)[:, :, None]
        times[self._requests == 0] = UNLIMITED
        pods = np.minimum(times.min(axis=1), self._counts) * self._suitable[:, nodes]
        units = room[self._rows] // self._gcds * self._gcds
        return np.concatenate([pods, np.minimum(units, self._requests[:, self._rows].T @ pods)])


def _needs(tasks: Sequence[Task], weights: Sequence[Amounts], lacking: int) -> list[int]:
    """What the minimum needs at least of everything counted.

    These are all tasks that do not vary, and the `lacking` smallest amounts of those that do.
    """
    fixed = [weight for task, weight in zip(tasks, weights, strict=True) if not task.varying]
    varying = [weight for task, weight in zip(tasks, weights, strict=True) if task.varying]
    least = np.sort(np.array(varying).T, axis=1)[:, :lacking] if varying else np.zeros((len(weights[0]), 0))
    return [sum(map(int, some)) for some in zip(*fixed, *least.T, strict=True)]


class Feasibility:
    """Evaluates workloads against pools as if these were empty and all their nodes healthy.

    A minimum fits a pool if it can be placed there, and never fits if there is proof that it cannot. Between
    the two are minimums that the placer fails to arrange: they wait, and neither lending nor rebalancing
    waits for them.
    """

    def __init__(self, snapshot: Snapshot, filters: Filters) -> None:
        """`filters` should ignore transient conditions."""
        self._snapshot, self._filters = snapshot, filters
        self._evaluated: set[Workload] = set()
        self._fitting: set[tuple[Workload, int]] = set()
        self._misfits: dict[tuple[Workload, int], Misfit] = {}
        self._known: dict[tuple[object, ...], tuple[bool, tuple[int, str] | None]] = {}

    def evaluate(self, workloads: Collection[Workload]) -> None:
        """Evaluate workloads in their home pools, and those that do not fit there in the pools of lenders."""
        fresh = [workload for workload in workloads if workload not in self._evaluated]
        self._evaluated.update(fresh)
        self._evaluate(by_pool(fresh))
        by_lender: defaultdict[int, list[Workload]] = defaultdict(list)
        for workload in fresh:
            if not self.fits_home(workload):
                for lender in self._lenders(workload):
                    by_lender[lender].append(workload)
        self._evaluate(by_lender)

    def fits_home(self, workload: Workload) -> bool:
        """Whether its minimum would fit its home pool if that were empty."""
        return (workload, workload.pool) in self._fitting

    def never_fits(self, workload: Workload) -> Misfit | None:
        """A task that finds no node, if there is proof that no pool open to the workload fits its minimum."""
        pools = (workload.pool, *self._lenders(workload))
        found = [self._misfits.get((workload, pool)) for pool in pools if len(self._span(pool))]
        return found[0] if found and all(found) else None

    def _span(self, pool: int) -> NodeSpan:
        return self._snapshot.pools[pool].span

    def _lenders(self, workload: Workload) -> tuple[int, ...]:
        return self._snapshot.pools[workload.pool].lenders if workload.may_borrow else ()

    def _evaluate(self, pools: Mapping[int, list[Workload]]) -> None:
        """Evaluate workloads by pool number; each pool is emptied once for all its workloads."""
        ledger = self._filters.ledger
        for number, workloads in pools.items():
            span = self._span(number)
            with ledger.attempt():
                ledger.clear(span)
                for workload in workloads if len(span) else ():
                    self._evaluate_one(workload, number)

    def _evaluate_one(self, workload: Workload, pool: int) -> None:
        """Evaluate one workload, unless some pods of its minimum do not exist yet."""
        least = max(workload.minimum - workload.done, 0)
        if sum(task.varying for task in workload.tasks) < least:
            return
        fits, misfit = self._judge(workload, pool, least)
        if fits:
            self._fitting.add((workload, pool))
        elif misfit:
            self._misfits[workload, pool] = misfit

    def _judge(self, workload: Workload, pool: int, least: int) -> tuple[bool, Misfit | None]:
        """Whether a workload fits a pool, and its misfit if it never does; equal ones are judged once."""
        tasks = [task for task in workload.tasks if not task.follows]
        key = (pool, workload.placement, least, equivalence_runs(tasks, self._filters))
        if key not in self._known:
            fits, misfit = self._judge_tasks(tasks, least, workload.placement, pool)
            self._known[key] = fits, (tasks.index(misfit.task), misfit.message) if misfit else None
        fits, known = self._known[key]
        return fits, Misfit(tasks[known[0]], known[1]) if known else None

    def _judge_tasks(
        self, tasks: list[Task], least: int, policy: PlacementPolicy, pool: int
    ) -> tuple[bool, Misfit | None]:
        span = self._span(pool)
        with self._filters.ledger.attempt():
            outcome = Placer(self._filters, span, policy).place(tasks, least, minimum_only=True)
        if outcome.placed is not None:
            return True, None
        return False, outcome.misfit if is_impossible(tasks, least, self._filters, span) else None


class FitTest(ABC):
    """Whether the preempting workload still fits, as victims are put back one by one.

    `last_fit` is the placement that was last seen to fit, if the test keeps it. `is_monotone`: what does not
    fit now does not fit either after more victims have been put back.
    """

    last_fit: Placed = []
    is_monotone: bool

    @abstractmethod
    def fits(self) -> bool:
        """Whether it fits now."""

    @abstractmethod
    def placed(self) -> Placed:
        """Where the tasks go, once no more victims can be put back."""

    def refresh(self, columns: Sequence[int]) -> None:  # noqa: B027 - optional: only tests that keep results need it
        """Note that these nodes have changed."""


class NodeFitTest(FitTest):
    """One task on one node."""

    def __init__(self, filters: Filters, span: NodeSpan, task: Task, column: int) -> None:
        self._filters, self._span, self._task, self._column = filters, span, task, column
        self.is_monotone = not (task.shape.pod_affinity or task.shape.spread)

    def fits(self) -> bool:
        return self._filters.fits_on(self._task, self._column, self._span)

    def placed(self) -> Placed:
        return [(self._task, self._column)]


class GangFitTest(FitTest):
    """A gang in a span: by the bound where that decides, else by placing it.

    A placement that fitted before still holds while the nodes that have changed leave room for it.
    """

    def __init__(self, filters: Filters, span: NodeSpan, workload: Workload) -> None:
        self._filters, self._ledger, self._span, self._workload = filters, filters.ledger, span, workload
        self._bound = CapacityBound(filters, span, workload)
        self._has_inter_pod_rules = any(filters.has_inter_pod_rules(task) for task in workload.minimum_tasks)
        self.is_monotone = self._bound_is_exact = is_uniform(workload) and not self._has_inter_pod_rules
        self._amounts_at: tuple[Placed, dict[int, Amounts]] = ([], {})
        self._changed: Sequence[int] = ()

    def fits(self) -> bool:
        if self._bound.excludes():
            return False
        if self._bound_is_exact or (
            self.last_fit and not self._has_inter_pod_rules and self._is_undisturbed()
        ):
            return True
        placed = self._place()
        self.last_fit = placed or self.last_fit
        return placed is not None

    def refresh(self, columns: Sequence[int]) -> None:
        self._changed = columns
        self._bound.refresh(columns)

    def placed(self) -> Placed:
        """See `FitTest`; falls back to the last placement that fitted."""
        return self._place() or self.last_fit

    def _place(self) -> Placed | None:
        placer = Placer(self._filters, self._span, self._workload.placement)
        with self._ledger.attempt():
            return placer.place(self._workload.missing, self._workload.lacking, minimum_only=True).placed

    def _is_undisturbed(self) -> bool:
        """Whether the nodes that have changed still have room for what the gang takes of them."""
        taken = self._amounts()
        return not any(
            ((taken[column] > self._ledger.room[:, column]) & (taken[column] > 0)).any()
            for column in self._changed
            if column in taken
        )

    def _amounts(self) -> dict[int, Amounts]:
        """What the gang takes of each node by its last placement."""
        if self._amounts_at[0] is not self.last_fit:
            amounts: dict[int, Amounts] = {}
            for task, column in self.last_fit:
                vector = self._ledger.demand(task.shape).vector
                amounts[column] = amounts[column] + vector if column in amounts else vector
            self._amounts_at = self.last_fit, amounts
        return self._amounts_at[1]


def is_uniform(workload: Workload) -> bool:
    """Whether all missing tasks of a workload have the same shape and identity."""
    return len({(task.shape, task.identity) for task in workload.missing}) == 1
