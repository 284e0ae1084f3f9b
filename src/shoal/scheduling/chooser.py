"""Chooser: the best node for a task, and for the next one like it.

Where the best node stays the best, it takes as many as it has room for.
"""

from shoal.scheduling.filters import Filters
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.nodes import Span
from shoal.scheduling.ranking import Levels, Ranking
from shoal.scheduling.scores import score_for, sibling_sign
from shoal.scheduling.workload import PlacementPolicy, Task

Siblings = Levels
"""How many pods of a job each node has."""


class Chooser:
    """Chooses nodes for tasks that are alike, one after another.

    `siblings` has the number of the job's pods on each node of the span, and is kept up to date.
    """

    def __init__(
        self, filters: Filters, span: Span, task: Task, policy: PlacementPolicy, siblings: Siblings
    ) -> None:
        """Choose by a policy."""
        self._filters, self._ledger, self._span, self._task = filters, filters.ledger, span, task
        self._demand = self._ledger.demand(task.shape)
        self._score = score_for(policy, task)
        self._siblings, self._sign = siblings, sibling_sign(policy)
        self._minds = filters.minds(task)
        shared = not self._minds and not self._sign
        self._ranking = filters.ranking(task, span, self._score) if shared else None

    def choose(self) -> int:
        """The column of the best node, or NOWHERE."""
        if self._ranking is None:
            self._ranking = self._rank()
        return self._ranking.first()

    def put(self, column: int, most: int) -> int:
        """Put as many of the tasks on a node as would go there one after another; how many."""
        settles = self._score.settles and not self._minds
        count = min(most, self._ledger.times(self._demand, column)) if settles else 1
        self._ledger.add(Occupant(column, self._task.shape, self._task.identity), count)
        self._siblings[column - self._span.start] += count
        if self._minds:
            self._ranking = None
        elif self._ranking and self._ranking.levels is not None:
            self._ranking.levels[column - self._span.start] += count * self._sign
        return count

    def _rank(self) -> Ranking:
        """Nodes as they are for tasks of this workload, as long as nobody comes whom they mind."""
        allowed = self._filters.allowed(self._task, self._span)
        ranking = Ranking(self._ledger, self._demand, self._span, self._score, allowed)
        if self._sign:
            ranking.levels = self._siblings * self._sign
        return ranking
