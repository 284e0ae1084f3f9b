"""Feasibility: what could run if only there were room, told apart from what never can."""

from collections.abc import Iterable

from shoal.scheduling.filters import Filters
from shoal.scheduling.placement import Misfit, Placer
from shoal.scheduling.queues import by_pool
from shoal.scheduling.shape import Shape
from shoal.scheduling.snapshot import Pool, Snapshot
from shoal.scheduling.workload import Workload


class Feasibility:
    """Judges workloads against pools as if these were empty and all their nodes well."""

    def __init__(self, snapshot: Snapshot, filters: Filters, workloads: Iterable[Workload]) -> None:
        """Judge `workloads`, each pool being emptied once for all of them."""
        self._snapshot, self._filters = snapshot, filters
        self._misfits: dict[tuple[Workload, int], Misfit | None] = {}
        self._alike: dict[tuple[Shape, int] | None, Misfit | None] = {}
        judged = list(workloads)
        for number, homely in by_pool(judged).items():
            self._judge(number, snapshot.pools[number], homely)
        homeless = [w for w in judged if w.may_borrow and not self.fits_home(w)]
        for number, pool in enumerate(snapshot.pools):
            self._judge(number, pool, [w for w in homeless if number in snapshot.pools[w.pool].lenders])

    def fits_home(self, workload: Workload) -> bool:
        """Whether its minimum would fit its home pool, were that empty."""
        return self._fits(workload, workload.pool)

    def never(self, workload: Workload) -> Misfit | None:
        """The task that no pool open to the workload could ever take; None while there is hope."""
        pools = self._open_to(workload)
        if not any(len(self._snapshot.pools[pool].span) for pool in pools):
            return None
        if any(self._fits(workload, pool) for pool in pools):
            return None
        found = (self._misfits.get((workload, pool)) for pool in pools)
        return next((misfit for misfit in found if misfit is not None), None)

    def _open_to(self, workload: Workload) -> tuple[int, ...]:
        lenders = self._snapshot.pools[workload.pool].lenders if workload.may_borrow else ()
        return (workload.pool, *lenders)

    def _fits(self, workload: Workload, pool: int) -> bool:
        return (workload, pool) in self._misfits and self._misfits[workload, pool] is None

    def _judge(self, number: int, pool: Pool, workloads: list[Workload]) -> None:
        if not workloads or not len(pool.span):
            return
        with self._filters.ledger.attempt():
            self._filters.ledger.vacate(pool.span)
            for workload in workloads:
                self._misfits[workload, number] = self._misfit(workload, number, pool)

    def _misfit(self, workload: Workload, number: int, pool: Pool) -> Misfit | None:
        """The task that does not fit the emptied pool; tasks alone and alike are judged once."""
        least = max(workload.minimum - workload.done, 0)
        alone = len(workload.tasks) == 1 == least and self._filters.ledger.neighbours is None
        key = (workload.tasks[0].shape, number) if alone else None
        if key in self._alike:
            return self._alike[key]
        placer = Placer(self._filters, pool.span, workload.placement)
        with self._filters.ledger.attempt():
            outcome = placer.place(workload.tasks, least, minimum_only=True)
        misfit = None if outcome.placed is not None else outcome.misfit
        if key:
            self._alike[key] = misfit
        return misfit
