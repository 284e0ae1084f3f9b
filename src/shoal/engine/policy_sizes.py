"""Following advice: workloads get the nodes that a policy wants for them, as far as there is room."""

from collections.abc import Mapping

import msgspec

from shoal.engine.affinity import Occupant
from shoal.engine.allocator import Service
from shoal.engine.elastic import Grower
from shoal.engine.filters import Filters
from shoal.engine.nodes import Span
from shoal.engine.plan import Placement
from shoal.engine.policy_answers import Counsel
from shoal.engine.workload import NOWHERE, Task, Workload


class Change(msgspec.Struct, frozen=True, eq=False):
    """What a workload's advice comes to: who goes for good, who goes elsewhere, and who comes where."""

    grower: Grower
    shed: list[Task]
    moved: list[Task]
    coming: list[tuple[Task, int]]

    @property
    def leaving(self) -> list[Task]:
        """All who leave their nodes."""
        return [*self.shed, *self.moved]


class Following:
    """Follows advice for workloads that have their minimum at home."""

    def __init__(self, filters: Filters, service: Service, counsel: Counsel) -> None:
        """Put what the filters let through."""
        self._filters, self._ledger, self._service = filters, filters.ledger, service
        self._departures, self._counsel = service.departures, counsel

    def follow(self, growers: Mapping[Workload, Grower], *, may_evict: bool) -> list[Placement]:
        """Do what can be done of the advice; who got which node."""
        changes = [change for grower in growers.values() if (change := self._change(grower))]
        for change in changes:
            if change.leaving and not may_evict:
                self._counsel.refuse(change.grower.workload, "it takes nodes away, and eviction is disabled")
        return [placement for change in self._possible(changes) for placement in self._carry_out(change)]

    def _change(self, grower: Grower) -> Change | None:
        """How the advice differs from what is; None if it does not, or if there is none."""
        columns = self._counsel.of(grower.workload)
        if columns is None or grower.nominated or grower.gained:
            return None
        shed = [task for task in reversed(grower.seated) if task.number >= len(columns)]
        moved = [t for t in grower.seated if t.number < len(columns) and columns[t.number] != t.column]
        absent = [task for task in grower.absent(len(columns)) if columns[task.number] != NOWHERE]
        coming = [(task, columns[task.number]) for task in (*moved, *absent)]
        return Change(grower, shed, moved, coming) if shed or coming else None

    def _possible(self, changes: list[Change]) -> list[Change]:
        """The changes that fit together; those that do not are refused, and the others are tried again."""
        while True:
            left = [change for change in changes if change.grower.workload not in self._counsel.refusals]
            misfits = self._misfits(left)
            for change, task, column in misfits:
                where = self._ledger.nodes.names[column]
                self._counsel.refuse(change.grower.workload, f"{task.name} does not fit on node {where}")
            if not misfits:
                return left

    def _misfits(self, changes: list[Change]) -> list[tuple[Change, Task, int]]:
        """The changes that find no room even when all who leave are gone, each with a task that does not."""
        found = []
        with self._ledger.attempt():
            for span in {change.grower.span for change in changes}:
                self._departures.clear(span)
            for task in (task for change in changes for task in change.leaving):
                self._ledger.remove(Occupant(task.column, task.shape, task.identity))
            for change in changes:
                misfit = self._try(change)
                if misfit:
                    found.append((change, *misfit))
        return found

    def _try(self, change: Change) -> tuple[Task, int] | None:
        """Put all who come by a change; the first that does not fit, in which case none is put."""
        with self._ledger.attempt() as attempt:
            for task, column in change.coming:
                if not self._fits(task, column, change.grower.span):
                    return task, column
                self._ledger.add(Occupant(column, task.shape, task.identity))
            attempt.keep()
        return None

    def _carry_out(self, change: Change) -> list[Placement]:
        """Send away who leaves. Who comes gets its node now, or the room is kept until it can come."""
        grower = change.grower
        if change.shed:
            self._departures.send(grower.workload, change.shed, "Shrunk")
        if change.moved:
            self._departures.send(grower.workload, change.moved, "Moved")
        placed = []
        for task, column in change.coming:
            if task not in change.moved and self._fits(task, column, grower.span):
                self._ledger.add(Occupant(column, task.shape, task.identity))
                placed.append(Placement(grower.workload, task, column))
            else:
                self._service.reserve(task, column)
                grower.nominated.append((task, column))
        return placed

    def _fits(self, task: Task, column: int, span: Span) -> bool:
        return self._filters.fits_on(task, column, span)
