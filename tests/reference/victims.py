"""Preemption for one workload: the candidates for eviction, and which of them are reprieved."""

from dataclasses import dataclass, field
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
        """Repeat until no workload loses a surplus instance below one that it keeps."""
        most = {holder.job.key: len(holder.surplus) for holder in self.surplus_holders}
        while True:
            attempt = _Attempt(self, nodes, most)
            if not attempt.fits():
                return None
            attempt.reprieve()
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
    """How many surplus instances of each workload may be evicted."""
    lost_whole: list[Workload] = field(default_factory=list)
    """Whole workloads that were not reprieved."""

    def __post_init__(self) -> None:
        self.names = {node["metadata"]["name"] for node in self.nodes}
        self.runs = {holder.job.key: self._run(holder) for holder in self.preemption.surplus_holders}
        self.units = [*self._pods_on_nodes(HOME), *self._surplus(), *self._pods_on_nodes(BORROWER)]
        self.removed = {task for unit in self.units for task in unit.tasks}

    def _run(self, holder: SurplusHolder) -> list[Task]:
        """Surplus instances from the highest down, as long as they are on these nodes."""
        surplus = holder.surplus[: self.most[holder.job.key]]
        away = [number for number, task in enumerate(surplus) if task.node not in self.names]
        return surplus[: min(away, default=len(surplus))]

    def _surplus(self) -> list[EvictionUnit]:
        """The instance that is evicted last is reprieved first."""
        jobs = {
            task: holder.job
            for holder in self.preemption.surplus_holders
            for task in self.runs[holder.job.key]
        }
        last_first = [task for task, _ in reversed(self.preemption.reclaim_order()) if task in jobs]
        return [EvictionUnit(SURPLUS, jobs[task], [task]) for task in last_first]

    def _pods_on_nodes(self, kind: str) -> list[EvictionUnit]:
        """Other tasks on these nodes; a workload that would lose its minimum is one unit, on all nodes."""
        units = []
        for job in self.preemption.others:
            run = self.runs.get(job.key, [])
            here = [task for task in job.placed if task.node in self.names and task not in run]
            if (kind == HOME) != (job.pool == self.preemption.job.pool) or not here:
                continue
            if job.whole_without({*here, *run}):
                units += [EvictionUnit(kind, job, [task]) for task in here]
            else:
                units.append(
                    EvictionUnit(kind, job, [task for task in job.placed if task not in run], whole=True)
                )
        return units

    def placed(self, removed: set[Task]) -> Choice | None:
        return place_minimum(self.preemption.room.without(removed), self.nodes, self.preemption.job)

    def fits(self) -> bool:
        return self.placed(self.removed) is not None

    def reprieve(self) -> None:
        first = self._violating()
        for unit in first + [unit for unit in self.units if unit not in first]:
            if unit.job in self.lost_whole:
                continue
            if self.placed(self.removed - set(unit.tasks)) is not None:
                self.removed -= set(unit.tasks)
            elif unit.whole:
                self.lost_whole.append(unit.job)
        for unit in self.units:
            if unit.whole and unit.job in self.lost_whole:
                self._reprieve_tasks(unit.job)

    def _violating(self) -> list[EvictionUnit]:
        violating_tasks = violating(
            self.preemption.budgets, [task for unit in self.units for task in unit.tasks]
        )

        def violates(unit: EvictionUnit) -> bool:
            run = self.runs.get(unit.job.key, []) if unit.whole else []
            return bool(violating_tasks & {*unit.tasks, *run})

        return [unit for unit in self.units if violates(unit)]

    def _reprieve_tasks(self, job: Workload) -> None:
        """Reprieve as many tasks of a workload as possible, if that is its minimum."""
        remaining_victims = self.removed
        for task in job.placed:
            if self.placed(remaining_victims - {task}) is not None:
                remaining_victims = remaining_victims - {task}
        if job.whole_without(remaining_victims):
            self.removed = remaining_victims

    def misordered_surplus(self) -> dict[str, int]:
        """Workloads that would lose a surplus instance below one that stays, and how many they may lose."""
        found = {}
        for holder in self.preemption.surplus_holders:
            stays = [task not in self.removed for task in self.runs[holder.job.key]]
            if holder.job not in self.lost_whole and stays != sorted(stays):
                found[holder.job.key] = stays.index(True)
        return found

    def victims(self) -> list[tuple[Workload, list[Task], str]]:
        """Workloads at home, then surplus instances in reclaim order, then borrowers."""
        surplus = [
            unit
            for unit in self._surplus()
            if unit.job not in self.lost_whole and unit.tasks[0] in self.removed
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


def by_importance(jobs: list[Workload], pool: str) -> list[Workload]:
    """Workloads at home in the pool first, then by priority, then the older."""
    return sorted(
        jobs,
        key=lambda job: (job.pool != pool, -job.priority, job.created, job.namespace, job.name, job.kind),
    )
