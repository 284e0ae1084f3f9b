"""Releasing: pods that are terminating or evicted in this cycle, and the room that they will free.

A pod that leaves its node holds its room until it is gone. What will be free then is seen by taking all such
pods out of the ledger.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from shoal.engine.affinity import Occupant, usage_of
from shoal.engine.ledger import Ledger
from shoal.engine.nodes import NodeSpan
from shoal.engine.plan import Eviction, EvictionReason
from shoal.engine.snapshot import Budget, Snapshot
from shoal.engine.workload import Identity, Shape, Task, Workload


class Budgets:
    """The disruptions that every PodDisruptionBudget still allows; each eviction of a plan spends one."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        """Start with what the budgets allow."""
        self._left = {budget: budget.allowed for budget in budgets}
        self._budgets_by_identity: dict[Identity, list[Budget]] = {}

    def __bool__(self) -> bool:
        return bool(self._left)

    def spend(self, tasks: Iterable[Task]) -> None:
        """Count the eviction of pods."""
        for task in tasks:
            for budget in self._budgets_of(task):
                self._left[budget] -= 1

    def violating(self, tasks: Iterable[Task]) -> set[Task]:
        """The pods whose eviction would violate a budget if all were evicted, in this order."""
        if not self._left:
            return set()
        left = dict(self._left)
        over = set()
        for task in tasks:
            for budget in self._budgets_of(task):
                if left[budget] <= 0:
                    over.add(task)
                left[budget] -= 1
        return over

    def _budgets_of(self, task: Task) -> list[Budget]:
        if task.identity not in self._budgets_by_identity:
            self._budgets_by_identity[task.identity] = [
                b for b in self._left if b.pods.matches(task.identity)
            ]
        return self._budgets_by_identity[task.identity]


class Releasing:
    """The pods that are terminating, and those that a cycle evicts."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger) -> None:
        """Start with the pods that are terminating."""
        self._ledger = ledger
        self.budgets = Budgets(snapshot.budgets)
        self.evictions: list[Eviction] = []
        self.evicted_tasks: set[Task] = set()
        self._lost: Counter[Workload] = Counter()
        self._victims: set[Workload] = set()
        self._released = list(snapshot.terminating)
        self._amounts = usage_of(snapshot.terminating, snapshot.nodes)

    def __contains__(self, workload: Workload) -> bool:
        """Whether a workload has lost any task in this cycle."""
        return workload in self._lost

    def is_victim(self, workload: Workload) -> bool:
        """Whether a workload has lost tasks for the benefit of another."""
        return workload in self._victims

    def evict(
        self,
        workload: Workload,
        tasks: Iterable[Task],
        reason: EvictionReason,
        beneficiary: Workload | None = None,
    ) -> None:
        """Evict tasks of a workload, for the benefit of another one if given."""
        evicted = list(tasks)
        self.budgets.spend(evicted)
        self._lost[workload] += len(evicted)
        self.evicted_tasks.update(evicted)
        if beneficiary:
            self._victims.add(workload)
        for task in evicted:
            self.evictions.append(Eviction(workload, task, reason, beneficiary))
            self._released.append(Occupant(task.column, task.shape, task.identity))
            self._amounts[:, task.column] += self._ledger.demand(task.shape).vector

    def remaining(self, workload: Workload) -> Sequence[Task]:
        """The tasks of a workload that have nodes and keep them."""
        if workload not in self._lost:
            return workload.placed
        return [task for task in workload.placed if task not in self.evicted_tasks]

    def fully_evicted(self) -> list[Workload]:
        """Workloads that lose all tasks they have."""
        return [workload for workload, lost in self._lost.items() if lost == len(workload.placed)]

    def released_shapes(self) -> list[Shape]:
        """The shapes of all terminating and evicted pods on ready nodes."""
        ready = self._ledger.nodes.ready
        return [occupant.shape for occupant in self._released if ready[occupant.column]]

    def release(self, *spans: NodeSpan) -> bool:
        """Take the terminating and evicted pods of spans out of the ledger; whether there were any.

        Where inter-pod rules apply, those of other spans are taken out too: their rules end with them.
        """
        if self._ledger.inter_pod is not None:
            self._ledger.remove_all(self._released)
            return bool(self._released)
        chosen = [span for span in spans if any(occupant.column in span for occupant in self._released)]
        for span in chosen:
            self._ledger.remove_amounts(span, self._amounts[:, span.columns])
        return bool(chosen)
