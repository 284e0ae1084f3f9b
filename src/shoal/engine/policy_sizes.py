"""Following advice: workloads get the nodes that a policy wants for them, as far as there is room."""

from collections.abc import Mapping

import msgspec

from shoal.engine.affinity import Occupant
from shoal.engine.allocator import Allocator
from shoal.engine.elastic import ElasticState
from shoal.engine.filters import Filters
from shoal.engine.nodes import NodeSpan
from shoal.engine.plan import Placement
from shoal.engine.policy_answers import CheckedAnswers
from shoal.engine.workload import NO_NODE, Task, Workload


class PolicyChange(msgspec.Struct, frozen=True, eq=False):
    """What a workload's advice comes to: who goes for good, who goes elsewhere, and who comes where."""

    state: ElasticState
    removed: list[Task]
    moved: list[Task]
    arriving: list[tuple[Task, int]]

    @property
    def leaving(self) -> list[Task]:
        """All who leave their nodes."""
        return [*self.removed, *self.moved]


class PolicySizes:
    """Follows advice for workloads that have their minimum at home."""

    def __init__(self, filters: Filters, allocator: Allocator, answers: CheckedAnswers) -> None:
        """Put what the filters let through."""
        self._filters, self._ledger, self._allocator = filters, filters.ledger, allocator
        self._releasing, self._answers = allocator.releasing, answers

    def apply(self, states: Mapping[Workload, ElasticState], *, may_evict: bool) -> list[Placement]:
        """Do what can be done of the advice; who got which node."""
        changes = [change for state in states.values() if (change := self._change(state))]
        for change in changes:
            if change.leaving and not may_evict:
                self._answers.refuse(change.state.workload, "it takes nodes away, and eviction is disabled")
        return [placement for change in self._possible(changes) for placement in self._carry_out(change)]

    def _change(self, state: ElasticState) -> PolicyChange | None:
        """How the advice differs from what is; None if it does not, or if there is none."""
        columns = self._answers.of(state.workload)
        if columns is None or state.nominated or state.grew:
            return None
        removed = [task for task in reversed(state.bound) if task.number >= len(columns)]
        moved = [t for t in state.bound if t.number < len(columns) and columns[t.number] != t.column]
        missing_below = [
            task for task in state.missing_below(len(columns)) if columns[task.number] != NO_NODE
        ]
        arriving = [(task, columns[task.number]) for task in (*moved, *missing_below)]
        return PolicyChange(state, removed, moved, arriving) if removed or arriving else None

    def _possible(self, changes: list[PolicyChange]) -> list[PolicyChange]:
        """The changes that fit together; those that do not are refused, and the others are tried again."""
        while True:
            left = [change for change in changes if change.state.workload not in self._answers.refusals]
            misfits = self._misfits(left)
            for change, task, column in misfits:
                where = self._ledger.nodes.names[column]
                self._answers.refuse(change.state.workload, f"{task.name} does not fit on node {where}")
            if not misfits:
                return left

    def _misfits(self, changes: list[PolicyChange]) -> list[tuple[PolicyChange, Task, int]]:
        """The changes that find no room even when all who leave are gone, each with a task that does not."""
        found = []
        with self._ledger.attempt():
            for span in {change.state.span for change in changes}:
                self._releasing.clear(span)
            for task in (task for change in changes for task in change.leaving):
                self._ledger.remove(Occupant(task.column, task.shape, task.identity))
            for change in changes:
                misfit = self._try(change)
                if misfit:
                    found.append((change, *misfit))
        return found

    def _try(self, change: PolicyChange) -> tuple[Task, int] | None:
        """Put all who come by a change; the first that does not fit, in which case none is put."""
        with self._ledger.attempt() as attempt:
            for task, column in change.arriving:
                if not self._fits(task, column, change.state.span):
                    return task, column
                self._ledger.add(Occupant(column, task.shape, task.identity))
            attempt.keep()
        return None

    def _carry_out(self, change: PolicyChange) -> list[Placement]:
        """Send away who leaves. Who comes gets its node now, or the room is kept until it can come."""
        state = change.state
        if change.removed:
            self._releasing.evict(state.workload, change.removed, "Shrunk")
        if change.moved:
            self._releasing.evict(state.workload, change.moved, "Moved")
        placed = []
        for task, column in change.arriving:
            if task not in change.moved and self._fits(task, column, state.span):
                self._ledger.add(Occupant(column, task.shape, task.identity))
                placed.append(Placement(state.workload, task, column))
            else:
                self._allocator.reserve(task, column)
                state.nominated.append((task, column))
        return placed

    def _fits(self, task: Task, column: int, span: NodeSpan) -> bool:
        return self._filters.fits_on(task, column, span)
