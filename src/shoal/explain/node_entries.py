"""Which nodes fit the tasks of one workload, with their scores, and why the others do not fit.

Identical tasks are explained together, for every node of the pools that are open to the workload.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, Literal

import msgspec

from shoal.engine.filters import Filters
from shoal.engine.resources import format_amount
from shoal.engine.scores import AllocationScore, score_for
from shoal.engine.workload import Task
from shoal.explain.planned_cluster import PlannedCluster

When = Literal["now", "turn", "before"]
"""Which free resources are considered: those after the plan; those at the moment when the tasks got their
nodes; or, for tasks that had nodes already, those before the plan, without the workload."""

Barrier = Literal["", "rule", "room", "pool"]
"""Why tasks do not fit a node: a rule about the node or its pods, too little room, or a pool that does not
lend; empty if they fit."""

_DIGITS: Final = 2


class _Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the entries of an explanation."""


class NodeEntry(_Entry, frozen=True, kw_only=True):
    """One node as seen by identical tasks.

    `takes` is the number of waiting tasks that it has room for. `lack` is the part of one task's requests
    that is short, summed over resources. `siblings` is the number of the workload's pods on the node. `pods`
    has the explained tasks that are on the node, are placed on it, or have room reserved on it.
    """

    node: str
    pool: str
    lender: bool
    fits: bool
    takes: int
    barrier: Barrier
    why: str
    short: dict[str, str]
    lack: float
    kept_for: tuple[str, ...]
    score: float | None
    siblings: int
    chosen: bool
    pods: tuple[str, ...]


class TaskEntry(_Entry, frozen=True, kw_only=True):
    """Identical tasks of a workload, and every node of the pools that are open to them."""

    task: str
    role: str
    count: int
    waiting: int
    requests: dict[str, str]
    policy: str
    best: Literal["highest", "lowest"]
    when: When
    nodes: tuple[NodeEntry, ...]


def explain_tasks(planned: PlannedCluster) -> tuple[TaskEntry, ...]:
    """Entries of all tasks of a workload, grouped if identical, in the order in which they are placed."""
    groups: defaultdict[tuple[object, ...], list[Task]] = defaultdict(list)
    remaining = planned.filters_after_plan()
    for task in planned.tasks:
        identity = task.identity if remaining.has_inter_pod_rules(task) else None
        groups[task.shape, identity, task.role, task.varying, task.leads].append(task)
    return tuple(_entry(_TaskGroup(planned, tasks, remaining)) for tasks in groups.values())


def format_amounts(amounts: Mapping[str, str]) -> str:
    """Amounts as text: `2 nvidia.com/gpu, 8 cpu`."""
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items())


def _entry(group: "_TaskGroup") -> TaskEntry:
    task, policy = group.task, group.planned.workload.placement
    score = score_for(policy, task)
    lowest = isinstance(score, AllocationScore) and not score.stays_best
    return TaskEntry(
        task=group.tasks[0].name,
        role=task.role,
        count=len(group.tasks),
        waiting=len(group.waiting),
        requests={name: format_amount(name, amount) for name, amount in task.shape.requests.items()},
        policy=policy,
        best="lowest" if lowest else "highest",
        when=group.when,
        nodes=tuple(entry for pool in group.pools() for entry in _PoolEntries(group, pool).entries()),
    )


class _TaskGroup:
    """Identical tasks, and the state of the cluster that they are explained by."""

    def __init__(self, planned: PlannedCluster, tasks: Sequence[Task], remaining: Filters) -> None:
        """`remaining` are the filters over the room that the plan leaves."""
        self.planned, self.tasks = planned, tasks
        members = set(tasks)
        self.waiting = [task for task in planned.missing if task in members]
        first_placed = next((p.task for p in planned.plan.placements if p.task in members), None)
        self.when: When = "now" if self.waiting else "turn" if first_placed else "before"
        self.task = self.waiting[0] if self.waiting else first_placed or tasks[0]
        if self.waiting:
            self.filters = remaining
        elif first_placed:
            self.filters = planned.filters_at_placement(first_placed)
        else:
            self.filters = planned.filters_without_workload()
        self.reserved_for = planned.reserved_for() if self.waiting else {}
        self.siblings = Counter(column for _, column in self._present())
        self.pods = self._pods()

    def pools(self) -> Iterator[int]:
        """The home pool, then pools that may lend; if the workload has nodes, those of its nodes instead."""
        snapshot, workload = self.planned.snapshot, self.planned.workload
        used = {snapshot.nodes.pools[column] for _, column in self.planned.placed}
        lenders = snapshot.pools[workload.pool].lenders if workload.may_borrow else ()
        yield workload.pool
        for number, pool in enumerate(snapshot.pools):
            if number != workload.pool and (pool.name in used if used else number in lenders):
                yield number

    def _present(self) -> list[tuple[Task, int]]:
        """The workload's tasks that had nodes at the moment `when`, and their columns."""
        if self.when == "now":
            return self.planned.placed
        if self.when == "before":
            return []
        own = [p for p in self.planned.plan.placements if p.workload is self.planned.workload]
        before = takewhile(lambda placement: placement.task is not self.task, own)
        running = [(task, task.column) for task in self.planned.workload.placed]
        return [*running, *((p.task, p.column) for p in before)]

    def _pods(self) -> dict[int, list[str]]:
        """Names of the tasks that are on each node, are placed on it, or have room reserved on it."""
        found: defaultdict[int, list[str]] = defaultdict(list)
        columns = dict(self.planned.placed) | self.planned.nominated
        for task in self.tasks:
            if task in columns:
                found[columns[task]].append(task.name)
        return found


class _PoolEntries:
    """Makes the entries of the nodes of one pool."""

    def __init__(self, group: _TaskGroup, number: int) -> None:
        """Compute scores and rules for all nodes of the pool at once."""
        self._group, self._ledger = group, group.filters.ledger
        self._pool = group.planned.snapshot.pools[number]
        self._is_lender = number != group.planned.workload.pool
        task, span = group.task, self._pool.span
        self._demand = self._ledger.demand(task.shape)
        score = score_for(group.planned.workload.placement, task)
        self._scores = score.score_nodes(self._ledger, self._demand, span)
        self._rules = list(group.filters.rules(task, span))
        self._closed = self._why_closed(number) if group.when == "now" else ""

    def entries(self) -> Iterator[NodeEntry]:
        """One entry for each node of the pool."""
        for column in range(self._pool.span.start, self._pool.span.stop):
            yield self._entry(column)

    def _entry(self, column: int) -> NodeEntry:
        group, index = self._group, column - self._pool.span.start
        pods = tuple(group.pods.get(column, ()))
        short = self._short(column)
        barrier, why = self._why_not(column, short)
        has_score = not barrier or (bool(pods) and group.when != "now")
        return NodeEntry(
            node=self._ledger.nodes.names[column],
            pool=self._pool.name,
            lender=self._is_lender,
            fits=not barrier,
            takes=0 if barrier else self._takes(column),
            barrier=barrier,
            why=why,
            short=short,
            lack=round(self._lack(column), _DIGITS),
            kept_for=tuple(group.reserved_for.get(column, ())),
            score=round(100 * abs(float(self._scores[index])), _DIGITS) if has_score else None,
            siblings=group.siblings[column],
            chosen=bool(pods),
            pods=pods,
        )

    def _why_not(self, column: int, short: Mapping[str, str]) -> tuple[Barrier, str]:
        """The first filter that a node fails; if that is room, all resources that are short."""
        index = column - self._pool.span.start
        rule = next((reason for reason, mask in self._rules if not mask[index]), "")
        if rule:
            return "rule", rule
        if short:
            return "room", self._why_short(column, short)
        return ("pool", self._closed) if self._closed else ("", "")

    def _why_short(self, column: int, short: Mapping[str, str]) -> str:
        jobs = ", ".join(self._group.reserved_for.get(column, ()))
        if jobs and self._fits_without_reservations(column):
            return f"its room is kept for {jobs}"
        return f"short of {format_amounts(short)}" + (f"; some is kept for {jobs}" if jobs else "")

    def _short(self, column: int) -> dict[str, str]:
        """Amounts of each resource that one task lacks."""
        names, room = self._ledger.nodes.layout.names, self._ledger.room[:, column]
        lacking = ((row, amount - int(room[row])) for row, amount in self._requested())
        return {names[row]: format_amount(names[row], lack) for row, lack in lacking if lack > 0}

    def _lack(self, column: int) -> float:
        """The part of one task's requests that is short, summed over resources."""
        room = self._ledger.room[:, column]
        return sum(max(amount - int(room[row]), 0) / amount for row, amount in self._requested())

    def _fits_without_reservations(self, column: int) -> bool:
        room = self._ledger.room[:, column] + self._ledger.reserved[:, column]
        return all(room[row] >= amount for row, amount in self._requested())

    def _takes(self, column: int) -> int:
        """How many waiting tasks fit; 1 if inter-pod rules apply, as each placement may exclude the next."""
        if self._group.filters.has_inter_pod_rules(self._group.task):
            return 1
        return min(self._ledger.max_count(self._demand, column), max(len(self._group.waiting), 1))

    def _requested(self) -> Iterator[tuple[int, int]]:
        return zip(self._demand.rows, self._demand.amounts, strict=True)

    def _why_closed(self, number: int) -> str:
        """Why a pool places no task of the workload, whatever room its nodes have; "" if it does."""
        planned = self._group.planned
        elsewhere = [column for _, column in planned.placed if column not in self._pool.span]
        if elsewhere:
            pool = planned.snapshot.nodes.pools[elsewhere[0]]
            return f"its other pods are in pool {pool}, and it is not split"
        verdicts = planned.plan.verdicts.items()
        if self._is_lender and any(v.waiting and w.pool == number for w, v in verdicts):
            return "lends nothing while jobs of its own wait"
        return ""
