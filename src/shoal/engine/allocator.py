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
from shoal.engine.nodes import Span
from shoal.engine.placement import Misfit, Outcome, Placed, Placer, runs_of
from shoal.engine.plan import EvictionReason
from shoal.engine.policy_answers import Counsel
from shoal.engine.preemption import Preemption
from shoal.engine.releasing import Departures
from shoal.engine.snapshot import Snapshot
from shoal.engine.victims import Level
from shoal.engine.workload import Shape, Task, Workload

_REASONS: Final[dict[Level, EvictionReason]] = {
    Level.FOREIGN: "Reclaimed",
    Level.EXTRA: "Shrunk",
    Level.HOME: "Preempted",
}


class Turn(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What a workload got at its turn. One at which it got nothing may be that of all who are like it, too.

    `unmet`: its minimum is still not whole. `behind`: it would be, but for room that is kept for others.
    `evicting`: others must leave before it can have what it is nominated for.
    """

    workload: Workload
    placed: Placed = []
    nominated: Placed = []
    unmet: bool = False
    behind: bool = False
    evicting: int = 0
    misfit: Misfit | None = None


class Service:
    """Serves workloads from one ledger, one after another."""

    def __init__(
        self, snapshot: Snapshot, filters: Filters, config: SchedulerConfig, counsel: Counsel
    ) -> None:
        """Serve from what the filters let through; where there is advice, try that first."""
        self._snapshot, self._filters, self._config, self._counsel = snapshot, filters, config, counsel
        self.ledger = filters.ledger
        self.departures = Departures(snapshot, self.ledger)
        self._preemption = Preemption(snapshot, filters, self.departures)
        self._reserved: dict[Task, int] = {}
        self._served: set[Workload] = set()
        self._in_vain: dict[tuple[object, ...], tuple[tuple[int, int], Turn]] = {}

    def keep_reservations(self, queue: list[Workload]) -> None:
        """Keep the room that earlier cycles reserved, where it can still become free; minimums go first."""
        promised = [workload for workload in queue if workload.nominated]
        for workload in sorted(promised, key=lambda workload: not workload.unmet):
            span = self._span(workload)
            kept = [(t, t.nominated) for t in workload.nominated if t.nominated in span]
            if kept and self._may_keep(workload, kept) and self._works(workload, kept):
                for task, column in kept:
                    self.reserve(task, column)

    def _may_keep(self, workload: Workload, kept: Placed) -> bool:
        """Whether room is kept for all of a minimum, or for more than that but not for too much."""
        if workload.held or self.is_astray(workload):
            return False
        if workload.unmet:
            return suffices(workload, kept)
        if not workload.elastic or len(kept) < len(workload.nominated):
            return False
        span, left = self._span(workload), self.departures.left(workload)
        size = workload.done + sum(task.varying for task in left) + len(kept)
        return size <= workload.ceiling and all(task.column in span for task in left)

    def serve(self, workload: Workload) -> Turn:
        """Give a workload what it can have at home; an elastic one that has its minimum gets more later."""
        if workload.is_plain:
            return self._in_vain_again(workload) or self.noted(self._afresh(workload))
        if workload.elastic and not workload.unmet:
            return Turn(workload=workload)
        kept = [(task, self._release(task)) for task in workload.nominated if task in self._reserved]
        if workload.held or self.departures.is_victim(workload) or self.is_astray(workload):
            return Turn(workload=workload, unmet=workload.unmet)
        turn = self._as_kept(workload, kept) or self._as_advised(workload)
        return self.noted(turn or self._in_vain_again(workload) or self._afresh(workload))

    def use_promised(self, workload: Workload) -> tuple[Placed, Placed]:
        """Use the room that was kept for it beyond its minimum: what it got, and what is kept on."""
        if workload.unmet:
            return [], []
        kept = [(task, self._release(task)) for task in workload.nominated if task in self._reserved]
        if not kept or self.departures.is_victim(workload):
            return [], []
        with self.ledger.attempt() as attempt:
            if self._put(workload, kept):
                attempt.keep()
                return kept, []
        if not self._works(workload, kept):
            return [], []
        for task, column in kept:
            self.reserve(task, column)
        return [], kept

    def serve_in(self, workload: Workload, pool: int) -> Turn | None:
        """Give a workload what it can have in another pool: its minimum at least, or nothing."""
        span = self._snapshot.pools[pool].span
        present = [(task, task.column) for task in workload.placed]
        placer = Placer(self._filters, span, workload.placement, present)
        outcome = placer.place(workload.missing, workload.lacking, minimum_only=workload.elastic)
        if not outcome.placed:
            return None
        return Turn(workload=workload, placed=outcome.placed, misfit=outcome.misfit)

    def make_room(self, workload: Workload) -> Turn | None:
        """Have others leave its home pool, if that helps and may be."""
        if self._config.disable_preemption or not workload.makes_room or workload.placed:
            return None
        lawful = self._snapshot.pools[workload.pool].preemption
        with self.ledger.attempt():
            self.departures.clear(self._span(workload))
            clearance = self._preemption.clear(workload, self._served, extras_only=not lawful)
        if clearance is None:
            return None
        for unit in clearance.victims:
            self.departures.send(unit.workload, unit.tasks, _REASONS[unit.level], workload)
            for task in (task for task in unit.workload.nominated if task in self._reserved):
                self._release(task)
        turn = self._nominate(workload, clearance.placed)
        return self.noted(replace(turn, evicting=len(clearance.victims)))

    def make_room_late(self, workload: Workload) -> Turn | None:
        """Have others leave, where borrowing is tried first and has failed."""
        if self._order_of(workload) != "BorrowFirst" or not workload.unmet or self.is_astray(workload):
            return None
        return self._soon(workload) or self.make_room(workload)

    def noted(self, turn: Turn) -> Turn:
        """Remember who got something: nobody takes it away again in this cycle."""
        if turn.placed or turn.nominated:
            self._served.add(turn.workload)
        return turn

    def _in_vain_again(self, workload: Workload) -> Turn | None:
        """What a workload gets if one that is just like it got nothing, and nothing has changed since."""
        likeness = self._likeness(workload)
        moment, turn = self._in_vain.get(likeness, (None, None))
        if turn is None or moment != self._moment():
            return None
        if not self._are_one(workload, turn.workload):
            turn = _handed_on(turn, workload)
            self._in_vain[likeness] = self._moment(), turn
        return turn

    def _are_one(self, workload: Workload, other: Workload) -> bool:
        """Whether all that is said of one of two that are alike is true of the other."""
        unknown = self.ledger.neighbours is None
        return workload.is_plain and (unknown or workload.tasks[0].identity is other.tasks[0].identity)

    def _afresh(self, workload: Workload) -> Turn:
        """Place a workload, or have others make room for it."""
        turn = self._now(workload)
        if turn.unmet and not turn.nominated and self._order_of(workload) == "PreemptFirst":
            turn = self.make_room(workload) or turn
        if turn.unmet and not turn.nominated:
            self._in_vain[self._likeness(workload)] = self._moment(), turn
        return turn

    def _likeness(self, workload: Workload) -> tuple[object, ...]:
        """What workloads have in common that get the same at their turn, if nothing is kept for them."""
        if self.ledger.neighbours is None:
            return workload.likeness
        return workload.likeness, runs_of(workload.missing, self._filters)

    def _moment(self) -> tuple[int, int]:
        """What is the same as long as nobody comes or leaves."""
        return self.ledger.state, len(self.departures.evictions)

    def _order_of(self, workload: Workload) -> str:
        return self._snapshot.pools[workload.pool].order or self._config.order

    def _as_kept(self, workload: Workload, kept: Placed) -> Turn | None:
        """Use the room that was kept for its minimum; or go on keeping it, while it can still become free."""
        if not kept:
            return None
        with self.ledger.attempt() as attempt:
            if self._put(workload, kept):
                attempt.keep()
                chosen = {task for task, _ in kept}
                rest = [task for task in workload.missing if task not in chosen]
                more = self._place(workload, rest, 0, minimum_only=workload.elastic, before=kept)
                return self._got(workload, Outcome([*kept, *(more.placed or ())], more.misfit))
        return self._nominate(workload, kept) if self._works(workload, kept) else None

    def _as_advised(self, workload: Workload) -> Turn | None:
        """Start a workload that has nothing yet on the nodes that a policy wants for it."""
        columns = self._counsel.of(workload)
        if columns is None or workload.placed:
            return None
        wanted = [(task, columns[task.number]) for task in workload.minimum_tasks]
        with self.ledger.attempt() as attempt:
            if self._put(workload, wanted):
                attempt.keep()
                return Turn(workload=workload, placed=wanted)
        self._counsel.refuse(workload, "its minimum does not fit on the nodes that were chosen")
        return None

    def _works(self, workload: Workload, kept: Placed) -> bool:
        """Whether tasks fit on given nodes once terminating pods are gone."""
        with self.ledger.attempt():
            self.departures.clear(self._span(workload))
            return self._put(workload, kept)

    def _now(self, workload: Workload) -> Turn:
        """Place it on room that is free; if there is too little, on room that will be."""
        outcome = self._place(workload, workload.missing, workload.lacking, minimum_only=workload.elastic)
        if outcome.placed is not None:
            return self._got(workload, outcome)
        soon = self._soon(workload)
        if soon is not None:
            return soon
        behind = self._is_behind(workload, workload.missing, workload.lacking, unmet=True)
        return Turn(workload=workload, unmet=True, behind=behind, misfit=outcome.misfit)

    def _soon(self, workload: Workload) -> Turn | None:
        """Keep room for its minimum that becomes free once terminating pods are gone."""
        with self.ledger.attempt():
            placed = self._place_soon(workload)
        return None if placed is None else self.noted(self._nominate(workload, placed))

    def _got(self, workload: Workload, outcome: Outcome) -> Turn:
        placed = outcome.placed or []
        if workload.elastic or len(placed) == len(workload.missing):
            return Turn(workload=workload, placed=placed)
        chosen = {task for task, _ in placed}
        behind = self._is_behind(
            workload, [task for task in workload.missing if task not in chosen], 0, unmet=False
        )
        return Turn(workload=workload, placed=placed, behind=behind, misfit=outcome.misfit)

    def _is_behind(self, workload: Workload, tasks: Sequence[Task], lacking: int, *, unmet: bool) -> bool:
        """Whether it would get more, but for room that is kept for others."""
        if not self._reserved:
            return False
        with self.ledger.attempt():
            self.ledger.forget_reservations(self._span(workload))
            if self._place(workload, tasks, lacking).placed:
                return True
            return unmet and self._place_soon(workload) is not None

    def _place_soon(self, workload: Workload) -> Placed | None:
        """Its minimum, with the terminating pods out of the way."""
        if not self.departures.clear(self._span(workload)):
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
    ) -> Outcome:
        present = [*((task, task.column) for task in workload.placed), *before]
        placer = Placer(self._filters, self._span(workload), workload.placement, present)
        return placer.place(tasks, lacking, minimum_only=minimum_only)

    def is_astray(self, workload: Workload) -> bool:
        """Whether it has nodes outside its home pool: it is not split, and nobody lends it more."""
        home = self._span(workload)
        first = next(iter(workload.placed), None)
        return first is not None and first.column not in home

    def _nominate(self, workload: Workload, placed: Placed) -> Turn:
        for task, column in placed:
            self.reserve(task, column)
        return Turn(workload=workload, nominated=placed, unmet=True)

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

    def _span(self, workload: Workload) -> Span:
        return self._snapshot.pools[workload.pool].span


def distinct(turns: Mapping[Workload, Turn]) -> list[Turn]:
    """Each turn once, however many share it."""
    return list(dict.fromkeys(turns.values()))


def _handed_on(turn: Turn, workload: Workload) -> Turn:
    """The same turn, of another workload that is alike."""
    misfit = turn.misfit
    if misfit:
        place = turn.workload.missing.index(misfit.task)
        misfit = Misfit(workload.missing[place], misfit.complaint)
    return replace(turn, workload=workload, misfit=misfit)


def suffices(workload: Workload, placed: Placed) -> bool:
    """Whether its minimum is whole with these tasks placed."""
    chosen = {task for task, _ in placed}
    fixed = all(task in chosen for task in workload.missing if task.is_fixed)
    return fixed and sum(task.varying for task in chosen) >= workload.lacking
