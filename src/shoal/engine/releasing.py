"""Departures: who leaves its node, in this cycle or already, and the room that comes free by it.

Whoever leaves holds its room until it is gone. What can be had then is seen by taking all who leave out of
the ledger.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from shoal.engine.affinity import Occupant, usage_of
from shoal.engine.ledger import Ledger
from shoal.engine.nodes import NodeSpan
from shoal.engine.plan import Eviction, EvictionReason
from shoal.engine.snapshot import Budget, Snapshot
from shoal.engine.workload import Identity, Shape, Task, Workload


class Releasing:
    """Pods that are terminating, and those that a cycle sends away."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger) -> None:
        """Begin with the pods that are terminating."""
        self._ledger = ledger
        self.budgets = Budgets(snapshot.budgets)
        self.evictions: list[Eviction] = []
        self.tasks: set[Task] = set()
        self._lost: Counter[Workload] = Counter()
        self._victims: set[Workload] = set()
        self._leaving = list(snapshot.terminating)
        self._amounts = usage_of(snapshot.terminating, snapshot.nodes)

    def __contains__(self, workload: Workload) -> bool:
        """Whether a workload has lost any task in this cycle."""
        return workload in self._lost

    def is_victim(self, workload: Workload) -> bool:
        """Whether a workload has lost tasks to somebody else."""
        return workload in self._victims

    def evict(
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

    def remaining(self, workload: Workload) -> Sequence[Task]:
        """The tasks of a workload that have nodes and keep them."""
        if workload not in self._lost:
            return workload.placed
        return [task for task in workload.placed if task not in self.tasks]

    def fully_evicted(self) -> list[Workload]:
        """Workloads that lose all they have."""
        return [workload for workload, lost in self._lost.items() if lost == len(workload.placed)]

    def shapes(self) -> list[Shape]:
        """The shapes of all who leave ready nodes."""
        ready = self._ledger.nodes.ready
        return [occupant.shape for occupant in self._leaving if ready[occupant.column]]

    def clear(self, span: NodeSpan) -> bool:
        """Take all who leave nodes of a span out of the ledger; whether there were any."""
        leaving = [occupant for occupant in self._leaving if occupant.column in span]
        if self._ledger.inter_pod is None and leaving:
            self._ledger.remove_amounts(span, self._amounts[:, span.columns])
        else:
            for occupant in leaving:
                self._ledger.remove(occupant)
        return bool(leaving)


class Budgets:
    """What is left of every budget; each eviction of a plan spends one."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        """Begin with what is allowed."""
        self._left = {budget: budget.allowed for budget in budgets}
        self._known: dict[Identity, list[Budget]] = {}

    def __bool__(self) -> bool:
        return bool(self._left)

    def spend(self, tasks: Iterable[Task]) -> None:
        """Take pods away for good."""
        for task in tasks:
            for budget in self._of(task):
                self._left[budget] -= 1

    def violating(self, tasks: Iterable[Task]) -> set[Task]:
        """Which pods would be one too many if all went, the first ones being let go first."""
        if not self._left:
            return set()
        left = dict(self._left)
        over = set()
        for task in tasks:
            for budget in self._of(task):
                if left[budget] <= 0:
                    over.add(task)
                left[budget] -= 1
        return over

    def _of(self, task: Task) -> list[Budget]:
        if task.identity not in self._known:
            self._known[task.identity] = [b for b in self._left if b.pods.matches(task.identity)]
        return self._known[task.identity]
