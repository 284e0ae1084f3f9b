"""Chooser: the best node for a task, and for the next one like it.

All nodes are rated once for tasks that are alike, after which only the node that took one is rated again;
and where the best node stays the best, it takes as many as it has room for. Rates are floats, for speed;
where the best ones lie too close together for floats to tell, they are worked out again as exact fractions.
So the choice is that of exact arithmetic, ties going to the node whose name comes first.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from shoal.scheduling.filters import Filters
from shoal.scheduling.ledger import Scores
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.nodes import Span
from shoal.scheduling.resources import Amounts
from shoal.scheduling.scores import score_for, sibling_sign
from shoal.scheduling.workload import NOWHERE, PlacementPolicy, Task

Siblings = npt.NDArray[np.int64]
"""How many pods of a job each node has."""

_CLOSE: Final = 1e-9
_MANY: Final = 10
"""So many nodes are rated all at once rather than one by one."""


class Chooser:
    """Chooses nodes for tasks that are alike, one after another.

    `siblings` has the number of the job's pods on each node of the span, and is kept up to date.
    """

    def __init__(
        self, filters: Filters, span: Span, task: Task, policy: PlacementPolicy, siblings: Siblings
    ) -> None:
        """Rate every node of the span once."""
        self._minds = filters.minds(task)
        self._filters, self._ledger, self._span, self._task = filters, filters.ledger, span, task
        self._demand = self._ledger.demand(task.shape)
        self._score = score_for(policy, task)
        self._siblings, self._sign = siblings, sibling_sign(policy)
        self._rates = self._rate_all()
        self._stale: set[int] = set()

    def choose(self) -> int:
        """The column of the best node, or NOWHERE."""
        self._refresh()
        rates = self._preferred()
        index = int(rates.argmax()) if len(rates) else NOWHERE
        if index == NOWHERE or rates[index] == -np.inf:
            return NOWHERE
        close = np.flatnonzero(rates >= rates[index] - _CLOSE * max(1.0, abs(rates[index])))
        return self._span.start + (index if len(close) == 1 else self._first_best(close))

    def put(self, column: int, most: int) -> int:
        """Put as many of the tasks on a node as would go there one after another; how many."""
        settles = self._score.settles and not self._minds
        count = min(most, self.capacity(column)) if settles else 1
        self._ledger.add(Occupant(column, self._task.shape, self._task.identity), count)
        self._siblings[column - self._span.start] += count
        self._stale.add(column)
        return count

    def capacity(self, column: int) -> int:
        """How many of the tasks a node has room for."""
        return self._ledger.times(self._demand, column)

    def touch(self, columns: Iterable[int]) -> None:
        """Learn that others have come to nodes of the span."""
        self._stale.update(columns)

    def _rate_all(self) -> Scores:
        fits = self._filters.fitting(self._task, self._span)
        if not fits.any():
            return np.full(len(fits), -np.inf)
        return np.where(fits, self._score.rate(self._ledger, self._demand, self._span), -np.inf)

    def _refresh(self) -> None:
        """Rate again what has changed: the nodes that took tasks; all, if tasks mind each other."""
        if self._stale and (self._minds or len(self._stale) > _MANY):
            self._rates = self._rate_all()
        else:
            for column in self._stale:
                self._rates[column - self._span.start] = self._rate(column)
        self._stale.clear()

    def _rate(self, column: int) -> float:
        """Rate one node, which took tasks before, anew."""
        if not self.capacity(column) > 0 or not self._filters.suitable(self._task)[column]:
            return -np.inf
        return float(self._score.rate(self._ledger, self._demand, Span(column, column + 1))[0])

    def _preferred(self) -> Scores:
        """The rates of the nodes with the most, or the fewest, of the job's pods, where that matters."""
        if not self._sign:
            return self._rates
        fits = self._rates > -np.inf
        if not fits.any():
            return self._rates
        siblings = self._sign * self._siblings
        return np.where(fits & (siblings == siblings[fits].max()), self._rates, -np.inf)

    def _first_best(self, close: npt.NDArray[np.intp]) -> int:
        """The first of the exactly best; nodes whose scored amounts are alike are rated once."""
        winner, top = NOWHERE, None
        signs = self._signs(close)
        while len(close):
            rate = self._score.exactly(self._ledger, self._demand, self._span.start + int(close[0]))
            if top is None or rate > top:
                winner, top = int(close[0]), rate
            others = (signs != signs[:, :1]).any(axis=0)
            close, signs = close[others], signs[:, others]
        return winner

    def _signs(self, close: npt.NDArray[np.intp]) -> Amounts:
        """What the exact rates of nodes depend on; how much there is of what is not used does not count."""
        columns, rows = close + self._span.start, self._score.rows(self._ledger.nodes.layout)
        used = self._ledger.used[rows][:, columns] + self._demand.vector[rows, None]
        there = self._ledger.nodes.alloc[rows][:, columns]
        return np.concatenate([used, np.where(used > 0, there, there > 0)])
