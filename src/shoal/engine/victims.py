"""Budgets: how many pods of a set may be taken away, and which victims would be one too many.

Victims: who may have to leave a pool, what leaves together, and who is spared first.

Three kinds of pods may have to leave. Foreign ones, whose home is another pool; extra ones, instances that an
elastic workload at home has beyond its minimum; and those at home of lower priority.

Places: who could leave each node of a pool, kept from one who needs room to the next.

After each that made room only a few nodes and residents are not what they were: those are looked at again.
Nodes that cost the same to clear are of one sort, and it is enough to clear one of them to see what it costs.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from enum import IntEnum

import msgspec
import numpy as np

from shoal.engine.elastic import score, varying
from shoal.engine.nodes import Span
from shoal.engine.releasing import Departures
from shoal.engine.resources import Amounts
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Task, Workload

Turn = tuple[float, int]
"""When an extra instance is taken: the more fulfilled its workload is by it, the earlier."""

NO_TURN: Turn = (-2.0, 0)


class Level(IntEnum):
    """How much it matters that a pod leaves."""

    FOREIGN = 0
    EXTRA = 1
    HOME = 2


class Unit(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What leaves together: one task, or all of a workload that would keep too little to go on."""

    workload: Workload
    level: Level
    tasks: tuple[Task, ...]
    whole: bool = False
    turn: Turn = NO_TURN


class Candidate(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A workload that may lose tasks of a pool: any of `tasks`, or `extras`, whose turns come in order."""

    workload: Workload
    foreign: bool
    tasks: tuple[Task, ...]
    extras: tuple[tuple[Turn, Task], ...] = ()

    @property
    def importance(self) -> tuple[bool, int, float, str, str, str]:
        """Who is spared first: those at home, of higher priority, older."""
        workload = self.workload
        return (
            self.foreign,
            -workload.priority,
            workload.created,
            workload.namespace,
            workload.name,
            workload.kind,
        )


class Residents:
    """Who has tasks in each pool and may have to leave it."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Look at every workload once."""
        self._found: defaultdict[int, list[tuple[Workload, list[Task]]]] = defaultdict(list)
        self._known: dict[int, list[Candidate]] = {}
        homes = [number for number, pool in enumerate(snapshot.pools) for _ in range(len(pool.span))]
        for workload in snapshot.workloads:
            if workload.evictable and workload.placed:
                there: defaultdict[int, list[Task]] = defaultdict(list)
                for task in workload.placed:
                    there[homes[task.column]].append(task)
                for pool, tasks in there.items():
                    self._found[pool].append((workload, tasks))

    def of(self, pool: int) -> list[Candidate]:
        """Those of one pool, the most important first."""
        if pool not in self._known:
            found = [
                Candidate(workload=workload, foreign=workload.pool != pool, tasks=tuple(tasks))
                for workload, tasks in self._found[pool]
            ]
            self._known[pool] = sorted(found, key=lambda candidate: candidate.importance)
        return self._known[pool]


def extras_of(workload: Workload, departures: Departures, rank: int) -> tuple[tuple[Turn, Task], ...]:
    """Instances above the minimum, the highest number first, with their turns to be taken.

    Only the highest is ever taken, so each has the score that the workload has with it and without those
    above it. Among equally fulfilled workloads the one that grows last gives first.
    """
    if workload.growth is None or workload.held or not keeps_minimum(workload, departures, without=()):
        return ()
    seated = varying(departures.left(workload))
    size = workload.done + len(seated)
    extra = min(max(size - workload.minimum, 0), len(seated))
    return (
        tuple(((-score(workload, size - k), -rank), task) for k, task in enumerate(reversed(seated[-extra:])))
        if extra
        else ()
    )


def units_of(
    candidate: Candidate, tasks: Iterable[Task], extras: Collection[tuple[Turn, Task]], departures: Departures
) -> list[Unit]:
    """What leaves if these tasks must: they alone, or all of a workload that would keep too little."""
    workload = candidate.workload
    run = {task for _, task in extras}
    others = tuple(task for task in tasks if task not in run)
    level = Level.FOREIGN if candidate.foreign else Level.HOME
    units = [Unit(workload=workload, level=Level.EXTRA, tasks=(task,), turn=turn) for turn, task in extras]
    if not others:
        return units
    if keeps_minimum(workload, departures, without=(*run, *others)):
        return units + [Unit(workload=workload, level=level, tasks=(task,)) for task in others]
    rest = tuple(task for task in departures.left(workload) if task not in run)
    return [*units, Unit(workload=workload, level=level, tasks=rest, whole=True)]


def in_order(units: list[Unit]) -> list[Unit]:
    """Who is put back first: those at home, then extras in the reverse order of taking, then foreigners.

    Within a level the order is kept, except that of extras.
    """
    home = [unit for unit in units if unit.level is Level.HOME]
    extras = sorted((u for u in units if u.level is Level.EXTRA), key=lambda u: u.turn, reverse=True)
    return home + extras + [unit for unit in units if unit.level is Level.FOREIGN]


def keeps_minimum(workload: Workload, departures: Departures, *, without: Iterable[Task]) -> bool:
    """Whether a workload has its minimum when it has lost some more tasks."""
    lost = set(without)
    staying = [task for task in departures.left(workload) if task not in lost]
    if sum([task.varying for task in staying]) + workload.done < workload.minimum:
        return False
    return sum([task.is_fixed for task in staying]) == sum([task.is_fixed for task in workload.tasks])


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
