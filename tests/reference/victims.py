"""Making room for one workload: who would have to go, and who may stay after all."""

import math
from dataclasses import dataclass
from typing import Any

from tests.reference.model import Room, Standing, Task, Workload
from tests.reference.objects import Input, namespace
from tests.reference.placing import Choice, place_minimum
from tests.reference.selectors import selects

Object = dict[str, Any]


# --- disruption budgets ------------------------------------------------------------------------------------


@dataclass
class Budget:
    """A PodDisruptionBudget, and how many evictions are left of it."""

    namespace: str
    selector: Object | None
    left: int

    def guards(self, pod: Task | Standing) -> bool:
        return pod.namespace == self.namespace and selects(self.selector, pod.labels)


def budgets(world: Input, standing: list[Standing]) -> list[Budget]:
    found = []
    for one in world.of_kind("PodDisruptionBudget"):
        budget = Budget(namespace(one), one["spec"].get("selector"), 0)
        healthy = sum(budget.guards(pod) and not pod.terminating for pod in standing)
        said = (one.get("status") or {}).get("disruptionsAllowed")
        budget.left = max(0, _computed(one["spec"], healthy) if said is None else int(said))
        found.append(budget)
    return found


def _computed(spec: Object, healthy: int) -> int:
    if spec.get("maxUnavailable") is not None:
        return _count(spec["maxUnavailable"], healthy)
    return healthy - _count(spec.get("minAvailable", 1), healthy)


def _count(written: int | str, of: int) -> int:
    """A number, or a percentage rounded up."""
    text = str(written)
    return math.ceil(int(text[:-1]) * of / 100) if text.endswith("%") else int(text)


def violating(guards: list[Budget], tasks: list[Task]) -> set[Task]:
    """Those for which a budget has nothing left, when they go in this order."""
    left = [one.left for one in guards]
    found = set()
    for task in tasks:
        for number, one in enumerate(guards):
            if one.guards(task):
                if left[number] <= 0:
                    found.add(task)
                left[number] -= 1
    return found


def spend(guards: list[Budget], task: Task) -> None:
    for one in guards:
        if one.guards(task):
            one.left -= 1


# --- bargaining --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """What goes or stays together: a whole workload, or one of its pods."""

    job: Workload
    tasks: list[Task]


@dataclass(frozen=True)
class Deal:
    """The victims of each workload, the most important first, and where the tasks go that come instead."""

    victims: list[tuple[Workload, list[Task]]]
    choice: Choice


@dataclass(frozen=True)
class Bargain:
    """A workload that asks for room in its home pool."""

    room: Room
    """Without what leaves anyway, and without what is kept for the workload itself."""
    job: Workload
    others: list[Workload]
    """Those that may be victims, the most important first."""
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
        units = self._units(nodes)
        out = {task for unit in units for task in unit.tasks}
        if self._placed(nodes, out) is None:
            return None
        out = self._put_units_back(nodes, units, out)
        for job in dict.fromkeys(unit.job for unit in units):
            if all(task in out for task in job.placed):
                out = self._put_some_back(nodes, job, out)
        choice = self._placed(nodes, out)
        assert choice is not None
        leaving = [(job, [task for task in job.placed if task in out]) for job in self.others]
        return Deal([(job, tasks) for job, tasks in leaving if tasks], choice)

    def _units(self, nodes: list[Object]) -> list[Unit]:
        """All candidates on these nodes; a workload that would lose its minimum is in it whole."""
        names = {node["metadata"]["name"] for node in nodes}
        units = []
        for job in self.others:
            here = [task for task in job.placed if task.node in names]
            if job.whole_without(set(here)):
                units += [Unit(job, [task]) for task in here]
            elif here:
                units.append(Unit(job, job.placed))
        return units

    def _placed(self, nodes: list[Object], out: set[Task]) -> Choice | None:
        return place_minimum(self.room.without(out), nodes, self.job)

    def _put_units_back(self, nodes: list[Object], units: list[Unit], out: set[Task]) -> set[Task]:
        guarded = violating(self.guards, [task for unit in units for task in unit.tasks])
        first = [unit for unit in units if guarded & set(unit.tasks)]
        for unit in first + [unit for unit in units if unit not in first]:
            fewer = out - set(unit.tasks)
            if self._placed(nodes, fewer) is not None:
                out = fewer
        return out

    def _put_some_back(self, nodes: list[Object], job: Workload, out: set[Task]) -> set[Task]:
        """As many pods of a workload as possible, if that is its minimum."""
        spared = out
        for task in job.placed:
            if self._placed(nodes, spared - {task}) is not None:
                spared = spared - {task}
        return spared if job.whole_without(spared) else out

    def _cost(self, deal: Deal) -> tuple[int, tuple[bool, int], int, int]:
        pods = [(job, task) for job, tasks in deal.victims for task in tasks]
        at_home = [job.priority for job, _ in pods if job.pool == self.job.pool]
        return (
            len(violating(self.guards, [task for _, task in pods])),
            (bool(at_home), max(at_home, default=0)),
            sum(max(priority, 0) for priority in at_home),
            len(pods),
        )


def by_importance(jobs: list[Workload], pool: str) -> list[Workload]:
    """Those at home in the pool first; by class, then the older."""
    return sorted(
        jobs,
        key=lambda job: (job.pool != pool, -job.priority, job.created, job.namespace, job.name, job.kind),
    )
