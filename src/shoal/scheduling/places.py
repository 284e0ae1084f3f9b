"""Places: who could leave each node of a pool, kept from one who needs room to the next.

After each that made room only a few nodes and residents are not what they were: those are looked at again.
Nodes that cost the same to clear are of one sort, and it is enough to clear one of them to see what it costs.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np

from shoal.scheduling.nodes import Span
from shoal.scheduling.resources import Amounts
from shoal.scheduling.victims import Candidate
from shoal.scheduling.workload import Task, Workload

Likeness = tuple[object, ...]
"""What nodes have in common that cost the same to clear."""

Place = list[tuple[Candidate, list[Task]]]
"""Who could leave some place, with which tasks; the most important first."""


class Places:
    """Who of the residents of a pool could leave it, and which nodes.

    `judge` tells what a resident could lose at present, if anything. `sorts` has the nodes that anybody could
    leave by their likeness, each sort in order.
    """

    def __init__(
        self, span: Span, residents: list[Candidate], judge: Callable[[Candidate], Candidate | None]
    ) -> None:
        """Look at all residents, the most important of whom come first."""
        self._span, self._judge = span, judge
        self._residents = {one.workload: (rank, one) for rank, one in enumerate(residents)}
        self._candidates: dict[int, Candidate] = {}
        self._there: defaultdict[int, dict[int, list[Task]]] = defaultdict(dict)
        self._likeness: dict[int, Likeness] = {}
        self._unsorted: dict[int, Candidate | None] = {}
        self._room: Amounts | None = None
        self.sorts: defaultdict[Likeness, list[int]] = defaultdict(list)
        self.judge(self._residents)

    def judge(self, workloads: Iterable[Workload]) -> None:
        """Look again at those residents who are among some workloads."""
        for rank, one in [self._residents[w] for w in workloads if w in self._residents]:
            before, now = self._candidates.pop(rank, None), self._judge(one)
            self._unsorted.setdefault(rank, before)
            if now:
                self._candidates[rank] = now

    def everybody(self) -> Place:
        """All who could leave the pool."""
        return [(one, list(one.tasks)) for _, one in sorted(self._candidates.items())]

    def at(self, column: int) -> Place:
        """All who could leave a node."""
        return [(self._candidates[rank], tasks) for rank, tasks in sorted(self._there[column].items())]

    def sort(self, room: Amounts, sign: Callable[[int], Likeness]) -> None:
        """Sort the nodes anew whose `room` has changed, or whose residents have; `sign` tells a likeness."""
        stale = self._rearrange()
        if self._room is not None:
            stale.update((np.flatnonzero((room != self._room).any(axis=0)) + self._span.start).tolist())
        self._room = room.copy()
        for column in sorted(stale):
            self._put(column, sign(column) if self._there[column] else None)

    def _rearrange(self) -> set[int]:
        """Note where those are who could leave by now; the nodes that this concerns."""
        concerned: set[int] = set()
        for rank, before in self._unsorted.items():
            earlier, now = _columns(before), _columns(self._candidates.get(rank))
            concerned.update(earlier, now)
            for column in earlier:
                del self._there[column][rank]
            for column, tasks in now.items():
                self._there[column][rank] = tasks
        self._unsorted.clear()
        return concerned

    def _put(self, column: int, likeness: Likeness | None) -> None:
        before = self._likeness.pop(column, None)
        if before is not None:
            alike = self.sorts[before]
            del alike[bisect_left(alike, column)]
            if not alike:
                del self.sorts[before]
        if likeness is not None:
            self._likeness[column] = likeness
            insort(self.sorts[likeness], column)


def _columns(candidate: Candidate | None) -> dict[int, list[Task]]:
    """The nodes that a candidate could leave, and the tasks that it has there; of extras only the highest."""
    tasks: defaultdict[int, list[Task]] = defaultdict(list)
    if candidate and candidate.extras:
        tasks[candidate.extras[0][1].column] = []
    for task in candidate.tasks if candidate else ():
        tasks[task.column].append(task)
    return tasks
