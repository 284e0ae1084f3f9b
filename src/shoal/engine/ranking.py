"""NodeRanking: the best node of a span for a task, kept up to date with the ledger.

All nodes are scored once for tasks of equal demand, of whatever workload, and afterwards only the nodes that
changed. Scores are floats, for speed; where the best ones are too close together for floats to distinguish,
they are computed again as exact fractions. So the choice is that of exact arithmetic, and a tie goes to the
node whose name comes first. Tied nodes stay equal until they change: they are compared once, and then used
one after another.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from shoal.engine.layout import Amounts
from shoal.engine.ledger import Demand, Ledger, Scores
from shoal.engine.nodes import Mask, NodeSpan
from shoal.engine.scores import Score
from shoal.engine.workload import NO_NODE

Levels = npt.NDArray[np.int64]
"""One whole number per node of a span."""

Indices = npt.NDArray[np.intp]
"""Positions of nodes in a span."""

_TOLERANCE: Final = 1e-9
"""Relative difference below which two float scores may stand for equal exact ones."""
_MANY: Final = 100
"""Above this number of changes all nodes are scored at once instead of one by one."""


class TiedNodes:
    """Nodes with exactly equal scores, ordered by name.

    Nodes are compared by level first, then by score.
    """

    def __init__(self, nodes: Indices, level: int, score: float) -> None:
        """Start with all `nodes`, given by their positions in the span."""
        self._nodes, self.level, self.score = nodes, level, score
        self._position = 0
        self._dropped: set[int] = set()

    def first(self) -> int:
        """The position of the first node that was not dropped, or NO_NODE."""
        while self._position < len(self._nodes):
            index = int(self._nodes[self._position])
            if index not in self._dropped:
                return index
            self._position += 1
        return NO_NODE

    def drop(self, index: int) -> None:
        """Drop a node whose score has changed."""
        self._dropped.add(index)

    def is_better_than(self, others: "TiedNodes") -> bool:
        """Whether these nodes are better than others beyond the error of floats."""
        if self.level != others.level:
            return self.level > others.level
        return others.score < _floor(self.score)


class NodeRanking:
    """The best nodes of a span for tasks of one demand by one score, up to date with the ledger.

    With `levels`, nodes on a higher level precede all others. A level may change only together with its node.
    """

    levels: Levels | None = None

    def __init__(self, ledger: Ledger, demand: Demand, span: NodeSpan, score: Score, allowed: Mask) -> None:
        """Rank the nodes of the span that are `allowed`."""
        self._ledger, self._demand, self._span, self._node_score = ledger, demand, span, score
        self._allowed = allowed
        self._scores = self._score_all()
        self._best: list[TiedNodes] = []  # the best are last; all other nodes are worse

    def first(self) -> int:
        """The column of the best node, or NO_NODE."""
        self._refresh()
        index = self._first_of_best()
        if index == NO_NODE:
            index = self._find_best()
        return NO_NODE if index == NO_NODE else self._span.start + index

    def _score_all(self) -> Scores:
        self._changed_columns, self._seen_changes = (
            self._ledger.changed_columns,
            len(self._ledger.changed_columns),
        )
        fits = self._ledger.fitting(self._demand, self._span) & self._allowed
        if not fits.any():
            return np.full(len(fits), -np.inf)
        return np.where(fits, self._node_score.score_nodes(self._ledger, self._demand, self._span), -np.inf)

    def _refresh(self) -> None:
        """Score the nodes again that have changed."""
        changes = self._ledger.changed_columns
        if changes is self._changed_columns and len(changes) - self._seen_changes <= _MANY:
            stale = {column for column in changes[self._seen_changes :] if column in self._span}
            for column in stale:
                self._rescore(column)
            self._seen_changes = len(changes)
        else:
            self._scores = self._score_all()
            self._best.clear()

    def _rescore(self, column: int) -> None:
        """Score one node again, and insert it if it is among the best."""
        index = column - self._span.start
        before, score = self._scores[index], self._score_one(column)
        self._scores[index] = score
        for ties in self._best if before > -np.inf else ():
            ties.drop(index)
        if score > -np.inf:
            single = TiedNodes(np.array([index]), self._level(index), score)
            better = [ties for ties in self._best if ties.is_better_than(single)]
            worse = [ties for ties in self._best if single.is_better_than(ties)]
            distinct = worse and len(worse) + len(better) == len(self._best)
            self._best = [*worse, single, *better] if distinct else better

    def _score_one(self, column: int) -> float:
        if not self._ledger.has_room(self._demand, column) or not self._allowed[column - self._span.start]:
            return -np.inf
        return float(
            self._node_score.score_nodes(self._ledger, self._demand, NodeSpan(column, column + 1))[0]
        )

    def _level(self, index: int) -> int:
        return 0 if self.levels is None else int(self.levels[index])

    def _first_of_best(self) -> int:
        """The first of the known best nodes, or NO_NODE."""
        while self._best:
            index = self._best[-1].first()
            if index != NO_NODE:
                return index
            self._best.pop()
        return NO_NODE

    def _find_best(self) -> int:
        """Find the best nodes among all; returns the first of them, or NO_NODE."""
        scores = self._scores if self.levels is None else self._preferred(self.levels)
        index = int(scores.argmax()) if len(scores) else NO_NODE
        if index == NO_NODE or scores[index] == -np.inf:
            return NO_NODE
        close = np.flatnonzero(scores >= _floor(scores[index]))
        best = close if len(close) == 1 else self._exact_best(close)
        self._best = [TiedNodes(best, self._level(index), scores[index])]
        return int(best[0])

    def _preferred(self, levels: Levels) -> Scores:
        """The scores of the nodes on the highest level that has a fitting node; -inf for the others."""
        fits = self._scores > -np.inf
        highest = levels[fits].max() if fits.any() else 0
        return np.where(levels == highest, self._scores, -np.inf)

    def _exact_best(self, close: Indices) -> Indices:
        """The nodes with the highest exact score; nodes with equal inputs are computed once."""
        best, top = [close[:0]], None
        inputs = self._exact_inputs(close)
        while len(close):
            score = self._node_score.exact_score(self._ledger, self._demand, self._span.start + int(close[0]))
            others = (inputs != inputs[:, :1]).any(axis=0)
            if top is None or score > top:
                best, top = [], score
            if score == top:
                best.append(close[~others])
            close, inputs = close[others], inputs[:, others]
        return np.sort(np.concatenate(best))

    def _exact_inputs(self, close: Indices) -> Amounts:
        """What the exact score of each node depends on.

        Of a resource that is not used, only its existence counts, not its amount.
        """
        columns, rows = close + self._span.start, self._node_score.rows(self._ledger.nodes.layout)
        used = self._ledger.used[rows].take(columns, axis=1) + self._demand.vector[rows, None]
        there = self._ledger.nodes.alloc[rows].take(columns, axis=1)
        return np.concatenate([used, np.where(used > 0, there, there > 0)])


def _floor(score: float) -> float:
    """The lowest float score whose exact value may equal or exceed that of `score`."""
    return score - _TOLERANCE * max(1.0, abs(score))
