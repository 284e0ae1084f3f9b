"""Aftermath: the room that a plan leaves, and the room there was at one turn, as a ledger."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import takewhile

from shoal.engine.affinity import InterPodRules, Occupant
from shoal.engine.filters import Filters
from shoal.engine.ledger import Ledger
from shoal.engine.plan import Placement
from shoal.engine.report import CycleResult
from shoal.engine.workload import NO_NODE, Task, Workload


class Aftermath:
    """What a plan left of the nodes, as one workload sees it."""

    def __init__(self, step: CycleResult, workload: Workload) -> None:
        """See a plan with the eyes of `workload`: its own promises keep no room from it."""
        self.snapshot, self.plan, self.workload = step.snapshot, step.plan, workload
        mine = (placement.task for placement in self.plan.placements if placement.workload is workload)
        given = {eviction.task for eviction in self.plan.evictions if eviction.reason == "Shrunk"}
        self.tasks = tuple(task for task in dict.fromkeys((*workload.tasks, *mine)) if task not in given)
        self.promises = [n for n in self.plan.nominations if n.workload is not workload]
        self.evicted = {eviction.task for eviction in self.plan.evictions}
        self._seats = {task: task.column for task in workload.tasks if task.column != NO_NODE}
        self._seats |= {p.task: p.column for p in self.plan.placements}
        self.nominated = {n.task: n.column for n in self.plan.nominations if n.workload is workload}

    @property
    def missing(self) -> list[Task]:
        """Tasks of the workload that have no node after the plan."""
        return [task for task in self.tasks if self.column(task) == NO_NODE]

    @property
    def size(self) -> int:
        """How many of those that vary have nodes, or have ended."""
        return self.workload.done + sum(task.varying for task, _ in self.seated)

    @property
    def minimum_tasks(self) -> list[Task]:
        """Those of the missing tasks that its minimum lacks after the plan."""
        lacking = max(self.workload.minimum - self.size, 0)
        varying = set([task for task in self.missing if task.varying][:lacking])
        return [task for task in self.missing if task.is_fixed or task in varying]

    @property
    def seated(self) -> list[tuple[Task, int]]:
        """Tasks of the workload that have a node after the plan."""
        return [(task, self.column(task)) for task in self.tasks if self.column(task) != NO_NODE]

    @property
    def leaving(self) -> list[Occupant]:
        """Who is still there, and about to go."""
        gone = (eviction.task for eviction in self.plan.evictions)
        return [*self.snapshot.terminating, *(Occupant(t.column, t.shape, t.identity) for t in gone)]

    def column(self, task: Task) -> int:
        """The node that a task of the workload has after the plan."""
        return NO_NODE if task in self.evicted else self._seats.get(task, NO_NODE)

    def kept_for(self) -> Mapping[int, list[str]]:
        """For whom room is kept on each node."""
        names: defaultdict[int, dict[str, None]] = defaultdict(dict)
        for promise in self.promises:
            names[promise.column][promise.workload.key] = None
        return {column: list(keys) for column, keys in names.items()}

    def after(self) -> Filters:
        """The room that is left when all is decided."""
        return self._filters(self.plan.placements, self.promises)

    def at_turn(self, task: Task) -> Filters:
        """The room there was when a task was placed: what came before it is there, what came after is not."""
        before = list(takewhile(lambda placement: placement.task is not task, self.plan.placements))
        return self._filters(before, self._were_earlier())

    def without(self) -> Filters:
        """The room there was before the plan, had the workload not been there."""
        filters = self._filters((), ())
        for task in self.workload.placed:
            filters.ledger.remove(Occupant(task.column, task.shape, task.identity))
        return filters

    def _were_earlier(self) -> list[Placement]:
        """Promises that held when the workload had its turn: kept ones, and those made before it.

        Verdicts are in the order of the turns at home; who borrows has its turn after all of them.
        """
        order = {workload: number for number, workload in enumerate(self.plan.verdicts)}
        home = self.snapshot.pools[self.workload.pool].span
        borrows = any(column not in home for _, column in self.seated)
        own = len(order) if borrows else order.get(self.workload, len(order))
        return [p for p in self.promises if p.task.nominated == p.column or order.get(p.workload, own) < own]

    def _filters(self, placements: Iterable[Placement], promises: Iterable[Placement]) -> Filters:
        ledger = Ledger(self.snapshot.nodes, self.snapshot.used, self._neighbours())
        for placement in placements:
            task = placement.task
            ledger.add(Occupant(placement.column, task.shape, task.identity))
        for promise in promises:
            ledger.reserve(Occupant(promise.column, promise.task.shape, promise.task.identity))
        return Filters(ledger)

    def _neighbours(self) -> InterPodRules | None:
        """Who is where, if the workload minds, or anybody minds it."""
        minded = self.snapshot.has_anti_affinity or any(task.shape.has_inter_pod_rules for task in self.tasks)
        placed = (placement.task.shape for placement in self.plan.placements)
        if not minded and not any(shape.pod_anti_affinity for shape in placed):
            return None
        return InterPodRules(self.snapshot.nodes, self.snapshot.occupants)
