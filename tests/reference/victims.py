"""Preemption for one workload: the candidates for eviction, and which of them are reprieved."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.reference.budgets import Budget, violating
from tests.reference.model import Room, Task, Workload
from tests.reference.placement import Choice, place_minimum

Object = dict[str, Any]
Cost = tuple[int, tuple[int, int], int, int, tuple[Fraction | int, ...]]

HOME, SURPLUS, BORROWER = "Preempted", "Shrunk", "Reclaimed"
"""Eviction reasons of the three levels of victims, the most important first."""


@dataclass(frozen=True)
class SurplusHolder:
    """An elastic workload at home that may lose instances above its minimum, the highest first."""

    job: Workload
    rank: int
    """In the order of growth among equally fulfilled workloads; the last gives first."""
    surplus: list[Task]
    """The highest index first."""
    scores: list[Fraction]
    """Its fulfilment before each of them is evicted."""


@dataclass(frozen=True)
class EvictionUnit:
    """What is evicted or reprieved together: a whole workload, or one of its pods."""

    kind: str
    job: Workload
    tasks: list[Task]
    whole: bool = False
    """All that the workload has, except surplus instances that are units of their own."""


@dataclass(frozen=True)
class PreemptionResult:
    """The victims with their reasons, the most important first, and where the new tasks go."""

    victims: list[tuple[Workload, list[Task], str]]
    choice: Choice


@dataclass(frozen=True)
class Preemption:
    """A workload that needs room in its home pool."""

    room: Room
    """Without pods that terminate anyway, and without reservations for the workload itself."""
    job: Workload
    others: list[Workload]
    """Workloads that may lose all tasks, the most important first."""
    surplus_holders: list[SurplusHolder]
    budgets: list[Budget]

    def find_victims(self, pool: list[Object]) -> PreemptionResult | None:
        """For one task on the best node; for a gang in the pool as a whole."""
        fixed = sum(task.fixed for task in self.job.needing)
        if fixed + self.job.missing > 1:
            return self._find_on(pool)
        results = [(node, self._find_on([node])) for node in pool]
        possible = [
            (self._cost(result), node["metadata"]["name"], result) for node, result in results if result
        ]
        return min(possible, key=lambda one: one[:2])[2] if possible else None

    def _find_on(self, nodes: list[Object]) -> PreemptionResult | None:
        """Repeat until no workload that gives only surplus loses an instance below one that it keeps."""
        most = {holder.job.key: len(holder.surplus) for holder in self.surplus_holders}
        while True:
            attempt = _Attempt(self, nodes, most)
            if not attempt.fits():
                return None
            attempt.put_back()
            kept = attempt.misordered_surplus()
            if not kept:
                return PreemptionResult(attempt.victims(), attempt.placed(attempt.removed) or [])
            most |= kept

    def _cost(self, result: PreemptionResult) -> Cost:
        pods = [(job, task, kind) for job, tasks, kind in result.victims for task in tasks]
        at_home = [job.priority for job, _, kind in pods if kind == HOME]
        surplus = [task for _, task, kind in pods if kind == SURPLUS]
        highest = (2, max(at_home)) if at_home else (1 if surplus else 0, 0)
        return (
            len(violating(self.budgets, [task for _, task, _ in pods])),
            highest,
            sum(max(priority, 0) for priority in at_home),
            len(pods),
            max((order for task, order in self.reclaim_order() if task in surplus), default=()),
        )

    def reclaim_order(self) -> list[tuple[Task, tuple[Fraction, int]]]:
        """All surplus instances in the order in which they are evicted, with the sort key."""
        found = [
            (task, (-score, -holder.rank))
            for holder in self.surplus_holders
            for task, score in zip(holder.surplus, holder.scores, strict=True)
        ]
        return sorted(found, key=lambda one: one[1])


@dataclass
class _Attempt:
    """Removes all candidates from these nodes, and puts as many as possible back."""

    preemption: Preemption
    nodes: list[Object]
    most: dict[str, int]
    """How many surplus instances may be evicted of a workload that may lose nothing else."""

    def __post_init__(self) -> None:
        self.names = {node["metadata"]["name"] for node in self.nodes}
        self.reclaimed: dict[Task, Workload] = {}
        """Surplus instances that are units of their own."""
        self.units: list[EvictionUnit] = []
        for job in self.preemption.others:
            self._remove(job)
        self.runs = {
            holder.job.key: self._run(holder)
            for holder in self.preemption.surplus_holders
            if holder.job not in self.preemption.others
        }
        for holder in self.preemption.surplus_holders:
            self.reclaimed |= dict.fromkeys(self.runs.get(holder.job.key, []), holder.job)
        last_first = [task for task, _ in reversed(self.preemption.reclaim_order())]
        surplus = [
            EvictionUnit(SURPLUS, self.reclaimed[task], [task])
            for task in last_first
            if task in self.reclaimed
        ]
        at_home = [unit for unit in self.units if unit.kind == HOME]
        self.units = [*at_home, *surplus, *(unit for unit in self.units if unit.kind == BORROWER)]
        self.removed = {task for unit in self.units for task in unit.tasks}

    def _remove(self, job: Workload) -> None:
        """The tasks on these nodes, and extra instances above them; all tasks, if it would be broken."""
        here = [task for task in job.placed if task.node in self.names]
        extras = extra_instances(job)
        rest = [task for task in here if task not in extras]
        leaving = [task for task in extras if any(one in extras and one.index <= task.index for one in here)]
        whole = bool(rest) and not job.whole_without({*rest, *leaving})
        if whole:
            rest, leaving = [task for task in job.placed if task not in extras], extras
        kind = HOME if job.pool == self.preemption.job.pool else BORROWER
        if kind == HOME and any(holder.job is job for holder in self.preemption.surplus_holders):
            self.reclaimed |= dict.fromkeys(leaving, job)
        else:
            rest = rest + leaving
        if whole:
            self.units.append(EvictionUnit(kind, job, rest, whole=True))
        else:
            self.units += [EvictionUnit(kind, job, [task]) for task in rest]

    def _run(self, holder: SurplusHolder) -> list[Task]:
        """Surplus instances from the highest down, as long as they are on these nodes."""
        surplus = holder.surplus[: self.most[holder.job.key]]
        away = [number for number, task in enumerate(surplus) if task.node not in self.names]
        return surplus[: min(away, default=len(surplus))]

    def placed(self, removed: set[Task]) -> Choice | None:
        return place_minimum(self.preemption.room.without(removed), self.nodes, self.preemption.job)

    def fits(self) -> bool:
        return self.placed(self.removed) is not None

    def put_back(self) -> None:
        """Repeat until nothing more can be put back."""
        first = self._violating()
        order = first + [unit for unit in self.units if unit not in first]
        before: set[Task] = set()
        while before != self.removed:
            before = set(self.removed)
            for unit in order:
                self._put_back_unit(unit)

    def _put_back_unit(self, unit: EvictionUnit) -> None:
        """All tasks of a workload if they fit, else as many as fit if these make its minimum."""
        tasks = [task for task in unit.tasks if task in self.removed]
        if unit.job.whole_without(self.removed):
            self.removed = self._put_back_each(unit.job, tasks, self.removed)
        elif not unit.whole:
            return  # an extra instance of a workload that lost its minimum
        elif self.placed(self.removed - set(tasks)) is not None:
            self.removed -= set(tasks)
        else:
            removed = self._put_back_each(unit.job, tasks, self.removed)
            for task in extra_instances(unit.job):
                if task in self.reclaimed and not unit.job.whole_without(removed):
                    removed = self._put_back_each(unit.job, [task], removed)
            if unit.job.whole_without(removed):
                self.removed = removed

    def _put_back_each(self, job: Workload, tasks: list[Task], removed: set[Task]) -> set[Task]:
        """What is still removed after putting back tasks one by one; no extra instance before a lower one."""
        extras = self._ordered_extras(job)
        for task in tasks:
            below = {other for other in extras if task in extras and other.index < task.index}
            if not below & removed and self.placed(removed - {task}) is not None:
                removed = removed - {task}
        return removed

    def _ordered_extras(self, job: Workload) -> list[Task]:
        """Extra instances of a workload that may lose any task: none goes while a higher one stays."""
        return [] if job.key in self.runs else extra_instances(job)

    def misordered_surplus(self) -> dict[str, int]:
        """Workloads that would lose a surplus instance below one that stays, and how many they may lose."""
        stays = {key: [task not in self.removed for task in run] for key, run in self.runs.items()}
        return {key: kept.index(True) for key, kept in stays.items() if kept != sorted(kept)}

    def _violating(self) -> list[EvictionUnit]:
        violating_tasks = violating(
            self.preemption.budgets, [task for unit in self.units for task in unit.tasks]
        )

        def violates(unit: EvictionUnit) -> bool:
            extras = self._ordered_extras(unit.job)
            if unit.whole:
                return bool(violating_tasks & {*unit.tasks, *extras})
            above = {t for t in extras if unit.tasks[0] in extras and t.index > unit.tasks[0].index}
            return bool(violating_tasks & {*unit.tasks, *above})

        return [unit for unit in self.units if violates(unit)]

    def victims(self) -> list[tuple[Workload, list[Task], str]]:
        """Workloads at home, then surplus instances in reclaim order, then borrowers."""
        lost_whole = [
            unit.job for unit in self.units if unit.whole and not unit.job.whole_without(self.removed)
        ]
        surplus = [
            unit
            for unit in self.units
            if unit.kind == SURPLUS and unit.job not in lost_whole and unit.tasks[0] in self.removed
        ]
        taken = {task for unit in surplus for task in unit.tasks}
        whole = [
            (job, [task for task in job.placed if task in self.removed - taken])
            for job in self.preemption.others
        ]
        home = self.preemption.job.pool
        return [
            *((job, tasks, HOME) for job, tasks in whole if tasks and job.pool == home),
            *((unit.job, unit.tasks, SURPLUS) for unit in reversed(surplus)),
            *((job, tasks, BORROWER) for job, tasks in whole if tasks and job.pool != home),
        ]


def extra_instances(job: Workload) -> list[Task]:
    """The instances of an elastic workload above its minimum: those of the highest indices, in order."""
    if job.elastic is None or not job.minimum_met:
        return []
    bound = sorted((task for task in job.varying if task.node), key=lambda task: task.index)
    count = min(len(bound), max(0, job.size - job.minimum))
    return bound[len(bound) - count :]


def by_importance(jobs: list[Workload], pool: str) -> list[Workload]:
    """Workloads at home in the pool first, then by priority, then the older."""
    return sorted(
        jobs,
        key=lambda job: (job.pool != pool, -job.priority, job.created, job.namespace, job.name, job.kind),
    )
