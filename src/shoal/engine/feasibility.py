"""Bounds: when a gang certainly does not fit, seen without placing it.

Whatever the order in which a gang is placed, no node takes more of a shape than fits it alone, and no node
gives more of a resource than it has left, or than the shapes that fit it could use. If all nodes together
cannot give what the gang needs at least, it need not be tried. For a gang of one shape that is all there is
to it: what is not excluded fits.

Feasibility: what could run if only there were room, told apart from what never can.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from shoal.engine.filters import Filters
from shoal.engine.nodes import Span
from shoal.engine.placement import Misfit, Placer, runs_of
from shoal.engine.queues import by_pool
from shoal.engine.ranking import Indices
from shoal.engine.resources import UNLIMITED, Amounts, exact_sums
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import PlacementPolicy, Task, Workload

_LARGE: Final = 2 * UNLIMITED
"""What comes to more than this is not counted, so that no sum overflows."""


class Bound:
    """The most that the nodes of a span could take of a gang's minimum, and what it needs.

    Counted are pods of each shape, and then units of each resource that the shapes ask for.
    """

    def __init__(self, filters: Filters, span: Span, workload: Workload) -> None:
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
        self._judged: set[Workload] = set()
        self._fitting: set[tuple[Workload, int]] = set()
        self._misfits: dict[tuple[Workload, int], Misfit] = {}
        self._alike: dict[tuple[object, ...], tuple[int, str] | None] = {}

    def judge(self, workloads: Collection[Workload]) -> None:
        """Judge workloads by their home pools, and what does not fit there by who may lend to it."""
        fresh = [workload for workload in workloads if workload not in self._judged]
        self._judged.update(fresh)
        self._judge(by_pool(fresh))
        asking: defaultdict[int, list[Workload]] = defaultdict(list)
        for workload in fresh:
            if not self.fits_home(workload):
                for lender in self._lenders(workload):
                    asking[lender].append(workload)
        self._judge(asking)

    def fits_home(self, workload: Workload) -> bool:
        """Whether its minimum would fit its home pool, were that empty."""
        return (workload, workload.pool) in self._fitting

    def never(self, workload: Workload) -> Misfit | None:
        """The task that no pool open to the workload could ever take; None while there is hope."""
        pools = (workload.pool, *self._lenders(workload))
        if any((workload, pool) in self._fitting for pool in pools):
            return None
        found = (self._misfits.get((workload, pool)) for pool in pools)
        return next((misfit for misfit in found if misfit), None)

    def _lenders(self, workload: Workload) -> tuple[int, ...]:
        return self._snapshot.pools[workload.pool].lenders if workload.may_borrow else ()

    def _judge(self, asking: Mapping[int, list[Workload]]) -> None:
        """Judge workloads by pools; each pool is emptied once for all that ask for it."""
        ledger = self._filters.ledger
        for number, workloads in asking.items():
            pool = self._snapshot.pools[number]
            with ledger.attempt():
                ledger.vacate(pool.span)
                for workload in workloads if len(pool.span) else ():
                    self._judge_one(workload, number)

    def _judge_one(self, workload: Workload, pool: int) -> None:
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
        key = (pool, workload.placement, least, runs_of(tasks, self._filters))
        if key not in self._alike:
            misfit = self._misfit(tasks, least, workload.placement, pool)
            self._alike[key] = (tasks.index(misfit.task), misfit.complaint) if misfit else None
        known = self._alike[key]
        return Misfit(tasks[known[0]], known[1]) if known else None

    def _misfit(self, tasks: list[Task], least: int, policy: PlacementPolicy, pool: int) -> Misfit | None:
        placer = Placer(self._filters, self._snapshot.pools[pool].span, policy)
        with self._filters.ledger.attempt():
            outcome = placer.place(tasks, least, minimum_only=True)
        return outcome.misfit if outcome.placed is None else None
