"""Budgets: how many pods of a set may be taken away, and which victims would be one too many."""

from collections.abc import Iterable

import msgspec

from shoal.engine.workload import Identity, NeighbourTerm, Task


class Budget(msgspec.Struct, frozen=True, eq=False):
    """A PodDisruptionBudget: the pods that a term speaks of, and how many of them may go now."""

    pods: NeighbourTerm
    allowed: int


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
