"""Growing: free room goes to the least fulfilled, one instance after another.

A heap has those who may grow, so a step costs the logarithm of their number. Nodes are rated once for
instances that are alike; as long as it is the turn of such, they go to the same node while it has room.
"""

import heapq
from collections.abc import Iterable

import numpy as np

from shoal.scheduling.chooser import Chooser
from shoal.scheduling.elastic import Grower
from shoal.scheduling.filters import Filters
from shoal.scheduling.load import Load
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.nodes import Span
from shoal.scheduling.placement import Placer
from shoal.scheduling.plan import Placement
from shoal.scheduling.shape import Shape
from shoal.scheduling.workload import NOWHERE, Task


class Growing:
    """Lets workloads grow on what is free."""

    def __init__(self, filters: Filters, load: Load, growers: Iterable[Grower]) -> None:
        """Begin with the sizes they have."""
        self._filters, self._ledger, self._load = filters, filters.ledger, load
        self._heap = [(grower.score, grower.rank, grower) for grower in growers if grower.next]
        self._packings: dict[Span, Packing] = {}
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
        packing = self._packings.setdefault(span, Packing(self._filters, span))
        column, room = packing.find(task) if (most := self._load.times(task.shape)) else (NOWHERE, 0)
        count = 0
        while count < min(room, most) and self._heap:
            grower = self._heap[0][2]
            if grower.next is None or grower.next.shape is not task.shape or grower.span != span:
                break
            if grower.is_followed:
                break
            self._steps.append(Placement(grower.workload, grower.next, column))
            grower.grow(1)
            self._put_back(grower)
            count += 1
        if count:
            packing.put(task, column, count)
            self._load.add(task.shape, count)
        else:
            heapq.heappop(self._heap)

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
        outcome = placer.place(step, 1)
        if outcome.placed is None:
            if step[0].shape.near or step[0].shape.spread:
                self._put_off.append(grower)
            return
        packing = self._packings.get(grower.span)
        for put, column in outcome.placed:
            if packing:
                packing.touch(column)
            self._load.add(put.shape)
            self._steps.append(Placement(grower.workload, put, column))
        grower.grow(len(outcome.placed))
        for other in (grower, *self._put_off):
            if other.next:
                heapq.heappush(self._heap, (other.score, other.rank, other))
        self._put_off.clear()


class Packing:
    """The nodes of a pool as they fill up with instances of many shapes, by BinPack; nobody minds anybody."""

    def __init__(self, filters: Filters, span: Span) -> None:
        """Begin with the nodes as they are."""
        self._filters, self._span = filters, span
        self._changed: list[int] = []
        self._choosers: dict[Shape, tuple[Chooser, int]] = {}

    def find(self, task: Task) -> tuple[int, int]:
        """The best node for a task, and how many such it can take; NOWHERE if there is none."""
        chooser, known = self._choosers.get(task.shape, (None, 0))
        if chooser is None:
            nobody = np.zeros(len(self._span), dtype=np.int64)
            chooser = Chooser(self._filters, self._span, task, "BinPack", nobody)
        else:
            chooser.touch(self._changed[known:])
        self._choosers[task.shape] = chooser, len(self._changed)
        column = chooser.choose()
        return column, 0 if column == NOWHERE else chooser.capacity(column)

    def put(self, task: Task, column: int, count: int) -> None:
        """Put so many of a task on a node."""
        self._filters.ledger.add(Occupant(column, task.shape, task.identity), count)
        self.touch(column)

    def touch(self, column: int) -> None:
        """Learn that something came to a node."""
        self._changed.append(column)
