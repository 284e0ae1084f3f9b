"""Service: what a workload gets at its turn.

First the room that was kept for it, then room that is free now, then room that is about to become free. It
gets its minimum whole or nothing at all.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.engine.affinity import Occupant
from shoal.engine.config import SchedulerConfig
from shoal.engine.filters import Filters
from shoal.engine.nodes import NodeSpan
from shoal.engine.placement import Misfit, Placed, PlaceOutcome, Placer, equivalence_runs
from shoal.engine.plan import EvictionReason
from shoal.engine.policy_answers import CheckedAnswers
from shoal.engine.preemption import Preemption
from shoal.engine.releasing import Releasing
from shoal.engine.snapshot import Snapshot
from shoal.engine.victims import VictimLevel
from shoal.engine.workload import Shape, Task, Workload

_REASONS: Final[dict[VictimLevel, EvictionReason]] = {
    VictimLevel.FOREIGN: "Reclaimed",
    VictimLevel.EXTRA: "Shrunk",
    VictimLevel.HOME: "Preempted",
}


class ServeResult(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What a workload got at its turn. One at which it got nothing may be that of all who are like it, too.

    `unmet`: its minimum is still not whole. `behind`: it would be, but for room that is kept for others.
    `evicting`: others must leave before it can have what it is nominated for.
    """

    workload: Workload
    placed: Placed = []
    nominated: Placed = []
    unmet: bool = False
    blocked_by_reservations: bool = False
    evicting: int = 0
    misfit: Misfit | None = None


class Allocator:
    """Serves workloads from one ledger, one after another."""

    def __init__(
        self, snapshot: Snapshot, filters: Filters, config: SchedulerConfig, answers: CheckedAnswers
    ) -> None:
        """Serve from what the filters let through; where there is advice, try that first."""
        self._snapshot, self._filters, self._config, self._answers = snapshot, filters, config, answers
        self.ledger = filters.ledger
        self.releasing = Releasing(snapshot, self.ledger)
        self._preemption = Preemption(snapshot, filters, self.releasing)
        self._reserved: dict[Task, int] = {}
        self._served: set[Workload] = set()
        self._failures: dict[tuple[object, ...], tuple[tuple[int, int], ServeResult]] = {}

    def restore_reservations(self, queue: list[Workload]) -> None:
        """Keep the room that earlier cycles reserved, where it can still become free; minimums go first."""
        promised = [workload for workload in queue if workload.nominated]
        for workload in sorted(promised, key=lambda workload: not workload.unmet):
            span = self._span(workload)
            kept = [(t, t.nominated) for t in workload.nominated if t.nominated in span]
            if kept and self._may_keep(workload, kept) and self._fits_after_release(workload, kept):
                for task, column in kept:
                    self.reserve(task, column)

    def _may_keep(self, workload: Workload, kept: Placed) -> bool:
        """Whether room is kept for all of a minimum, or for more than that but not for too much."""
        if workload.held or self.is_borrowing(workload):
            return False
        if workload.unmet:
            return completes_minimum(workload, kept)
        if not workload.elastic or len(kept) < len(workload.nominated):
            return False
        span, left = self._span(workload), self.releasing.remaining(workload)
        size = workload.done + sum(task.varying for task in left) + len(kept)
        return size <= workload.ceiling and all(task.column in span for task in left)

    def serve(self, workload: Workload) -> ServeResult:
        """Give a workload what it can have at home; an elastic one that has its minimum gets more later."""
        if workload.is_single_pod:
            return self._cached_failure(workload) or self.record(self._serve_fresh(workload))
        if workload.elastic and not workload.unmet:
            return ServeResult(workload=workload)
        kept = [(task, self._release(task)) for task in workload.nominated if task in self._reserved]
        if workload.held or self.releasing.is_victim(workload) or self.is_borrowing(workload):
            return ServeResult(workload=workload, unmet=workload.unmet)
        result = self._use_reservations(workload, kept) or self._follow_policy(workload)
        return self.record(result or self._cached_failure(workload) or self._serve_fresh(workload))

    def use_growth_reservations(self, workload: Workload) -> tuple[Placed, Placed]:
        """Use the room that was kept for it beyond its minimum: what it got, and what is kept on."""
        if workload.unmet:
            return [], []
        kept = [(task, self._release(task)) for task in workload.nominated if task in self._reserved]
        if not kept or self.releasing.is_victim(workload):
            return [], []
        with self.ledger.attempt() as attempt:
            if self._put(workload, kept):
                attempt.keep()
                return kept, []
        if not self._fits_after_release(workload, kept):
            return [], []
        for task, column in kept:
            self.reserve(task, column)
        return [], kept

    def serve_in_pool(self, workload: Workload, pool: int) -> ServeResult | None:
        """Give a workload what it can have in another pool: its minimum at least, or nothing."""
        span = self._snapshot.pools[pool].span
        present = [(task, task.column) for task in workload.placed]
        placer = Placer(self._filters, span, workload.placement, present)
        outcome = placer.place(workload.missing, workload.lacking, minimum_only=workload.elastic)
        if not outcome.placed:
            return None
        return ServeResult(workload=workload, placed=outcome.placed, misfit=outcome.misfit)

    def preempt(self, workload: Workload) -> ServeResult | None:
        """Have others leave its home pool, if that helps and may be."""
        if self._config.disable_preemption or not workload.may_preempt or workload.placed:
            return None
        lawful = self._snapshot.pools[workload.pool].preemption
        with self.ledger.attempt():
            self.releasing.clear(self._span(workload))
            clearance = self._preemption.clear(workload, self._served, surplus_only=not lawful)
        if clearance is None:
            return None
        for unit in clearance.victims:
            self.releasing.evict(unit.workload, unit.tasks, _REASONS[unit.level], workload)
            for task in (task for task in unit.workload.nominated if task in self._reserved):
                self._release(task)
        result = self._nominate(workload, clearance.placed)
        return self.record(replace(result, evicting=len(clearance.victims)))

    def preempt_after_borrowing(self, workload: Workload) -> ServeResult | None:
        """Have others leave, where borrowing is tried first and has failed."""
        if self._order_of(workload) != "BorrowFirst" or not workload.unmet or self.is_borrowing(workload):
            return None
        return self._nominate_released_room(workload) or self.preempt(workload)

    def record(self, result: ServeResult) -> ServeResult:
        """Remember who got something: nobody takes it away again in this cycle."""
        if result.placed or result.nominated:
            self._served.add(result.workload)
        return result

    def _cached_failure(self, workload: Workload) -> ServeResult | None:
        """What a workload gets if one that is just like it got nothing, and nothing has changed since."""
        equivalence_key = self._equivalence_key(workload)
        moment, result = self._failures.get(equivalence_key, (None, None))
        if result is None or moment != self._version():
            return None
        if not self._share_result(workload, result.workload):
            result = _for_equivalent(result, workload)
            self._failures[equivalence_key] = self._version(), result
        return result

    def _share_result(self, workload: Workload, other: Workload) -> bool:
        """Whether all that is said of one of two that are alike is true of the other."""
        unknown = self.ledger.inter_pod is None
        return workload.is_single_pod and (unknown or workload.tasks[0].identity is other.tasks[0].identity)

    def _serve_fresh(self, workload: Workload) -> ServeResult:
        """Place a workload, or have others make room for it."""
        result = self._place_now(workload)
        if result.unmet and not result.nominated and self._order_of(workload) == "PreemptFirst":
            result = self.preempt(workload) or result
        if result.unmet and not result.nominated:
            self._failures[self._equivalence_key(workload)] = self._version(), result
        return result

    def _equivalence_key(self, workload: Workload) -> tuple[object, ...]:
        """What workloads have in common that get the same at their turn, if nothing is kept for them."""
        if self.ledger.inter_pod is None:
            return workload.equivalence_key
        return workload.equivalence_key, equivalence_runs(workload.missing, self._filters)

    def _version(self) -> tuple[int, int]:
        """What is the same as long as nobody comes or leaves."""
        return self.ledger.version, len(self.releasing.evictions)

    def _order_of(self, workload: Workload) -> str:
        return self._snapshot.pools[workload.pool].order or self._config.order

    def _use_reservations(self, workload: Workload, kept: Placed) -> ServeResult | None:
        """Use the room that was kept for its minimum; or go on keeping it, while it can still become free."""
        if not kept:
            return None
        with self.ledger.attempt() as attempt:
            if self._put(workload, kept):
                attempt.keep()
                chosen = {task for task, _ in kept}
                rest = [task for task in workload.missing if task not in chosen]
                more = self._place(workload, rest, 0, minimum_only=workload.elastic, before=kept)
                return self._placed_result(workload, PlaceOutcome([*kept, *(more.placed or ())], more.misfit))
        return self._nominate(workload, kept) if self._fits_after_release(workload, kept) else None

    def _follow_policy(self, workload: Workload) -> ServeResult | None:
        """Start a workload that has nothing yet on the nodes that a policy wants for it."""
        columns = self._answers.of(workload)
        if columns is None or workload.placed:
            return None
        wanted = [(task, columns[task.number]) for task in workload.minimum_tasks]
        with self.ledger.attempt() as attempt:
            if self._put(workload, wanted):
                attempt.keep()
                return ServeResult(workload=workload, placed=wanted)
        self._answers.refuse(workload, "its minimum does not fit on the nodes that were chosen")
        return None

    def _fits_after_release(self, workload: Workload, kept: Placed) -> bool:
        """Whether tasks fit on given nodes once terminating pods are gone."""
        with self.ledger.attempt():
            self.releasing.clear(self._span(workload))
            return self._put(workload, kept)

    def _place_now(self, workload: Workload) -> ServeResult:
        """Place it on room that is free; if there is too little, on room that will be."""
        outcome = self._place(workload, workload.missing, workload.lacking, minimum_only=workload.elastic)
        if outcome.placed is not None:
            return self._placed_result(workload, outcome)
        soon = self._nominate_released_room(workload)
        if soon is not None:
            return soon
        blocked_by_reservations = self._is_blocked_by_reservations(
            workload, workload.missing, workload.lacking, unmet=True
        )
        return ServeResult(
            workload=workload,
            unmet=True,
            blocked_by_reservations=blocked_by_reservations,
            misfit=outcome.misfit,
        )

    def _nominate_released_room(self, workload: Workload) -> ServeResult | None:
        """Keep room for its minimum that becomes free once terminating pods are gone."""
        with self.ledger.attempt():
            placed = self._place_after_release(workload)
        return None if placed is None else self.record(self._nominate(workload, placed))

    def _placed_result(self, workload: Workload, outcome: PlaceOutcome) -> ServeResult:
        placed = outcome.placed or []
        if workload.elastic or len(placed) == len(workload.missing):
            return ServeResult(workload=workload, placed=placed)
        chosen = {task for task, _ in placed}
        blocked_by_reservations = self._is_blocked_by_reservations(
            workload, [task for task in workload.missing if task not in chosen], 0, unmet=False
        )
        return ServeResult(
            workload=workload,
            placed=placed,
            blocked_by_reservations=blocked_by_reservations,
            misfit=outcome.misfit,
        )

    def _is_blocked_by_reservations(
        self, workload: Workload, tasks: Sequence[Task], lacking: int, *, unmet: bool
    ) -> bool:
        """Whether it would get more, but for room that is kept for others."""
        if not self._reserved:
            return False
        with self.ledger.attempt():
            self.ledger.drop_reservations(self._span(workload))
            if self._place(workload, tasks, lacking).placed:
                return True
            return unmet and self._place_after_release(workload) is not None

    def _place_after_release(self, workload: Workload) -> Placed | None:
        """Its minimum, with the terminating pods out of the way."""
        if not self.releasing.clear(self._span(workload)):
            return None
        return self._place(workload, workload.missing, workload.lacking, minimum_only=True).placed

    def _place(
        self,
        workload: Workload,
        tasks: Sequence[Task],
        lacking: int,
        *,
        minimum_only: bool = False,
        before: Sequence[tuple[Task, int]] = (),
    ) -> PlaceOutcome:
        present = [*((task, task.column) for task in workload.placed), *before]
        placer = Placer(self._filters, self._span(workload), workload.placement, present)
        return placer.place(tasks, lacking, minimum_only=minimum_only)

    def is_borrowing(self, workload: Workload) -> bool:
        """Whether it has nodes outside its home pool: it is not split, and nobody lends it more."""
        home = self._span(workload)
        first = next(iter(workload.placed), None)
        return first is not None and first.column not in home

    def _nominate(self, workload: Workload, placed: Placed) -> ServeResult:
        for task, column in placed:
            self.reserve(task, column)
        return ServeResult(workload=workload, nominated=placed, unmet=True)

    def _put(self, workload: Workload, tasks: Placed) -> bool:
        """Put tasks on given nodes of its pool; whether all fit."""
        span = self._span(workload)
        for task, column in tasks:
            if not self._filters.fitting(task, span)[column - span.start]:
                return False
            self.ledger.add(Occupant(column, task.shape, task.identity))
        return True

    def reserved_shapes(self) -> list[Shape]:
        """The shapes of all that room is kept for."""
        return [task.shape for task in self._reserved]

    def reserve(self, task: Task, column: int) -> None:
        """Keep room on a node for a task."""
        self.ledger.reserve(Occupant(column, task.shape, task.identity))
        self._reserved[task] = column

    def _release(self, task: Task) -> int:
        column = self._reserved.pop(task)
        self.ledger.release(Occupant(column, task.shape, task.identity))
        return column

    def _span(self, workload: Workload) -> NodeSpan:
        return self._snapshot.pools[workload.pool].span


def distinct_results(results: Mapping[Workload, ServeResult]) -> list[ServeResult]:
    """Each turn once, however many share it."""
    return list(dict.fromkeys(results.values()))


def _for_equivalent(result: ServeResult, workload: Workload) -> ServeResult:
    """The same turn, of another workload that is alike."""
    misfit = result.misfit
    if misfit:
        place = result.workload.missing.index(misfit.task)
        misfit = Misfit(workload.missing[place], misfit.message)
    return replace(result, workload=workload, misfit=misfit)


def completes_minimum(workload: Workload, placed: Placed) -> bool:
    """Whether its minimum is whole with these tasks placed."""
    chosen = {task for task, _ in placed}
    fixed = all(task in chosen for task in workload.missing if task.is_fixed)
    return fixed and sum(task.varying for task in chosen) >= workload.lacking
