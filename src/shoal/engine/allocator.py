"""Allocator: serves one workload after another from the ledger.

A workload gets the room that was reserved for it, else room that is free now, else it keeps its reservation,
else it gets a reservation of room that is about to become free, or of room from which victims are evicted.
It gets its minimum whole or nothing at all.
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
    VictimLevel.BORROWER: "Reclaimed",
    VictimLevel.SURPLUS: "Shrunk",
    VictimLevel.HOME: "Preempted",
}


class ServeResult(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What a workload got when it was served.

    A result without placements may be shared by equivalent workloads. `nominated`: tasks with a reservation.
    `unmet`: its minimum is still not whole. `blocked_by_reservations`: it would get more if no room were
    reserved for others. `evicting`: the number of units that are evicted for it. `misfit`: the first task
    that found no node.
    """

    workload: Workload
    placed: Placed = []
    nominated: Placed = []
    unmet: bool = False
    blocked_by_reservations: bool = False
    evicting: int = 0
    misfit: Misfit | None = None


class Allocator:
    """Serves workloads from one ledger, one after another, and records what was evicted for them."""

    def __init__(
        self, snapshot: Snapshot, filters: Filters, config: SchedulerConfig, answers: CheckedAnswers
    ) -> None:
        """Serve by the filters; where a policy of the user answered for a workload, try that first."""
        self._snapshot, self._filters, self._config, self._answers = snapshot, filters, config, answers
        self.ledger = filters.ledger
        self.releasing = Releasing(snapshot, self.ledger)
        self._preemption = Preemption(snapshot, filters, self.releasing)
        self._reserved: dict[Task, int] = {}
        self._served: set[Workload] = set()
        self._failures: dict[tuple[object, ...], tuple[tuple[int, int], ServeResult]] = {}

    def restore_reservations(self, queue: list[Workload]) -> None:
        """Restore the reservations of earlier cycles that can still become free; minimums go first."""
        with_reservations = [workload for workload in queue if workload.nominated]
        for workload in sorted(with_reservations, key=lambda workload: not workload.unmet):
            span = self._span(workload)
            reserved = [(t, t.nominated) for t in workload.nominated if t.nominated in span]
            if (
                reserved
                and self._may_restore(workload, reserved)
                and self._fits_after_release(workload, reserved)
            ):
                for task, column in reserved:
                    self.reserve(task, column)

    def _may_restore(self, workload: Workload, reserved: Placed) -> bool:
        """Whether these reservations complete a minimum, or are growth that the ceiling still allows."""
        if workload.held or self.is_borrowing(workload):
            return False
        if workload.unmet:
            return completes_minimum(workload, reserved)
        if not workload.may_grow or len(reserved) < len(workload.nominated):
            return False
        span, left = self._span(workload), self.releasing.remaining(workload)
        size = workload.done + sum(task.varying for task in left) + len(reserved)
        return size <= workload.ceiling and all(task.column in span for task in left)

    def serve(self, workload: Workload) -> ServeResult:
        """Serve a workload in its home pool; an elastic one with its minimum whole grows later."""
        if workload.is_single_pod:
            return self._cached_failure(workload) or self.record(self._serve_fresh(workload))
        if workload.elastic and not workload.unmet:
            return ServeResult(workload=workload)
        reserved = [(task, self._release(task)) for task in workload.nominated if task in self._reserved]
        if workload.held or self.releasing.is_victim(workload) or self.is_borrowing(workload):
            return ServeResult(workload=workload, unmet=workload.unmet)
        result = self._use_reservations(workload, reserved) or self._follow_policy(workload)
        return self.record(result or self._cached_failure(workload) or self._serve_fresh(workload))

    def use_growth_reservations(self, workload: Workload) -> tuple[Placed, Placed]:
        """Use what was reserved beyond its minimum: what was placed, and what stays reserved."""
        if workload.unmet:
            return [], []
        reserved = [(task, self._release(task)) for task in workload.nominated if task in self._reserved]
        if not reserved or self.releasing.is_victim(workload):
            return [], []
        with self.ledger.attempt() as attempt:
            if self._place_at(workload, reserved):
                attempt.keep()
                return reserved, []
        if not self._fits_after_release(workload, reserved):
            return [], []
        for task, column in reserved:
            self.reserve(task, column)
        return [], reserved

    def serve_in_pool(self, workload: Workload, pool: int) -> ServeResult | None:
        """Serve a workload in another pool: its minimum at least, or None."""
        span = self._snapshot.pools[pool].span
        present = [(task, task.column) for task in workload.placed]
        placer = Placer(self._filters, span, workload.placement, present)
        outcome = placer.place(workload.missing, workload.lacking, minimum_only=workload.elastic)
        if not outcome.placed:
            return None
        return ServeResult(workload=workload, placed=outcome.placed, misfit=outcome.misfit)

    def preempt(self, workload: Workload) -> ServeResult | None:
        """Evict others from its home pool and reserve the room, if that is allowed and sufficient."""
        if self._config.disable_preemption or not workload.may_preempt or workload.placed:
            return None
        may_preempt_in_pool = self._snapshot.pools[workload.pool].preemption
        with self.ledger.attempt():
            self.releasing.release(self._span(workload))
            preemption = self._preemption.find_victims(
                workload, self._served, surplus_only=not may_preempt_in_pool
            )
        if preemption is None:
            return None
        for unit in preemption.victims:
            self.releasing.evict(unit.workload, unit.tasks, _REASONS[unit.level], workload)
            for task in (task for task in unit.workload.nominated if task in self._reserved):
                self._release(task)
        result = self._nominate(workload, preemption.placed)
        return self.record(replace(result, evicting=len(preemption.victims)))

    def preempt_after_borrowing(self, workload: Workload) -> ServeResult | None:
        """Reserve or evict in its home pool, where borrowing is tried first and has failed."""
        if self._order_of(workload) != "BorrowFirst" or not workload.unmet or self.is_borrowing(workload):
            return None
        return self._nominate_released_room(workload) or self.preempt(workload)

    def record(self, result: ServeResult) -> ServeResult:
        """Record that a workload got something: it is protected from eviction for the rest of the cycle."""
        if result.placed or result.nominated:
            self._served.add(result.workload)
        return result

    def _cached_failure(self, workload: Workload) -> ServeResult | None:
        """The result of an equivalent workload that got nothing, if nothing has changed since."""
        equivalence_key = self._equivalence_key(workload)
        version, result = self._failures.get(equivalence_key, (None, None))
        if result is None or version != self._version():
            return None
        if not self._share_result(workload, result.workload):
            result = _for_equivalent(result, workload)
            self._failures[equivalence_key] = self._version(), result
        return result

    def _share_result(self, workload: Workload, other: Workload) -> bool:
        """Whether everything that is said of one of two equivalent workloads is true of the other."""
        no_rules = self.ledger.inter_pod is None
        return workload.is_single_pod and (no_rules or workload.tasks[0].identity is other.tasks[0].identity)

    def _serve_fresh(self, workload: Workload) -> ServeResult:
        """Place a workload, or preempt for it; remembers a failure for equivalent workloads."""
        result = self._place_now(workload)
        if result.unmet and not result.nominated and self._order_of(workload) == "PreemptFirst":
            result = self.preempt(workload) or result
        if result.unmet and not result.nominated:
            self._failures[self._equivalence_key(workload)] = self._version(), result
        return result

    def _equivalence_key(self, workload: Workload) -> tuple[object, ...]:
        """Equal for workloads that get the same when served, if nothing is reserved for them."""
        if self.ledger.inter_pod is None:
            return workload.equivalence_key
        return workload.equivalence_key, equivalence_runs(workload.missing, self._filters)

    def _version(self) -> tuple[int, int]:
        """Changes whenever the ledger changes or a task is evicted."""
        return self.ledger.version, len(self.releasing.evictions)

    def _order_of(self, workload: Workload) -> str:
        return self._snapshot.pools[workload.pool].order or self._config.order

    def _use_reservations(self, workload: Workload, reserved: Placed) -> ServeResult | None:
        """Use the reservations of its minimum, else free room; else keep them while they can be fulfilled."""
        if not reserved:
            return None
        with self.ledger.attempt() as attempt:
            if self._place_at(workload, reserved):
                attempt.keep()
                chosen = {task for task, _ in reserved}
                rest = [task for task in workload.missing if task not in chosen]
                more = self._place(workload, rest, 0, minimum_only=workload.elastic, before=reserved)
                return self._placed_result(
                    workload, PlaceOutcome([*reserved, *(more.placed or ())], more.misfit)
                )
        outcome = self._place_in_free_room(workload)
        if outcome.placed is not None:
            return self._placed_result(workload, outcome)
        return self._nominate(workload, reserved) if self._fits_after_release(workload, reserved) else None

    def _follow_policy(self, workload: Workload) -> ServeResult | None:
        """Start a workload without nodes on the nodes that its policy chose."""
        columns = self._answers.columns_of(workload)
        if columns is None or workload.placed:
            return None
        wanted = [(task, columns[task.number]) for task in workload.minimum_tasks]
        with self.ledger.attempt() as attempt:
            if self._place_at(workload, wanted):
                attempt.keep()
                return ServeResult(workload=workload, placed=wanted)
        self._answers.refuse(workload, "its minimum does not fit on the nodes that were chosen")
        return None

    def _fits_after_release(self, workload: Workload, reserved: Placed) -> bool:
        """Whether tasks fit on given nodes once terminating and evicted pods are gone."""
        with self.ledger.attempt():
            self.releasing.release(self._span(workload))
            return self._place_at(workload, reserved)

    def _place_now(self, workload: Workload) -> ServeResult:
        """Place it in free room; if there is too little, reserve room that is about to become free."""
        outcome = self._place_in_free_room(workload)
        if outcome.placed is not None:
            return self._placed_result(workload, outcome)
        nominated = self._nominate_released_room(workload)
        if nominated is not None:
            return nominated
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
        """Reserve room for its minimum that becomes free once terminating and evicted pods are gone."""
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
        """Whether it would get more if no room were reserved for others."""
        if not self._reserved:
            return False
        with self.ledger.attempt():
            self.ledger.drop_reservations(self._span(workload))
            if self._place(workload, tasks, lacking).placed:
                return True
            return unmet and self._place_after_release(workload) is not None

    def _place_after_release(self, workload: Workload) -> Placed | None:
        """Place its minimum with terminating and evicted pods out of the way; None if there are none."""
        if not self.releasing.release(self._span(workload)):
            return None
        return self._place(workload, workload.missing, workload.lacking, minimum_only=True).placed

    def _place_in_free_room(self, workload: Workload) -> PlaceOutcome:
        """Place its minimum at least in room that is neither used nor reserved for others."""
        return self._place(workload, workload.missing, workload.lacking, minimum_only=workload.elastic)

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
        """Whether it has nodes outside its home pool: a workload is not split between pools."""
        home = self._span(workload)
        first = next(iter(workload.placed), None)
        return first is not None and first.column not in home

    def _nominate(self, workload: Workload, placed: Placed) -> ServeResult:
        for task, column in placed:
            self.reserve(task, column)
        return ServeResult(workload=workload, nominated=placed, unmet=True)

    def _place_at(self, workload: Workload, tasks: Placed) -> bool:
        """Place tasks on given nodes of its home pool; whether all fit."""
        span = self._span(workload)
        for task, column in tasks:
            if not self._filters.fitting(task, span)[column - span.start]:
                return False
            self.ledger.add(Occupant(column, task.shape, task.identity))
        return True

    def reserved_shapes(self) -> list[Shape]:
        """The shapes of all tasks with a reservation."""
        return [task.shape for task in self._reserved]

    def reserve(self, task: Task, column: int) -> None:
        """Reserve room on a node for a task."""
        self.ledger.reserve(Occupant(column, task.shape, task.identity))
        self._reserved[task] = column

    def _release(self, task: Task) -> int:
        column = self._reserved.pop(task)
        self.ledger.release(Occupant(column, task.shape, task.identity))
        return column

    def _span(self, workload: Workload) -> NodeSpan:
        return self._snapshot.pools[workload.pool].span


def distinct_results(results: Mapping[Workload, ServeResult]) -> list[ServeResult]:
    """Each result once, however many workloads share it."""
    return list(dict.fromkeys(results.values()))


def _for_equivalent(result: ServeResult, workload: Workload) -> ServeResult:
    """The result of a workload, as that of an equivalent one."""
    misfit = result.misfit
    if misfit:
        place = result.workload.missing.index(misfit.task)
        misfit = Misfit(workload.missing[place], misfit.message)
    return replace(result, workload=workload, misfit=misfit)


def completes_minimum(workload: Workload, placed: Placed) -> bool:
    """Whether the minimum of a workload is whole with these tasks placed."""
    chosen = {task for task, _ in placed}
    fixed = all(task in chosen for task in workload.missing if task.is_fixed)
    return fixed and sum(task.varying for task in chosen) >= workload.lacking
