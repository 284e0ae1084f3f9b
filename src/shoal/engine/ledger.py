"""Ledger: used, reserved and free amounts of every node, with undo.

Every step of a cycle, real or hypothetical, changes the one ledger. Each change records how to undo it, and
`attempt` undoes the changes that were not kept. So "would it fit without these pods?" is answered by removing
them and undoing it, without a copy of the cluster.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from operator import ge
from typing import Final

import numpy as np
import numpy.typing as npt

from shoal.engine.affinity import InterPodRules, Occupant
from shoal.engine.layout import Amounts, ResourceLayout
from shoal.engine.nodes import Mask, Nodes, NodeSpan
from shoal.engine.workload import Shape

Scores = npt.NDArray[np.float64]
"""One float per node."""

_MANY: Final = 10
"""From this number of tasks on, columns are changed all at once instead of one by one."""


class Demand:
    """A shape's requests as arrays, one pod included, in the layout of the ledger's nodes."""

    __slots__ = ("amounts", "floats", "rows", "vector")

    def __init__(self, shape: Shape, layout: ResourceLayout) -> None:
        """`rows` and `amounts` contain only what is requested: other resources cannot be short."""
        asked = shape.amounts
        self.rows = [layout.rows[name] for name in asked]
        self.amounts = list(asked.values())
        self.vector = layout.vector(asked)
        self.floats = self.vector.astype(float)


class Attempt:
    """A block of changes to the ledger; undone at its end unless kept."""

    def __init__(self) -> None:
        """Start as not kept."""
        self.kept = False

    def keep(self) -> None:
        """Keep the changes."""
        self.kept = True


class Ledger:
    """Used, reserved and free amounts of every node.

    `room` is what is left: allocatable minus used minus reserved. `inter_pod` are the rules of the pods on
    nodes (None: no pod has any), and `inter_pod_nominated` those of pods for which room is reserved: these
    keep others away, but do not satisfy the affinity of others. `changed_columns` lists the columns that
    changed, in order, with repetitions; a change of many columns at once starts a new list. `version`
    identifies the content: equal versions mean equal content.
    """

    def __init__(self, nodes: Nodes, used: Amounts, inter_pod: InterPodRules | None) -> None:
        """Start from the amounts in use."""
        self.nodes = nodes
        self.used = used.copy()
        self.reserved = np.zeros_like(used)
        self.room = nodes.alloc - used
        self.inter_pod = inter_pod
        self.inter_pod_nominated = InterPodRules(nodes) if inter_pod is not None else None
        self.changed_columns: list[int] = []
        self.version = self._last_version = 0
        self._journal: list[tuple[int, Callable[[], None]]] = []
        self._demands: dict[Shape, Demand] = {}
        self._loads: dict[tuple[int, ...], tuple[Scores, Scores]] = {}

    def demand(self, shape: Shape) -> Demand:
        """The shape's requests as arrays; computed once."""
        demand = self._demands.get(shape)
        if demand is None:
            demand = self._demands[shape] = Demand(shape, self.nodes.layout)
        return demand

    def add(self, occupant: Occupant, count: int = 1) -> None:
        """Put `count` equal tasks on a node."""
        self._change_use(occupant, count)
        self._record_undo(lambda: self._change_use(occupant, -count))

    def remove(self, occupant: Occupant) -> None:
        """Take a task off its node."""
        self._change_use(occupant, -1)
        self._record_undo(lambda: self._change_use(occupant, 1))

    def add_all(self, occupants: Sequence[Occupant]) -> None:
        """Put tasks on their nodes."""
        self._change_use_of_all(occupants, 1)
        self._record_undo(lambda: self._change_use_of_all(occupants, -1))

    def remove_all(self, occupants: Sequence[Occupant]) -> None:
        """Take tasks off their nodes."""
        self._change_use_of_all(occupants, -1)
        self._record_undo(lambda: self._change_use_of_all(occupants, 1))

    def reserve(self, occupant: Occupant) -> None:
        """Reserve room on a node for a nominated task."""
        self._change_reservation(occupant, 1)
        self._record_undo(lambda: self._change_reservation(occupant, -1))

    def release(self, occupant: Occupant) -> None:
        """Release the reservation of a task."""
        self._change_reservation(occupant, -1)
        self._record_undo(lambda: self._change_reservation(occupant, 1))

    def remove_amounts(self, span: NodeSpan, amounts: Amounts) -> None:
        """Subtract amounts from the used ones of a span at once; there must be no inter-pod rules."""
        self._overlay(span, self.used[:, span.columns] - amounts, self.reserved[:, span.columns].copy())

    def drop_reservations(self, span: NodeSpan) -> None:
        """Drop the reservations of a span, and the inter-pod rules of all nominated tasks."""
        used = self.used[:, span.columns].copy()
        self._swap("inter_pod_nominated", None)
        self._overlay(span, used, np.zeros_like(used))

    def clear(self, span: NodeSpan) -> None:
        """Empty the nodes of a span, and drop the inter-pod rules of all pods everywhere."""
        nothing = np.zeros_like(self.used[:, span.columns])
        self._swap("inter_pod", self.inter_pod.emptied() if self.inter_pod is not None else None)
        self._swap("inter_pod_nominated", None)
        self._overlay(span, nothing, nothing)

    def _swap(self, which: str, inter_pod: InterPodRules | None) -> None:
        """Replace one set of inter-pod rules."""
        before = getattr(self, which)
        setattr(self, which, inter_pod)
        self._record_undo(lambda: setattr(self, which, before))

    @contextlib.contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """Undo the changes made in this block at its end, unless they are kept; attempts may be nested."""
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
        """Nodes of a span with enough room for a demand."""
        asked = zip(demand.rows, demand.amounts, strict=True)
        enough: Mask = np.logical_and.reduce([self.room[row, span.columns] >= n for row, n in asked])
        return enough

    def has_room(self, demand: Demand, column: int) -> bool:
        """Whether a demand fits a node."""
        room = self.room[:, column].tolist()
        return all(map(ge, [room[row] for row in demand.rows], demand.amounts))

    def max_count(self, demand: Demand, column: int) -> int:
        """How many times a demand fits a node."""
        room: list[int] = self.room[:, column].tolist()
        return min([room[row] // n for row, n in zip(demand.rows, demand.amounts, strict=True)])

    def loads(self, weights: tuple[int, ...]) -> tuple[Scores, Scores]:
        """The weighted mean utilisation of each node, and what one unit of each resource adds to it."""
        if weights not in self._loads:
            alloc = self.nodes.alloc
            weight = np.where(alloc > 0, np.array(weights)[:, None], 0)
            total = np.maximum(weight.sum(axis=0), 1)
            share = np.divide(
                weight, alloc.astype(float) * total, out=np.zeros(alloc.shape), where=weight > 0
            )
            self._loads[weights] = (self.used * share).sum(axis=0), share
        return self._loads[weights]

    def exact_use(self, column: int, row: int, more: int) -> Fraction:
        """Utilisation of one resource of a node with `more` units in use, as a fraction of allocatable."""
        total = int(self.nodes.alloc[row, column])
        return Fraction(int(self.used[row, column]) + more, total) if total else Fraction(0)

    def _record_undo(self, undo: Callable[[], None]) -> None:
        """Record how to undo a change that was just made; it creates a new version."""
        self._journal.append((self.version, undo))
        self.version = self._last_version = self._last_version + 1

    def _change_use(self, occupant: Occupant, count: int) -> None:
        column = occupant.column
        change = self.demand(occupant.shape).vector * count
        used = self.used[:, column]
        used += change
        self.room[:, column] -= change
        for load, share in self._loads.values():
            load[column] = used @ share[:, column]
        if self.inter_pod is not None:
            self.inter_pod.count(occupant, count)
        self.changed_columns.append(column)

    def _change_use_of_all(self, occupants: Sequence[Occupant], count: int) -> None:
        """Change tasks one by one; or many at once, if there are no inter-pod rules."""
        if len(occupants) < _MANY or self.inter_pod is not None:
            for occupant in occupants:
                self._change_use(occupant, count)
            return
        columns = np.array([occupant.column for occupant in occupants])
        change = np.zeros_like(self.used)
        np.add.at(change.T, columns, np.array([self.demand(one.shape).vector for one in occupants]) * count)
        self.used += change
        self.room -= change
        self._refresh_loads(np.unique(columns))
        self.changed_columns = []

    def _change_reservation(self, occupant: Occupant, count: int) -> None:
        column, change = occupant.column, self.demand(occupant.shape).vector * count
        self.reserved[:, column] += change
        self.room[:, column] -= change
        if self.inter_pod_nominated is not None:
            self.inter_pod_nominated.count(occupant, count)
        self.changed_columns.append(column)

    def _overlay(self, span: NodeSpan, used: Amounts, reserved: Amounts) -> None:
        before = self.used[:, span.columns].copy(), self.reserved[:, span.columns].copy()
        self._set(span, used, reserved)
        self._record_undo(lambda: self._set(span, *before))

    def _set(self, span: NodeSpan, used: Amounts, reserved: Amounts) -> None:
        self.used[:, span.columns] = used
        self.reserved[:, span.columns] = reserved
        self.room[:, span.columns] = self.nodes.alloc[:, span.columns] - used - reserved
        self._refresh_loads(span.columns)
        self.changed_columns = []

    def _refresh_loads(self, columns: slice | npt.NDArray[np.intp]) -> None:
        for load, share in self._loads.values():
            load[columns] = (self.used[:, columns] * share[:, columns]).sum(axis=0)
