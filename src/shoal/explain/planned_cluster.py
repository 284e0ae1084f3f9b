"""The cluster after a plan, as one workload sees it.

A cycle does not return its ledger. To explain a plan, or to find out what else would have fitted, the ledger
is rebuilt from the decisions of the plan: as it is after the plan, or as it was at one moment of the cycle.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import takewhile

from shoal.engine.affinity import InterPodRules, Occupant
from shoal.engine.filters import Filters
from shoal.engine.ledger import Ledger
from shoal.engine.plan import Placement
from shoal.engine.report import CycleResult
from shoal.engine.workload import NO_NODE, Task, Workload


class PlannedCluster:
    """Tasks, nodes and reservations after a plan, from the perspective of one workload.

    `nominations` are those of other workloads: room that is reserved for the workload itself is free to it.
    `nominated` has the columns that are reserved for its own tasks.
    """

    def __init__(self, cycle_result: CycleResult, workload: Workload) -> None:
        """Apply the decisions about the tasks of `workload`; those that a resize removed are left out."""
        self.snapshot, self.plan, self.workload = cycle_result.snapshot, cycle_result.plan, workload
        new = (placement.task for placement in self.plan.placements if placement.workload is workload)
        removed = {eviction.task for eviction in self.plan.evictions if eviction.reason == "Shrunk"}
        self.tasks = tuple(task for task in dict.fromkeys((*workload.tasks, *new)) if task not in removed)
        self.nominations = [n for n in self.plan.nominations if n.workload is not workload]
        self.evicted = {eviction.task for eviction in self.plan.evictions}
        self._columns = {task: task.column for task in workload.tasks if task.column != NO_NODE}
        self._columns |= {p.task: p.column for p in self.plan.placements}
        self.nominated = {n.task: n.column for n in self.plan.nominations if n.workload is workload}

    @property
    def missing(self) -> list[Task]:
        """Tasks of the workload that have no node after the plan."""
        return [task for task in self.tasks if self.column(task) == NO_NODE]

    @property
    def size(self) -> int:
        """The number of varying tasks that have nodes or have finished."""
        return self.workload.done + sum(task.varying for task, _ in self.placed)

    @property
    def minimum_tasks(self) -> list[Task]:
        """The missing tasks that the minimum of the workload lacks after the plan."""
        lacking = max(self.workload.minimum - self.size, 0)
        varying = set([task for task in self.missing if task.varying][:lacking])
        return [task for task in self.missing if task.is_fixed or task in varying]

    @property
    def placed(self) -> list[tuple[Task, int]]:
        """Tasks of the workload that have a node after the plan, and their columns."""
        return [(task, self.column(task)) for task in self.tasks if self.column(task) != NO_NODE]

    @property
    def leaving(self) -> list[Occupant]:
        """Pods that are still on nodes, but are terminating or are evicted by the plan."""
        evicted = (eviction.task for eviction in self.plan.evictions)
        return [*self.snapshot.terminating, *(Occupant(t.column, t.shape, t.identity) for t in evicted)]

    def column(self, task: Task) -> int:
        """The column of a task of the workload after the plan, or NO_NODE."""
        return NO_NODE if task in self.evicted else self._columns.get(task, NO_NODE)

    def reserved_for(self) -> Mapping[int, list[str]]:
        """Keys of the workloads that room is reserved for, by column."""
        keys: defaultdict[int, dict[str, None]] = defaultdict(dict)
        for nomination in self.nominations:
            keys[nomination.column][nomination.workload.key] = None
        return {column: list(workloads) for column, workloads in keys.items()}

    def filters_after_plan(self) -> Filters:
        """Filters over the room that the plan leaves."""
        return self._filters(self.plan.placements, self.nominations)

    def filters_at_placement(self, task: Task) -> Filters:
        """Filters over the room at the moment when a task was placed: only earlier decisions count."""
        before = list(takewhile(lambda placement: placement.task is not task, self.plan.placements))
        return self._filters(before, self._earlier_nominations())

    def filters_without_workload(self) -> Filters:
        """Filters over the room before the plan, as if the workload did not exist."""
        filters = self._filters((), ())
        for task in self.workload.placed:
            filters.ledger.remove(Occupant(task.column, task.shape, task.identity))
        return filters

    def _earlier_nominations(self) -> list[Placement]:
        """Nominations that held when the workload was served: those from before the cycle, and earlier ones.

        Verdicts are in the order in which workloads are served in their home pools. Borrowing comes after
        all of them.
        """
        order = {workload: number for number, workload in enumerate(self.plan.verdicts)}
        home = self.snapshot.pools[self.workload.pool].span
        borrows = any(column not in home for _, column in self.placed)
        own = len(order) if borrows else order.get(self.workload, len(order))
        return [
            n for n in self.nominations if n.task.nominated == n.column or order.get(n.workload, own) < own
        ]

    def _filters(self, placements: Iterable[Placement], nominations: Iterable[Placement]) -> Filters:
        ledger = Ledger(self.snapshot.nodes, self.snapshot.used, self._inter_pod_rules())
        for placement in placements:
            task = placement.task
            ledger.add(Occupant(placement.column, task.shape, task.identity))
        for nomination in nominations:
            ledger.reserve(Occupant(nomination.column, nomination.task.shape, nomination.task.identity))
        return Filters(ledger)

    def _inter_pod_rules(self) -> InterPodRules | None:
        """The rules between pods; None if there are none that concern the workload."""
        relevant = self.snapshot.has_anti_affinity or any(
            task.shape.has_inter_pod_rules for task in self.tasks
        )
        placed = (placement.task.shape for placement in self.plan.placements)
        if not relevant and not any(shape.pod_anti_affinity for shape in placed):
            return None
        return InterPodRules(self.snapshot.nodes, self.snapshot.occupants)
