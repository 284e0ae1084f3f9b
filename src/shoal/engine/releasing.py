"""Departures: who leaves its node, in this cycle or already, and the room that comes free by it.

Whoever leaves holds its room until it is gone. What can be had then is seen by taking all who leave out of
the ledger.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from shoal.engine.affinity import Occupant, amounts_of
from shoal.engine.budgets import Budgets
from shoal.engine.ledger import Ledger
from shoal.engine.nodes import Span
from shoal.engine.plan import Eviction, EvictionReason
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Shape, Task, Workload


class Departures:
    """Pods that are terminating, and those that a cycle sends away."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger) -> None:
        """Begin with the pods that are terminating."""
        self._ledger = ledger
        self.budgets = Budgets(snapshot.budgets)
        self.evictions: list[Eviction] = []
        self.tasks: set[Task] = set()
        self._lost: Counter[Workload] = Counter()
        self._victims: set[Workload] = set()
        self._leaving = list(snapshot.leaving)
        self._amounts = amounts_of(snapshot.leaving, snapshot.nodes)

    def __contains__(self, workload: Workload) -> bool:
        """Whether a workload has lost any task in this cycle."""
        return workload in self._lost

    def is_victim(self, workload: Workload) -> bool:
        """Whether a workload has lost tasks to somebody else."""
        return workload in self._victims

    def send(
        self,
        workload: Workload,
        tasks: Iterable[Task],
        reason: EvictionReason,
        beneficiary: Workload | None = None,
    ) -> None:
        """Send tasks away, in favour of a workload or of nobody."""
        leaving = list(tasks)
        self.budgets.spend(leaving)
        self._lost[workload] += len(leaving)
        self.tasks.update(leaving)
        if beneficiary:
            self._victims.add(workload)
        for task in leaving:
            self.evictions.append(Eviction(workload, task, reason, beneficiary))
            self._leaving.append(Occupant(task.column, task.shape, task.identity))
            self._amounts[:, task.column] += self._ledger.demand(task.shape).vector

    def left(self, workload: Workload) -> Sequence[Task]:
        """The tasks of a workload that have nodes and keep them."""
        if workload not in self._lost:
            return workload.placed
        return [task for task in workload.placed if task not in self.tasks]

    def gone(self) -> list[Workload]:
        """Workloads that lose all they have."""
        return [workload for workload, lost in self._lost.items() if lost == len(workload.placed)]

    def shapes(self) -> list[Shape]:
        """The shapes of all who leave ready nodes."""
        ready = self._ledger.nodes.ready
        return [occupant.shape for occupant in self._leaving if ready[occupant.column]]

    def clear(self, span: Span) -> bool:
        """Take all who leave nodes of a span out of the ledger; whether there were any."""
        leaving = [occupant for occupant in self._leaving if occupant.column in span]
        if self._ledger.neighbours is None and leaving:
            self._ledger.remove_amounts(span, self._amounts[:, span.columns])
        else:
            for occupant in leaving:
                self._ledger.remove(occupant)
        return bool(leaving)
