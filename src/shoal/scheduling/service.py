"""Service: what a workload gets at its turn.

First the room that was kept for it, then room that is free now, then room that is about to become free. It
gets its minimum whole or nothing at all.
"""

import msgspec

from shoal.scheduling.filters import Filters
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.placement import Misfit, Placed, Placer
from shoal.scheduling.snapshot import Snapshot
from shoal.scheduling.workload import NOWHERE, Task, Workload


class Turn(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What a workload got at its turn.

    `unmet`: its minimum is still not whole. `behind`: it would be, but for room that is kept for others.
    """

    workload: Workload
    placed: Placed = []
    nominated: Placed = []
    unmet: bool = False
    behind: bool = False
    misfit: Misfit | None = None


class Service:
    """Serves workloads from one ledger, one after another."""

    def __init__(self, snapshot: Snapshot, filters: Filters) -> None:
        """Serve from what the filters let through."""
        self._snapshot = snapshot
        self._filters = filters
        self._ledger = filters.ledger
        self._reserved: dict[Task, int] = {}

    def keep_reservations(self, queue: list[Workload]) -> None:
        """Keep the room that earlier cycles reserved, as far as the nodes still have it."""
        for workload in queue:
            span = self._span(workload)
            for task in workload.nominated:
                if span.start <= task.nominated < span.stop and self._could_hold(task):
                    self._reserve(task, task.nominated)

    def serve(self, workload: Workload) -> Turn:
        """Give a workload what it can have."""
        kept = [(task, self._release(task)) for task in workload.nominated if task in self._reserved]
        if workload.held:
            return Turn(workload=workload, unmet=_is_unmet(workload))
        return (
            (self._as_kept(workload, kept) if kept else None)
            or self._now(workload)
            or self._soon(workload)
            or self._nothing(workload)
        )

    def _as_kept(self, workload: Workload, kept: Placed) -> Turn | None:
        """Use the room that was kept; or go on keeping it, while it can still become free."""
        with self._ledger.attempt() as attempt:
            if self._put(kept):
                chosen = {task for task, _ in kept}
                rest = [task for task in workload.missing if task not in chosen]
                need = _need(workload) - sum(task.varying for task in chosen)
                more = self._placer(workload).place(rest, max(need, 0), minimum_only=workload.elastic)
                if more is not None:
                    attempt.keep()
                    return Turn(workload=workload, placed=kept + more)
        with self._ledger.attempt():
            self._clear_leaving(workload)
            works = self._put(kept)
        return self._nominate(workload, kept) if works else None

    def _now(self, workload: Workload) -> Turn | None:
        """Place it on room that is free."""
        placer = self._placer(workload)
        placed = placer.place(workload.missing, _need(workload), minimum_only=workload.elastic)
        return None if placed is None else Turn(workload=workload, placed=placed, misfit=placer.misfit)

    def _soon(self, workload: Workload) -> Turn | None:
        """Keep room for its minimum that becomes free once terminating pods are gone."""
        with self._ledger.attempt():
            if not self._clear_leaving(workload):
                return None
            placed = self._placer(workload).place(workload.missing, _need(workload), minimum_only=True)
        return None if placed is None else self._nominate(workload, placed)

    def _nothing(self, workload: Workload) -> Turn:
        placer = self._placer(workload)
        placer.place(workload.missing, _need(workload), minimum_only=True)
        return Turn(workload=workload, unmet=True, behind=self._is_behind(workload), misfit=placer.misfit)

    def _is_behind(self, workload: Workload) -> bool:
        if not self._reserved:
            return False
        with self._ledger.attempt():
            self._ledger.forget_reservations(self._span(workload))
            placed = self._placer(workload).place(workload.missing, _need(workload), minimum_only=True)
        return placed is not None

    def _nominate(self, workload: Workload, placed: Placed) -> Turn:
        for task, column in placed:
            self._reserve(task, column)
        return Turn(workload=workload, nominated=placed, unmet=True)

    def _put(self, tasks: Placed) -> bool:
        """Put tasks on given nodes; whether all fit."""
        for task, column in tasks:
            if not self._filters.fitting(task, slice(column, column + 1))[0]:
                return False
            self._ledger.add(Occupant(column, task.shape, task.identity))
        return True

    def _clear_leaving(self, workload: Workload) -> bool:
        """Take the terminating pods of its pool out; whether there were any."""
        span = self._span(workload)
        leaving = [o for o in self._snapshot.leaving if span.start <= o.column < span.stop]
        for occupant in leaving:
            self._ledger.remove(occupant)
        return bool(leaving)

    def _could_hold(self, task: Task) -> bool:
        """Whether a node has, in all, room for what is kept on it and this task."""
        column = task.nominated
        kept = self._ledger.reserved[:, column] + self._ledger.demand(task.shape).vector
        return bool((kept <= self._ledger.nodes.alloc[:, column]).all())

    def _reserve(self, task: Task, column: int) -> None:
        self._ledger.reserve(column, task.shape)
        self._reserved[task] = column

    def _release(self, task: Task) -> int:
        column = self._reserved.pop(task)
        self._ledger.release(column, task.shape)
        return column

    def _placer(self, workload: Workload) -> Placer:
        return Placer(self._filters, self._span(workload), workload)

    def _span(self, workload: Workload) -> slice:
        """Where it is served: with its first placed task, else in its home pool."""
        column = next((task.column for task in workload.tasks if task.column != NOWHERE), NOWHERE)
        if column == NOWHERE:
            return self._snapshot.pools[workload.pool].span
        return next(pool.span for pool in self._snapshot.pools if pool.span.start <= column < pool.span.stop)


def _need(workload: Workload) -> int:
    """How many varying tasks its minimum lacks."""
    return max(workload.minimum - workload.done - sum(task.varying for task in workload.placed), 0)


def _is_unmet(workload: Workload) -> bool:
    return _need(workload) > 0 or any(not task.varying for task in workload.missing)
