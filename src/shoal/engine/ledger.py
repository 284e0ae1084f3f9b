"""Ledger: who has how much of which node, and what would be if.

Every step of a cycle, real or hypothetical, is a change of one ledger. Changes are written down, and
`attempt` takes back those that were not kept: so "would it fit if these left?" is asked by doing it and
undoing it, and the world is never copied.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from operator import ge
from typing import Final

import numpy as np
import numpy.typing as npt

from shoal.engine.affinity import InterPodRules, Occupant
from shoal.engine.nodes import Mask, Nodes, NodeSpan
from shoal.engine.resources import Amounts, ResourceLayout
from shoal.engine.workload import Shape

Scores = npt.NDArray[np.float64]
"""One number a node."""

_MANY: Final = 10
"""So many tasks are moved all at once rather than one by one."""


class Demand:
    """A shape's requests as arrays, the pod itself included, in the layout of the ledger's nodes."""

    __slots__ = ("amounts", "floats", "rows", "vector")

    def __init__(self, shape: Shape, layout: ResourceLayout) -> None:
        """Note which rows are asked for at all: the others are never short."""
        asked = shape.amounts
        self.rows = [layout.rows[name] for name in asked]
        self.amounts = list(asked.values())
        self.vector = layout.vector(asked)
        self.floats = self.vector.astype(float)


class Attempt:
    """A stretch of changes; taken back at its end unless kept."""

    def __init__(self) -> None:
        """Begin unkept."""
        self.kept = False

    def keep(self) -> None:
        """Let the changes stand."""
        self.kept = True


class Ledger:
    """Used, reserved and remaining room of every node.

    `promised` are those for whom room is kept: they keep others away like those who are there, and are
    nobody's wanted neighbours. `changes` has the columns that have changed, one after another, again and
    again; when many change at once it is a new list. `state` is a number that stands for all that is in the
    ledger: where it is what it was before, everything is as it was.
    """

    def __init__(self, nodes: Nodes, used: Amounts, inter_pod: InterPodRules | None) -> None:
        """Begin from what is used; without `neighbours`, no task minds any."""
        self.nodes = nodes
        self.used = used.copy()
        self.reserved = np.zeros_like(used)
        self.room = nodes.alloc - used
        self.inter_pod = inter_pod
        self.inter_pod_nominated = InterPodRules(nodes) if inter_pod is not None else None
        self.changed_columns: list[int] = []
        self.version = self._states = 0
        self._journal: list[tuple[int, Callable[[], None]]] = []
        self._demands: dict[Shape, Demand] = {}
        self._weighted: dict[tuple[int, ...], tuple[Scores, Scores]] = {}

    def demand(self, shape: Shape) -> Demand:
        """The shape's requests as arrays."""
        demand = self._demands.get(shape)
        if demand is None:
            demand = self._demands[shape] = Demand(shape, self.nodes.layout)
        return demand

    def add(self, occupant: Occupant, count: int = 1) -> None:
        """Put a task on a node, or several alike."""
        self._move(occupant, count)
        self._write(lambda: self._move(occupant, -count))

    def remove(self, occupant: Occupant) -> None:
        """Take a task off its node."""
        self._move(occupant, -1)
        self._write(lambda: self._move(occupant, 1))

    def add_all(self, occupants: Sequence[Occupant]) -> None:
        """Put tasks on their nodes."""
        self._move_all(occupants, 1)
        self._write(lambda: self._move_all(occupants, -1))

    def remove_all(self, occupants: Sequence[Occupant]) -> None:
        """Take tasks off their nodes."""
        self._move_all(occupants, -1)
        self._write(lambda: self._move_all(occupants, 1))

    def reserve(self, occupant: Occupant) -> None:
        """Keep room on a node for somebody who is to come."""
        self._hold(occupant, 1)
        self._write(lambda: self._hold(occupant, -1))

    def release(self, occupant: Occupant) -> None:
        """Keep room no longer."""
        self._hold(occupant, -1)
        self._write(lambda: self._hold(occupant, 1))

    def remove_amounts(self, span: NodeSpan, amounts: Amounts) -> None:
        """Take amounts off the nodes of a span at once, whoever's they are; nobody there may mind."""
        self._overlay(span, self.used[:, span.columns] - amounts, self.reserved[:, span.columns].copy())

    def drop_reservations(self, span: NodeSpan) -> None:
        """Free all room of a span that is only kept, and mind nobody who is still to come."""
        used = self.used[:, span.columns].copy()
        self._swap("inter_pod_nominated", None)
        self._overlay(span, used, np.zeros_like(used))

    def clear(self, span: NodeSpan) -> None:
        """Empty nodes as if nobody had ever used them, and let nobody anywhere mind their neighbours."""
        nothing = np.zeros_like(self.used[:, span.columns])
        self._swap("inter_pod", self.inter_pod.emptied() if self.inter_pod is not None else None)
        self._swap("inter_pod_nominated", None)
        self._overlay(span, nothing, nothing)

    def _swap(self, which: str, inter_pod: InterPodRules | None) -> None:
        """See others, or nobody."""
        before = getattr(self, which)
        setattr(self, which, inter_pod)
        self._write(lambda: setattr(self, which, before))

    @contextlib.contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """Changes made within are taken back at the end, unless they are kept."""
        start = len(self._journal)
        attempt = Attempt()
        try:
            yield attempt
        finally:
            if not attempt.kept:
                while len(self._journal) > start:
                    self.version, undo = self._journal.pop()
                    undo()

    def fitting(self, demand: Demand, span: NodeSpan) -> Mask:
        """Nodes of a span with room for a demand."""
        asked = zip(demand.rows, demand.amounts, strict=True)
        enough: Mask = np.logical_and.reduce([self.room[row, span.columns] >= n for row, n in asked])
        return enough

    def has_room(self, demand: Demand, column: int) -> bool:
        """Whether a demand fits a node."""
        room = self.room[:, column].tolist()
        return all(map(ge, [room[row] for row in demand.rows], demand.amounts))

    def max_count(self, demand: Demand, column: int) -> int:
        """How often a demand fits a node."""
        room: list[int] = self.room[:, column].tolist()
        return min([room[row] // n for row, n in zip(demand.rows, demand.amounts, strict=True)])

    def loads(self, weights: tuple[int, ...]) -> tuple[Scores, Scores]:
        """The weighted mean use of each node, and what one unit of each resource would add to it."""
        if weights not in self._weighted:
            alloc = self.nodes.alloc
            weight = np.where(alloc > 0, np.array(weights)[:, None], 0)
            total = np.maximum(weight.sum(axis=0), 1)
            share = np.divide(
                weight, alloc.astype(float) * total, out=np.zeros(alloc.shape), where=weight > 0
            )
            self._weighted[weights] = (self.used * share).sum(axis=0), share
        return self._weighted[weights]

    def exact_use(self, column: int, row: int, more: int) -> Fraction:
        """What would be used of one resource on one node, as a fraction of what there is."""
        total = int(self.nodes.alloc[row, column])
        return Fraction(int(self.used[row, column]) + more, total) if total else Fraction(0)

    def _write(self, undo: Callable[[], None]) -> None:
        """Write down how to take a change back; the change makes a new state."""
        self._journal.append((self.version, undo))
        self.version = self._states = self._states + 1

    def _move(self, occupant: Occupant, count: int) -> None:
        column = occupant.column
        change = self.demand(occupant.shape).vector * count
        used = self.used[:, column]
        used += change
        self.room[:, column] -= change
        for load, share in self._weighted.values():
            load[column] = used @ share[:, column]
        if self.inter_pod is not None:
            self.inter_pod.count(occupant, count)
        self.changed_columns.append(column)

    def _move_all(self, occupants: Sequence[Occupant], count: int) -> None:
        """Move tasks one by one, or many at once where nobody minds."""
        if len(occupants) < _MANY or self.inter_pod is not None:
            for occupant in occupants:
                self._move(occupant, count)
            return
        columns = np.array([occupant.column for occupant in occupants])
        change = np.zeros_like(self.used)
        np.add.at(change.T, columns, np.array([self.demand(one.shape).vector for one in occupants]) * count)
        self.used += change
        self.room -= change
        self._reload(np.unique(columns))
        self.changed_columns = []

    def _hold(self, occupant: Occupant, count: int) -> None:
        column, change = occupant.column, self.demand(occupant.shape).vector * count
        self.reserved[:, column] += change
        self.room[:, column] -= change
        if self.inter_pod_nominated is not None:
            self.inter_pod_nominated.count(occupant, count)
        self.changed_columns.append(column)

    def _overlay(self, span: NodeSpan, used: Amounts, reserved: Amounts) -> None:
        before = self.used[:, span.columns].copy(), self.reserved[:, span.columns].copy()
        self._set(span, used, reserved)
        self._write(lambda: self._set(span, *before))

    def _set(self, span: NodeSpan, used: Amounts, reserved: Amounts) -> None:
        self.used[:, span.columns] = used
        self.reserved[:, span.columns] = reserved
        self.room[:, span.columns] = self.nodes.alloc[:, span.columns] - used - reserved
        self._reload(span.columns)
        self.changed_columns = []

    def _reload(self, columns: slice | npt.NDArray[np.intp]) -> None:
        for load, share in self._weighted.values():
            load[columns] = (self.used[:, columns] * share[:, columns]).sum(axis=0)
