"""Bounds: when a gang certainly does not fit, seen without placing it.

Whatever the order in which a gang is placed, no node takes more of a shape than fits it alone, and no node
gives more of a resource than it has left, or than the shapes that fit it could use. If all nodes together
cannot give what the gang needs at least, it need not be tried. For a gang of one shape that is all there is
to it: what is not excluded fits.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from shoal.scheduling.filters import Filters
from shoal.scheduling.nodes import Span
from shoal.scheduling.ranking import Indices
from shoal.scheduling.resources import UNLIMITED, Amounts, exact_sums
from shoal.scheduling.workload import Task, Workload

_LARGE: Final = 2 * UNLIMITED
"""What comes to more than this is not counted, so that no sum overflows."""


class Bound:
    """The most that the nodes of a span could take of a gang's minimum, and what it needs.

    Counted are pods of each shape, and then units of each resource that the shapes ask for.
    """

    def __init__(self, filters: Filters, span: Span, workload: Workload) -> None:
        """Look at every node."""
        self._ledger, self._span = filters.ledger, span
        tasks = workload.missing
        first = {task.shape: task for task in tasks}
        numbers = {shape: number for number, shape in enumerate(first)}
        self._suitable = np.array([filters.suitable(task)[span.columns] for task in first.values()])
        self._asked = np.array([self._ledger.demand(shape).vector for shape in first])
        self._often = np.bincount([numbers[task.shape] for task in tasks])[:, None]
        totals = (self._asked.astype(object) * self._often).sum(axis=0)
        self._rows = [row for row, total in enumerate(totals) if 0 < total < _LARGE]
        self._steps = np.gcd.reduce(self._asked[:, self._rows], axis=0)[:, None]
        weights = np.concatenate([np.eye(len(first), dtype=np.int64), self._asked[:, self._rows].T])
        self._needs = _needs(tasks, [weights[:, numbers[task.shape]] for task in tasks], workload.lacking)
        self._most = self._look(np.arange(len(span)))
        self._totals = exact_sums(self._most)

    def excludes(self) -> bool:
        """Whether there is certainly too little room."""
        return any(total < need for total, need in zip(self._totals, self._needs, strict=True))

    def refresh(self, columns: Sequence[int]) -> None:
        """Look again at nodes that have changed."""
        nodes = np.array([column for column in set(columns) if column in self._span], dtype=np.intp)
        nodes -= self._span.start
        before, self._most[:, nodes] = self._most[:, nodes], self._look(nodes)
        more = exact_sums(self._most[:, nodes] - before)
        self._totals = [total + change for total, change in zip(self._totals, more, strict=True)]

    def _look(self, nodes: Indices) -> Amounts:
        """The most that each of some nodes could take."""
        room = np.maximum(self._ledger.room[:, nodes + self._span.start], 0)
        times = room // np.maximum(self._asked, 1)[:, :, None]
        times[self._asked == 0] = UNLIMITED
        pods = np.minimum(times.min(axis=1), self._often) * self._suitable[:, nodes]
        units = room[self._rows] // self._steps * self._steps
        return np.concatenate([pods, np.minimum(units, self._asked[:, self._rows].T @ pods)])


def _needs(tasks: Sequence[Task], weights: Sequence[Amounts], lacking: int) -> list[int]:
    """What tasks need at least of all that is counted: all that do not vary, and the least of the others."""
    fixed = [weight for task, weight in zip(tasks, weights, strict=True) if not task.varying]
    varying = [weight for task, weight in zip(tasks, weights, strict=True) if task.varying]
    least = np.sort(np.array(varying).T, axis=1)[:, :lacking] if varying else np.zeros((len(weights[0]), 0))
    return [sum(map(int, some)) for some in zip(*fixed, *least.T, strict=True)]
