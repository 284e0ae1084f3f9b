"""Load: how far workloads without GPUs may grow, by what all pods may come to use together.

Growing: free room goes to the least fulfilled, one instance after another.

A heap has those who may grow, so a step costs the logarithm of their number. Nodes are rated once for
instances that are alike; as long as it is the turn of such, they go to the same node while it has room.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from shoal.api.podspec import is_gpu
from shoal.engine.affinity import Occupant
from shoal.engine.elastic import Grower
from shoal.engine.filters import Filters
from shoal.engine.nodes import Nodes, Span
from shoal.engine.placement import Placer
from shoal.engine.plan import Placement
from shoal.engine.resources import UNLIMITED, exact_sums
from shoal.engine.scores import score_for
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import NOWHERE, Shape, Task


class Load:
    """The limits of all pods on ready nodes, held against a part of what those nodes have."""

    def __init__(self, snapshot: Snapshot, most: float, shapes: Iterable[Shape]) -> None:
        """Begin with the pods there are and `shapes` that got room since; `most` is the part of it all."""
        self._caps = _caps(snapshot.nodes, most)
        self._sums = Counter(snapshot.limits)
        for shape in shapes:
            self.add(shape)

    def add(self, shape: Shape, count: int = 1) -> None:
        """Count a pod in, or out."""
        for name, amount in shape.limits.items():
            self._sums[name] += amount * count

    def times(self, shape: Shape) -> int:
        """How many more such pods stay within bounds; those that ask for GPUs are not held to any."""
        if any(map(is_gpu, shape.requests)):
            return UNLIMITED
        left = ((self._caps.get(name, 0) - self._sums[name]) // n for name, n in shape.limits.items())
        return max(min(left, default=UNLIMITED), 0)

    def bears(self, shapes: Sequence[Shape]) -> bool:
        """Whether a pod and those that must follow it stay within bounds together."""
        added: Counter[str] = Counter()
        for shape in shapes:
            added.update(shape.limits)
        free = any(map(is_gpu, shapes[0].requests))
        return free or all(self._sums[name] + n <= self._caps.get(name, 0) for name, n in added.items())


def _caps(nodes: Nodes, most: float) -> Mapping[str, int]:
    """How much of each resource may be in use; `most` is meant as it is written, in decimals."""
    part = Fraction(str(most))
    there = exact_sums(nodes.alloc[:, nodes.ready])
    return {name: int(part * amount) for name, amount in zip(nodes.layout.names, there, strict=True)}


class Growing:
    """Lets workloads grow on what is free."""

    def __init__(self, filters: Filters, load: Load, growers: Iterable[Grower]) -> None:
        """Begin with the sizes they have."""
        self._filters, self._ledger, self._load = filters, filters.ledger, load
        self._heap = [(grower.score, grower.rank, grower) for grower in growers if grower.may_grow]
        self._put_off: list[Grower] = []
        self._steps: list[Placement] = []

    def run(self) -> list[Placement]:
        """Grow until nobody can; who grew by what on which node, one step after another."""
        heapq.heapify(self._heap)
        while self._heap:
            grower = self._heap[0][2]
            if grower.next and self._ledger.neighbours is None and not grower.is_followed:
                self._grow_alike(grower.next, grower.span)
            else:
                heapq.heappop(self._heap)
                self._grow_one(grower)
        return self._steps

    def _grow_alike(self, task: Task, span: Span) -> None:
        """Grow those whose turn it is, as long as they need the same as a task, on one node."""
        column, room = self._find(task, span)
        if not room:
            self._give_up(task, span)
            return
        count = 0
        while count < room and self._heap:
            grower = self._heap[0][2]
            if grower.next is None or not _needs(grower, task, span):
                break
            self._steps.append(Placement(grower.workload, grower.next, column))
            grower.grow()
            self._put_back(grower)
            count += 1
        self._ledger.add(Occupant(column, task.shape, task.identity), count)
        self._load.add(task.shape, count)

    def _give_up(self, task: Task, span: Span) -> None:
        """Who needs the same finds no room either: there is ever less of it."""
        self._heap = [entry for entry in self._heap if not _needs(entry[2], task, span)]
        heapq.heapify(self._heap)

    def _find(self, task: Task, span: Span) -> tuple[int, int]:
        """The best node for a task, and how many such may go there; NOWHERE if there is none."""
        most = self._load.times(task.shape)
        column = self._filters.ranking(task, span, score_for("BinPack", task)).first() if most else NOWHERE
        room = 0 if column == NOWHERE else self._ledger.times(self._ledger.demand(task.shape), column)
        return column, min(room, most)

    def _put_back(self, grower: Grower) -> None:
        """Queue the first of the heap again, if it can still grow."""
        if grower.next:
            heapq.heapreplace(self._heap, (grower.score, grower.rank, grower))
        else:
            heapq.heappop(self._heap)

    def _grow_one(self, grower: Grower) -> None:
        """Grow one workload by one step, whoever its neighbours are and whatever must follow."""
        step = grower.step()
        if step is None or not self._load.bears([task.shape for task in step]):
            return
        placer = Placer(self._filters, grower.span, "BinPack")
        outcome = placer.place(step, sum(task.varying for task in step))
        if outcome.placed is None:
            if any(task.shape.near or task.shape.spread for task in step):
                self._put_off.append(grower)
            return
        for put, column in outcome.placed:
            self._load.add(put.shape)
            self._steps.append(Placement(grower.workload, put, column))
        grower.grow(step)
        for other in (grower, *self._put_off):
            if other.may_grow:
                heapq.heappush(self._heap, (other.score, other.rank, other))
        self._put_off.clear()


def _needs(grower: Grower, task: Task, span: Span) -> bool:
    """Whether a step of a workload takes one instance, just like a task."""
    following = grower.next
    alike = following is not None and following.shape is task.shape
    return alike and not grower.is_followed and grower.span == span
