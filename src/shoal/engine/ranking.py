"""Ranking: which node of a span is the best for a task, as the ledger changes.

All nodes are rated once for tasks that are alike, whoever they belong to, and afterwards only those that
have changed. Rates are floats, for speed; where the best ones lie too close together for floats to tell, they
are worked out again as exact fractions. So the choice is that of exact arithmetic, ties going to the node
whose name comes first. Nodes that tie stay equal until something happens to them: they are compared once,
and then used up one after another.

Chooser: the best node for a task, and for the next one like it.

Where the best node stays the best, it takes as many as it has room for.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from shoal.engine.ledger import Demand, Ledger, Scores
from shoal.engine.nodes import Mask, NodeSpan
from shoal.engine.resources import Amounts
from shoal.engine.scores import Score
from shoal.engine.workload import NO_NODE

Levels = npt.NDArray[np.int64]
"""A whole number for each node of a span."""

Indices = npt.NDArray[np.intp]
"""Places of nodes in a span."""

_CLOSE: Final = 1e-9
_MANY: Final = 100
"""So many nodes are rated all at once rather than one by one."""


class TiedNodes:
    """Nodes that are exactly as good as each other, by name; nodes are compared by level, then by rate."""

    def __init__(self, nodes: Indices, level: int, rate: float) -> None:
        """Begin with all of them."""
        self._nodes, self.level, self.rate = nodes, level, rate
        self._passed = 0
        self._gone: set[int] = set()

    def first(self) -> int:
        """The first that is left, or NOWHERE."""
        while self._passed < len(self._nodes):
            index = int(self._nodes[self._passed])
            if index not in self._gone:
                return index
            self._passed += 1
        return NO_NODE

    def drop(self, index: int) -> None:
        """Leave out a node whose rate has changed."""
        self._gone.add(index)

    def beat(self, others: "TiedNodes") -> bool:
        """Whether these are certainly better than others."""
        if self.level != others.level:
            return self.level > others.level
        return others.rate < _floor(self.rate)


class NodeRanking:
    """The nodes of a span that are best for tasks of one demand, by one score, up to date with the ledger.

    Where there are `levels`, nodes on a higher one go before all others; one changes only with its node.
    """

    levels: Levels | None = None

    def __init__(self, ledger: Ledger, demand: Demand, span: NodeSpan, score: Score, allowed: Mask) -> None:
        """Rank the nodes of the span that are `allowed`."""
        self._ledger, self._demand, self._span, self._score = ledger, demand, span, score
        self._allowed = allowed
        self._rates = self._rate_all()
        self._best: list[TiedNodes] = []  # the best come last; all others are worse than these

    def first(self) -> int:
        """The column of the best node, or NOWHERE."""
        self._refresh()
        index = self._first_known()
        if index == NO_NODE:
            index = self._find()
        return NO_NODE if index == NO_NODE else self._span.start + index

    def _rate_all(self) -> Scores:
        self._changes, self._known = self._ledger.changed_columns, len(self._ledger.changed_columns)
        fits = self._ledger.fitting(self._demand, self._span) & self._allowed
        if not fits.any():
            return np.full(len(fits), -np.inf)
        return np.where(fits, self._score.score_nodes(self._ledger, self._demand, self._span), -np.inf)

    def _refresh(self) -> None:
        """Rate again what has changed."""
        changes = self._ledger.changed_columns
        if changes is self._changes and len(changes) - self._known <= _MANY:
            stale = {column for column in changes[self._known :] if column in self._span}
            for column in stale:
                self._rate_again(column)
            self._known = len(changes)
        else:
            self._rates = self._rate_all()
            self._best.clear()

    def _rate_again(self, column: int) -> None:
        """Rate one node anew, and give it its place if it is one of the best."""
        index = column - self._span.start
        before, rate = self._rates[index], self._rate(column)
        self._rates[index] = rate
        for ties in self._best if before > -np.inf else ():
            ties.drop(index)
        if rate > -np.inf:
            alone = TiedNodes(np.array([index]), self._level(index), rate)
            better = [ties for ties in self._best if ties.beat(alone)]
            worse = [ties for ties in self._best if alone.beat(ties)]
            apart = worse and len(worse) + len(better) == len(self._best)
            self._best = [*worse, alone, *better] if apart else better

    def _rate(self, column: int) -> float:
        if not self._ledger.has_room(self._demand, column) or not self._allowed[column - self._span.start]:
            return -np.inf
        return float(self._score.score_nodes(self._ledger, self._demand, NodeSpan(column, column + 1))[0])

    def _level(self, index: int) -> int:
        return 0 if self.levels is None else int(self.levels[index])

    def _first_known(self) -> int:
        """The first of the best that are known, or NOWHERE."""
        while self._best:
            index = self._best[-1].first()
            if index != NO_NODE:
                return index
            self._best.pop()
        return NO_NODE

    def _find(self) -> int:
        """Find the best of all; the first of them, or NOWHERE."""
        rates = self._rates if self.levels is None else self._preferred(self.levels)
        index = int(rates.argmax()) if len(rates) else NO_NODE
        if index == NO_NODE or rates[index] == -np.inf:
            return NO_NODE
        close = np.flatnonzero(rates >= _floor(rates[index]))
        best = close if len(close) == 1 else self._exactly_best(close)
        self._best = [TiedNodes(best, self._level(index), rates[index])]
        return int(best[0])

    def _preferred(self, levels: Levels) -> Scores:
        """The rates of the nodes on the highest level that has any."""
        fits = self._rates > -np.inf
        highest = levels[fits].max() if fits.any() else 0
        return np.where(levels == highest, self._rates, -np.inf)

    def _exactly_best(self, close: Indices) -> Indices:
        """Those with the exactly best rate; nodes whose scored amounts are alike are rated once."""
        best, top = [close[:0]], None
        signs = self._signs(close)
        while len(close):
            rate = self._score.exact_score(self._ledger, self._demand, self._span.start + int(close[0]))
            others = (signs != signs[:, :1]).any(axis=0)
            if top is None or rate > top:
                best, top = [], rate
            if rate == top:
                best.append(close[~others])
            close, signs = close[others], signs[:, others]
        return np.sort(np.concatenate(best))

    def _signs(self, close: Indices) -> Amounts:
        """What the exact rates of nodes depend on; how much there is of what is not used does not count."""
        columns, rows = close + self._span.start, self._score.rows(self._ledger.nodes.layout)
        used = self._ledger.used[rows].take(columns, axis=1) + self._demand.vector[rows, None]
        there = self._ledger.nodes.alloc[rows].take(columns, axis=1)
        return np.concatenate([used, np.where(used > 0, there, there > 0)])


def _floor(rate: float) -> float:
    """What lies above this may be as good as a rate: floats cannot tell."""
    return rate - _CLOSE * max(1.0, abs(rate))
