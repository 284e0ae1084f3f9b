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

from shoal.engine.elastic import fulfilment, varying_tasks
from shoal.engine.nodes import NodeSpan
from shoal.engine.releasing import Releasing
from shoal.engine.resources import Amounts
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Task, Workload

ReclaimOrder = tuple[float, int]
"""When an extra instance is taken: the more fulfilled its workload is by it, the earlier."""

NO_RECLAIM_ORDER: ReclaimOrder = (-2.0, 0)


class VictimLevel(IntEnum):
    """How much it matters that a pod leaves."""

    FOREIGN = 0
    EXTRA = 1
    HOME = 2


class EvictionUnit(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What leaves together: one task, or all of a workload that would keep too little to go on."""

    workload: Workload
    level: VictimLevel
    tasks: tuple[Task, ...]
    whole: bool = False
    order: ReclaimOrder = NO_RECLAIM_ORDER


class VictimCandidate(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A workload that may lose tasks of a pool: any of `tasks`, or `extras`, whose turns come in order."""

    workload: Workload
    foreign: bool
    tasks: tuple[Task, ...]
    surplus: tuple[tuple[ReclaimOrder, Task], ...] = ()

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


class CandidateIndex:
    """Who has tasks in each pool and may have to leave it."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Look at every workload once."""
        self._found: defaultdict[int, list[tuple[Workload, list[Task]]]] = defaultdict(list)
        self._known: dict[int, list[VictimCandidate]] = {}
        homes = [number for number, pool in enumerate(snapshot.pools) for _ in range(len(pool.span))]
        for workload in snapshot.workloads:
            if workload.evictable and workload.placed:
                there: defaultdict[int, list[Task]] = defaultdict(list)
                for task in workload.placed:
                    there[homes[task.column]].append(task)
                for pool, tasks in there.items():
                    self._found[pool].append((workload, tasks))

    def of(self, pool: int) -> list[VictimCandidate]:
        """Those of one pool, the most important first."""
        if pool not in self._known:
            found = [
                VictimCandidate(workload=workload, foreign=workload.pool != pool, tasks=tuple(tasks))
                for workload, tasks in self._found[pool]
            ]
            self._known[pool] = sorted(found, key=lambda candidate: candidate.importance)
        return self._known[pool]


def surplus_of(workload: Workload, releasing: Releasing, rank: int) -> tuple[tuple[ReclaimOrder, Task], ...]:
    """Instances above the minimum, the highest number first, with their turns to be taken.

    Only the highest is ever taken, so each has the score that the workload has with it and without those
    above it. Among equally fulfilled workloads the one that grows last gives first.
    """
    if workload.growth is None or workload.held or not keeps_minimum(workload, releasing, without=()):
        return ()
    bound = varying_tasks(releasing.remaining(workload))
    size = workload.done + len(bound)
    extra = min(max(size - workload.minimum, 0), len(bound))
    return (
        tuple(
            ((-fulfilment(workload, size - k), -rank), task)
            for k, task in enumerate(reversed(bound[-extra:]))
        )
        if extra
        else ()
    )


def eviction_units(
    candidate: VictimCandidate,
    tasks: Iterable[Task],
    surplus: Collection[tuple[ReclaimOrder, Task]],
    releasing: Releasing,
) -> list[EvictionUnit]:
    """What leaves if these tasks must: they alone, or all of a workload that would keep too little."""
    workload = candidate.workload
    run = {task for _, task in surplus}
    others = tuple(task for task in tasks if task not in run)
    level = VictimLevel.FOREIGN if candidate.foreign else VictimLevel.HOME
    units = [
        EvictionUnit(workload=workload, level=VictimLevel.EXTRA, tasks=(task,), order=order)
        for order, task in surplus
    ]
    if not others:
        return units
    if keeps_minimum(workload, releasing, without=(*run, *others)):
        return units + [EvictionUnit(workload=workload, level=level, tasks=(task,)) for task in others]
    rest = tuple(task for task in releasing.remaining(workload) if task not in run)
    return [*units, EvictionUnit(workload=workload, level=level, tasks=rest, whole=True)]


def reprieve_order(units: list[EvictionUnit]) -> list[EvictionUnit]:
    """Who is put back first: those at home, then extras in the reverse order of taking, then foreigners.

    Within a level the order is kept, except that of extras.
    """
    home = [unit for unit in units if unit.level is VictimLevel.HOME]
    surplus = sorted((u for u in units if u.level is VictimLevel.EXTRA), key=lambda u: u.order, reverse=True)
    return home + surplus + [unit for unit in units if unit.level is VictimLevel.FOREIGN]


def keeps_minimum(workload: Workload, releasing: Releasing, *, without: Iterable[Task]) -> bool:
    """Whether a workload has its minimum when it has lost some more tasks."""
    lost = set(without)
    staying = [task for task in releasing.remaining(workload) if task not in lost]
    if sum([task.varying for task in staying]) + workload.done < workload.minimum:
        return False
    return sum([task.is_fixed for task in staying]) == sum([task.is_fixed for task in workload.tasks])


CostKey = tuple[object, ...]
"""What nodes have in common that cost the same to clear."""

Candidates = list[tuple[VictimCandidate, list[Task]]]
"""Who could leave some place, with which tasks; the most important first."""


class NodeCandidates:
    """Who of the residents of a pool could leave it, and which nodes.

    `judge` tells what a resident could lose at present, if anything. `sorts` has the nodes that anybody could
    leave by their likeness, each sort in order.
    """

    def __init__(
        self,
        span: NodeSpan,
        residents: list[VictimCandidate],
        judge: Callable[[VictimCandidate], VictimCandidate | None],
    ) -> None:
        """Look at all residents, the most important of whom come first."""
        self._span, self._judge = span, judge
        self._residents = {one.workload: (rank, one) for rank, one in enumerate(residents)}
        self._candidates: dict[int, VictimCandidate] = {}
        self._there: defaultdict[int, dict[int, list[Task]]] = defaultdict(dict)
        self._likeness: dict[int, CostKey] = {}
        self._unsorted: dict[int, VictimCandidate | None] = {}
        self._room: Amounts | None = None
        self.by_cost_key: defaultdict[CostKey, list[int]] = defaultdict(list)
        self.judge(self._residents)

    def judge(self, workloads: Iterable[Workload]) -> None:
        """Look again at those residents who are among some workloads."""
        for rank, one in [self._residents[w] for w in workloads if w in self._residents]:
            before, now = self._candidates.pop(rank, None), self._judge(one)
            self._unsorted.setdefault(rank, before)
            if now:
                self._candidates[rank] = now

    def all_candidates(self) -> Candidates:
        """All who could leave the pool."""
        return [(one, list(one.tasks)) for _, one in sorted(self._candidates.items())]

    def at(self, column: int) -> Candidates:
        """All who could leave a node."""
        return [(self._candidates[rank], tasks) for rank, tasks in sorted(self._there[column].items())]

    def sort(self, room: Amounts, sign: Callable[[int], CostKey]) -> None:
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

    def _put(self, column: int, likeness: CostKey | None) -> None:
        before = self._likeness.pop(column, None)
        if before is not None:
            alike = self.by_cost_key[before]
            del alike[bisect_left(alike, column)]
            if not alike:
                del self.by_cost_key[before]
        if likeness is not None:
            self._likeness[column] = likeness
            insort(self.by_cost_key[likeness], column)


def _columns(candidate: VictimCandidate | None) -> dict[int, list[Task]]:
    """The nodes that a candidate could leave, and the tasks that it has there; of extras only the highest."""
    tasks: defaultdict[int, list[Task]] = defaultdict(list)
    if candidate and candidate.surplus:
        tasks[candidate.surplus[0][1].column] = []
    for task in candidate.tasks if candidate else ():
        tasks[task.column].append(task)
    return tasks
