"""Explain: which nodes could take the tasks of one workload, how good they were, and why others could not.

Tasks that are alike are explained together, over every node of the pools that are open to the workload.
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
from shoal.explain.aftermath import Aftermath

When = Literal["now", "turn", "before"]
"""Which room is looked at: what the plan leaves; what there was when the tasks got their nodes; or, for tasks
that had theirs already, what there was before the plan without the workload."""

Barrier = Literal["", "rule", "room", "pool"]
"""What keeps tasks off a node: a rule about it or its pods, want of room, or that its pool is closed."""

_DIGITS: Final = 2


class _Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what stands in an explanation."""


class NodeEntry(_Entry, frozen=True, kw_only=True):
    """What one node is to tasks that are alike.

    `takes` is how many of those that wait it has room for. `lack` is how much of what one of them asks for is
    short, summed over resources. `siblings` are the workload's pods on it, and `pods` those of the tasks
    explained that it has, gets, or keeps room for.
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
    """Tasks of a workload that are alike, and every node that is open to them."""

    task: str
    role: str
    count: int
    waiting: int
    requests: dict[str, str]
    policy: str
    best: Literal["highest", "lowest"]
    when: When
    nodes: tuple[NodeEntry, ...]


def explain_tasks(aftermath: Aftermath) -> tuple[TaskEntry, ...]:
    """All tasks of a workload, those that are alike together, in the order in which they are placed."""
    groups: defaultdict[tuple[object, ...], list[Task]] = defaultdict(list)
    left = aftermath.after()
    for task in aftermath.tasks:
        identity = task.identity if left.has_inter_pod_rules(task) else None
        groups[task.shape, identity, task.role, task.varying, task.leads].append(task)
    return tuple(_entry(_Scene(aftermath, tasks, left)) for tasks in groups.values())


def in_words(amounts: Mapping[str, str]) -> str:
    """Amounts as people say them: `2 nvidia.com/gpu, 8 cpu`."""
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items())


def _entry(scene: "_Scene") -> TaskEntry:
    task, policy = scene.task, scene.aftermath.workload.placement
    score = score_for(policy, task)
    lowest = isinstance(score, AllocationScore) and not score.stays_best
    return TaskEntry(
        task=scene.tasks[0].name,
        role=task.role,
        count=len(scene.tasks),
        waiting=len(scene.waiting),
        requests={name: format_amount(name, amount) for name, amount in task.shape.requests.items()},
        policy=policy,
        best="lowest" if lowest else "highest",
        when=scene.when,
        nodes=tuple(entry for pool in scene.pools() for entry in _PoolView(scene, pool).entries()),
    )


class _Scene:
    """Tasks that are alike, and the room that they are explained by."""

    def __init__(self, aftermath: Aftermath, tasks: Sequence[Task], left: Filters) -> None:
        """`left` is the room that the plan leaves."""
        self.aftermath, self.tasks = aftermath, tasks
        chosen = set(tasks)
        self.waiting = [task for task in aftermath.missing if task in chosen]
        fresh = next((p.task for p in aftermath.plan.placements if p.task in chosen), None)
        self.when: When = "now" if self.waiting else "turn" if fresh else "before"
        self.task = self.waiting[0] if self.waiting else fresh or tasks[0]
        self.filters = left if self.waiting else aftermath.at_turn(fresh) if fresh else aftermath.without()
        self.kept = aftermath.kept_for() if self.waiting else {}
        self.siblings = Counter(column for _, column in self._present())
        self.pods = self._pods()

    def pools(self) -> Iterator[int]:
        """Its home pool, and those that may lend to it; once it has nodes, only the pool that has them."""
        snapshot, workload = self.aftermath.snapshot, self.aftermath.workload
        there = {snapshot.nodes.pools[column] for _, column in self.aftermath.seated}
        lenders = snapshot.pools[workload.pool].lenders if workload.may_borrow else ()
        yield workload.pool
        for number, pool in enumerate(snapshot.pools):
            if number != workload.pool and (pool.name in there if there else number in lenders):
                yield number

    def _present(self) -> list[tuple[Task, int]]:
        """The workload's tasks that had nodes at the moment that is looked at."""
        if self.when == "now":
            return self.aftermath.seated
        if self.when == "before":
            return []
        mine = [p for p in self.aftermath.plan.placements if p.workload is self.aftermath.workload]
        before = takewhile(lambda placement: placement.task is not self.task, mine)
        running = [(task, task.column) for task in self.aftermath.workload.placed]
        return [*running, *((p.task, p.column) for p in before)]

    def _pods(self) -> dict[int, list[str]]:
        """Which of the tasks each node has, gets or keeps room for."""
        found: defaultdict[int, list[str]] = defaultdict(list)
        columns = dict(self.aftermath.seated) | self.aftermath.nominated
        for task in self.tasks:
            if task in columns:
                found[columns[task]].append(task.name)
        return found


class _PoolView:
    """The nodes of one pool, in a scene."""

    def __init__(self, scene: _Scene, number: int) -> None:
        """Work out for all nodes what can be worked out at once."""
        self._scene, self._ledger = scene, scene.filters.ledger
        self._pool = scene.aftermath.snapshot.pools[number]
        self._is_lender = number != scene.aftermath.workload.pool
        task, span = scene.task, self._pool.span
        self._demand = self._ledger.demand(task.shape)
        score = score_for(scene.aftermath.workload.placement, task)
        self._rates = score.score_nodes(self._ledger, self._demand, span)
        self._rules = list(scene.filters.rules(task, span))
        self._closed = self._why_closed(number) if scene.when == "now" else ""

    def entries(self) -> Iterator[NodeEntry]:
        """Every node of the pool."""
        for column in range(self._pool.span.start, self._pool.span.stop):
            yield self._entry(column)

    def _entry(self, column: int) -> NodeEntry:
        scene, index = self._scene, column - self._pool.span.start
        pods = tuple(scene.pods.get(column, ()))
        short = self._short(column)
        barrier, why = self._why_not(column, short)
        rated = not barrier or (bool(pods) and scene.when != "now")
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
            kept_for=tuple(scene.kept.get(column, ())),
            score=round(100 * abs(float(self._rates[index])), _DIGITS) if rated else None,
            siblings=scene.siblings[column],
            chosen=bool(pods),
            pods=pods,
        )

    def _why_not(self, column: int, short: Mapping[str, str]) -> tuple[Barrier, str]:
        """The first filter that a node fails; of resources, all that are short."""
        index = column - self._pool.span.start
        rule = next((reason for reason, mask in self._rules if not mask[index]), "")
        if rule:
            return "rule", rule
        if short:
            return "room", self._why_short(column, short)
        return ("pool", self._closed) if self._closed else ("", "")

    def _why_short(self, column: int, short: Mapping[str, str]) -> str:
        kept = ", ".join(self._scene.kept.get(column, ()))
        if kept and self._fits_but_for_promises(column):
            return f"its room is kept for {kept}"
        return f"short of {in_words(short)}" + (f"; some is kept for {kept}" if kept else "")

    def _short(self, column: int) -> dict[str, str]:
        """How much more of each resource one task would need."""
        names, room = self._ledger.nodes.layout.names, self._ledger.room[:, column]
        lacks = ((row, amount - int(room[row])) for row, amount in self._asked())
        return {names[row]: format_amount(names[row], lack) for row, lack in lacks if lack > 0}

    def _lack(self, column: int) -> float:
        """How much of what one task asks for is short, summed over resources."""
        room = self._ledger.room[:, column]
        return sum(max(amount - int(room[row]), 0) / amount for row, amount in self._asked())

    def _fits_but_for_promises(self, column: int) -> bool:
        room = self._ledger.room[:, column] + self._ledger.reserved[:, column]
        return all(room[row] >= amount for row, amount in self._asked())

    def _takes(self, column: int) -> int:
        """How many tasks find room; where they mind each other, one at least."""
        if self._scene.filters.has_inter_pod_rules(self._scene.task):
            return 1
        return min(self._ledger.max_count(self._demand, column), max(len(self._scene.waiting), 1))

    def _asked(self) -> Iterator[tuple[int, int]]:
        return zip(self._demand.rows, self._demand.amounts, strict=True)

    def _why_closed(self, number: int) -> str:
        """Why a pool gives the workload nothing, whatever room its nodes have."""
        aftermath = self._scene.aftermath
        elsewhere = [column for _, column in aftermath.seated if column not in self._pool.span]
        if elsewhere:
            pool = aftermath.snapshot.nodes.pools[elsewhere[0]]
            return f"its other pods are in pool {pool}, and it is not split"
        verdicts = aftermath.plan.verdicts.items()
        if self._is_lender and any(v.waiting and w.pool == number for w, v in verdicts):
            return "lends nothing while jobs of its own wait"
        return ""
