"""Victims: who may have to leave a pool, what leaves together, and who is spared first.

Three kinds of pods may have to leave. Foreign ones, whose home is another pool; extra ones, instances that an
elastic workload at home has beyond its minimum; and those at home of lower priority.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from enum import IntEnum

import msgspec

from shoal.scheduling.departures import Departures
from shoal.scheduling.sizes import score, varying
from shoal.scheduling.snapshot import Snapshot
from shoal.scheduling.workload import Task, Workload

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
