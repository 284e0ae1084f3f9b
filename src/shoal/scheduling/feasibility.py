"""Feasibility: what could run if only there were room, told apart from what never can."""

from collections import defaultdict
from collections.abc import Collection, Mapping

from shoal.scheduling.filters import Filters
from shoal.scheduling.placement import Misfit, Placer, runs_of
from shoal.scheduling.queues import by_pool
from shoal.scheduling.snapshot import Snapshot
from shoal.scheduling.workload import PlacementPolicy, Task, Workload


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
