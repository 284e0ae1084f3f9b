"""Applies the answers of the user's elastic policy: workloads move to, shrink to or grow onto its nodes.

All answers are tried together first. If a workload does not fit then, its answer is refused, and the rest is
tried again without it.
"""

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
    """How an answer changes a workload: tasks removed, tasks moved, and where new and moved ones go."""

    state: ElasticState
    removed: list[Task]
    moved: list[Task]
    added: list[tuple[Task, int]]

    @property
    def leaving(self) -> list[Task]:
        """All tasks that leave their nodes."""
        return [*self.removed, *self.moved]


class PolicySizes:
    """Applies answers to workloads that have their minimum in their home pool."""

    def __init__(self, filters: Filters, allocator: Allocator, answers: CheckedAnswers) -> None:
        """Place by the filters; evict and reserve through the allocator."""
        self._filters, self._ledger, self._allocator = filters, filters.ledger, allocator
        self._releasing, self._answers = allocator.releasing, answers

    def apply(self, states: Mapping[Workload, ElasticState], *, may_evict: bool) -> list[Placement]:
        """Apply the answers that fit, refuse the others; returns what was placed."""
        changes = [change for state in states.values() if (change := self._change_of(state))]
        for change in changes:
            if change.leaving and not may_evict:
                self._answers.refuse(change.state.workload, "it takes nodes away, and eviction is disabled")
        return [placement for change in self._fitting_changes(changes) for placement in self._apply(change)]

    def _change_of(self, state: ElasticState) -> PolicyChange | None:
        """How the answer differs from the present state; None if it does not, or if there is none."""
        columns = self._answers.columns_of(state.workload)
        if columns is None or state.nominated or state.grew:
            return None
        removed = [task for task in reversed(state.bound) if task.number >= len(columns)]
        moved = [t for t in state.bound if t.number < len(columns) and columns[t.number] != t.column]
        new = [task for task in state.missing_below(len(columns)) if columns[task.number] != NO_NODE]
        added = [(task, columns[task.number]) for task in (*moved, *new)]
        return PolicyChange(state, removed, moved, added) if removed or added else None

    def _fitting_changes(self, changes: list[PolicyChange]) -> list[PolicyChange]:
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
        """The changes that do not fit even after all releases, each with a task that does not fit."""
        found = []
        with self._ledger.attempt():
            self._releasing.release(*{change.state.span for change in changes})
            for task in (task for change in changes for task in change.leaving):
                self._ledger.remove(Occupant(task.column, task.shape, task.identity))
            for change in changes:
                misfit = self._first_misfit(change)
                if misfit:
                    found.append((change, *misfit))
        return found

    def _first_misfit(self, change: PolicyChange) -> tuple[Task, int] | None:
        """Place the new and moved tasks of a change; if one does not fit, return it and place none."""
        with self._ledger.attempt() as attempt:
            for task, column in change.added:
                if not self._fits(task, column, change.state.span):
                    return task, column
                self._ledger.add(Occupant(column, task.shape, task.identity))
            attempt.keep()
        return None

    def _apply(self, change: PolicyChange) -> list[Placement]:
        """Evict what leaves; place the other tasks now, or reserve the room until it is free."""
        state = change.state
        if change.removed:
            self._releasing.evict(state.workload, change.removed, "Shrunk")
        if change.moved:
            self._releasing.evict(state.workload, change.moved, "Moved")
        placed = []
        for task, column in change.added:
            if task not in change.moved and self._fits(task, column, state.span):
                self._ledger.add(Occupant(column, task.shape, task.identity))
                placed.append(Placement(state.workload, task, column))
            else:
                self._allocator.reserve(task, column)
                state.nominated.append((task, column))
        return placed

    def _fits(self, task: Task, column: int, span: NodeSpan) -> bool:
        return self._filters.fits_on(task, column, span)
