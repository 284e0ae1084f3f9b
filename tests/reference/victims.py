"""Making room for one workload: who would have to go, and who may stay after all."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.reference.budgets import Budget, violating
from tests.reference.model import Room, Task, Workload
from tests.reference.placing import Choice, place_minimum

Object = dict[str, Any]
Cost = tuple[int, tuple[int, int], int, int, tuple[Fraction | int, ...]]

HOME, EXTRA, FOREIGN = "Preempted", "Shrunk", "Reclaimed"
"""The three kinds of victims, the most important first, by the reason that they are told."""


@dataclass(frozen=True)
class Giver:
    """An elastic workload at home that may give what it has above its minimum, the last first."""

    job: Workload
    place: int
    """In the order of growth among equally fulfilled ones; the last gives first."""
    extras: list[Task]
    """The highest index first."""
    scores: list[Fraction]
    """How fulfilled it is before each of them goes."""


@dataclass(frozen=True)
class Unit:
    """What goes or stays together: a whole workload, or one of its pods."""

    kind: str
    job: Workload
    tasks: list[Task]
    whole: bool = False
    """All that the workload has, but the extras that are units of their own."""


@dataclass(frozen=True)
class Deal:
    """The victims, the most important first, with their reasons, and where the new tasks go."""

    victims: list[tuple[Workload, list[Task], str]]
    choice: Choice


@dataclass(frozen=True)
class Bargain:
    """A workload that asks for room in its home pool."""

    room: Room
    """Without what leaves anyway, and without what is kept for the workload itself."""
    job: Workload
    others: list[Workload]
    """Those that may be victims with all they have, the most important first."""
    givers: list[Giver]
    guards: list[Budget]

    def deal(self, pool: list[Object]) -> Deal | None:
        """For one task the best node; for a gang the pool as a whole."""
        fixed = sum(task.fixed for task in self.job.needing)
        if fixed + self.job.missing > 1:
            return self._deal_on(pool)
        deals = [(node, self._deal_on([node])) for node in pool]
        possible = [(self._cost(deal), node["metadata"]["name"], deal) for node, deal in deals if deal]
        return min(possible, key=lambda one: one[:2])[2] if possible else None

    def _deal_on(self, nodes: list[Object]) -> Deal | None:
        """Until nobody loses an extra and keeps one of a higher index."""
        most = {giver.job.key: len(giver.extras) for giver in self.givers}
        while True:
            attempt = _Attempt(self, nodes, most)
            if not attempt.works():
                return None
            attempt.put_back()
            kept = attempt.kept_before_lost()
            if not kept:
                return Deal(attempt.victims(), attempt.placed(attempt.out) or [])
            most |= kept

    def _cost(self, deal: Deal) -> Cost:
        pods = [(job, task, kind) for job, tasks, kind in deal.victims for task in tasks]
        at_home = [job.priority for job, _, kind in pods if kind == HOME]
        extras = [task for _, task, kind in pods if kind == EXTRA]
        highest = (2, max(at_home)) if at_home else (1 if extras else 0, 0)
        return (
            len(violating(self.guards, [task for _, task, _ in pods])),
            highest,
            sum(max(priority, 0) for priority in at_home),
            len(pods),
            max((order for task, order in self.taking() if task in extras), default=()),
        )

    def taking(self) -> list[tuple[Task, tuple[Fraction, int]]]:
        """All extras in the order in which they are taken, with the key of that order."""
        found = [
            (task, (-score, -giver.place))
            for giver in self.givers
            for task, score in zip(giver.extras, giver.scores, strict=True)
        ]
        return sorted(found, key=lambda one: one[1])


@dataclass
class _Attempt:
    """Everybody out who may have to go from these nodes, and as many as possible back in."""

    bargain: Bargain
    nodes: list[Object]
    most: dict[str, int]
    """How many extras of each giver may be taken."""
    gone: list[Workload] = field(default_factory=list)
    """Whole workloads that were not put back."""

    def __post_init__(self) -> None:
        self.names = {node["metadata"]["name"] for node in self.nodes}
        self.runs = {giver.job.key: self._run(giver) for giver in self.bargain.givers}
        self.units = [*self._standing(HOME), *self._extras(), *self._standing(FOREIGN)]
        self.out = {task for unit in self.units for task in unit.tasks}

    def _run(self, giver: Giver) -> list[Task]:
        """Extras from the top, as long as they are here."""
        extras = giver.extras[: self.most[giver.job.key]]
        away = [number for number, task in enumerate(extras) if task.node not in self.names]
        return extras[: min(away, default=len(extras))]

    def _extras(self) -> list[Unit]:
        """Who is taken last is put back first."""
        jobs = {task: giver.job for giver in self.bargain.givers for task in self.runs[giver.job.key]}
        last_first = [task for task, _ in reversed(self.bargain.taking()) if task in jobs]
        return [Unit(EXTRA, jobs[task], [task]) for task in last_first]

    def _standing(self, kind: str) -> list[Unit]:
        """All others on these nodes; a workload that would lose its minimum is one unit, wherever it is."""
        units = []
        for job in self.bargain.others:
            run = self.runs.get(job.key, [])
            here = [task for task in job.placed if task.node in self.names and task not in run]
            if (kind == HOME) != (job.pool == self.bargain.job.pool) or not here:
                continue
            if job.whole_without({*here, *run}):
                units += [Unit(kind, job, [task]) for task in here]
            else:
                units.append(Unit(kind, job, [task for task in job.placed if task not in run], whole=True))
        return units

    def placed(self, out: set[Task]) -> Choice | None:
        return place_minimum(self.bargain.room.without(out), self.nodes, self.bargain.job)

    def works(self) -> bool:
        return self.placed(self.out) is not None

    def put_back(self) -> None:
        first = self._violating()
        for unit in first + [unit for unit in self.units if unit not in first]:
            if unit.job in self.gone:
                continue
            if self.placed(self.out - set(unit.tasks)) is not None:
                self.out -= set(unit.tasks)
            elif unit.whole:
                self.gone.append(unit.job)
        for unit in self.units:
            if unit.whole and unit.job in self.gone:
                self._put_some_back(unit.job)

    def _violating(self) -> list[Unit]:
        guarded = violating(self.bargain.guards, [task for unit in self.units for task in unit.tasks])

        def violates(unit: Unit) -> bool:
            run = self.runs.get(unit.job.key, []) if unit.whole else []
            return bool(guarded & {*unit.tasks, *run})

        return [unit for unit in self.units if violates(unit)]

    def _put_some_back(self, job: Workload) -> None:
        """As many pods of a workload as possible, if that is its minimum."""
        spared = self.out
        for task in job.placed:
            if self.placed(spared - {task}) is not None:
                spared = spared - {task}
        if job.whole_without(spared):
            self.out = spared

    def kept_before_lost(self) -> dict[str, int]:
        """The givers that would lose an extra and keep one above it, and how many they may lose instead."""
        found = {}
        for giver in self.bargain.givers:
            stays = [task not in self.out for task in self.runs[giver.job.key]]
            if giver.job not in self.gone and stays != sorted(stays):
                found[giver.job.key] = stays.index(True)
        return found

    def victims(self) -> list[tuple[Workload, list[Task], str]]:
        """At home workload by workload, then extras in the order of taking, then strangers."""
        extras = [unit for unit in self._extras() if unit.job not in self.gone and unit.tasks[0] in self.out]
        taken = {task for unit in extras for task in unit.tasks}
        whole = [
            (job, [task for task in job.placed if task in self.out - taken]) for job in self.bargain.others
        ]
        home = self.bargain.job.pool
        return [
            *((job, tasks, HOME) for job, tasks in whole if tasks and job.pool == home),
            *((unit.job, unit.tasks, EXTRA) for unit in reversed(extras)),
            *((job, tasks, FOREIGN) for job, tasks in whole if tasks and job.pool != home),
        ]


def by_importance(jobs: list[Workload], pool: str) -> list[Workload]:
    """Those at home in the pool first; by class, then the older."""
    return sorted(
        jobs,
        key=lambda job: (job.pool != pool, -job.priority, job.created, job.namespace, job.name, job.kind),
    )
