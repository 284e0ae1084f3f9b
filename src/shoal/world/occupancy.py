"""Occupancy: who is on which node and what that comes to, kept up to date node by node."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from shoal.scheduling.neighbours import Occupant, amounts_of
from shoal.scheduling.nodes import Nodes
from shoal.scheduling.resources import Amounts
from shoal.world.budgets import Allowances

Guest = tuple[Occupant, bool]
"""Somebody on a node, and whether it is ours to schedule."""


class Crowd:
    """Everybody who is on nodes, as one iterates over them."""

    def __init__(self, columns: Iterable[tuple[Occupant, ...]]) -> None:
        """Those of each column are kept as they are."""
        self._columns = tuple(columns)

    def __iter__(self) -> Iterator[Occupant]:
        return chain.from_iterable(self._columns)


class Occupancy:
    """Sums over pods, for every node and for all of them."""

    def __init__(self, allowances: Allowances) -> None:
        """Begin with empty nodes; `allowances` are told who comes and goes."""
        self._allowances = allowances
        self.used: Amounts = np.zeros((0, 0), dtype=np.int64)
        self.system: Amounts = self.used
        self._columns: list[tuple[Occupant, ...]] = []
        self._ready: list[bool] = []
        self._limits: Counter[str] = Counter()
        self._leaving: set[int] = set()
        self._guards: set[int] = set()

    @property
    def everybody(self) -> Crowd:
        """All who are on nodes."""
        return Crowd(self._columns)

    @property
    def leaving(self) -> tuple[Occupant, ...]:
        """Those whose pods are terminating."""
        columns = (self._columns[column] for column in sorted(self._leaving))
        return tuple(occupant for there in columns for occupant in there if occupant.leaving)

    @property
    def guarded(self) -> bool:
        """Whether anybody keeps others away."""
        return bool(self._guards)

    @property
    def limits(self) -> dict[str, int]:
        """What all pods on ready nodes may come to use."""
        return dict(+self._limits)

    def clear(self, nodes: Nodes) -> None:
        """Begin again with empty nodes, for columns or rows that are others."""
        for column in range(len(self._columns)):
            self._set(column, (), ready=False)
        self.used, self.system = np.zeros_like(nodes.alloc), np.zeros_like(nodes.alloc)
        self._columns, self._ready = [()] * len(nodes.names), [False] * len(nodes.names)

    def update(self, nodes: Nodes, columns: Sequence[int], guests: Callable[[int], Iterable[Guest]]) -> None:
        """Look again at some columns."""
        found = {column: list(guests(column)) for column in columns}
        for column, there in found.items():
            self._set(column, tuple(guest for guest, _ in there), ready=bool(nodes.ready[column]))
        everybody = list(chain.from_iterable(found.values()))
        chosen = list(columns)
        self.used[:, chosen] = amounts_of([guest for guest, _ in everybody], nodes)[:, chosen]
        strangers = [guest for guest, ours in everybody if not ours]
        self.system[:, chosen] = amounts_of(strangers, nodes)[:, chosen]

    def _set(self, column: int, there: tuple[Occupant, ...], *, ready: bool) -> None:
        before, was_ready = self._columns[column], self._ready[column]
        self._columns[column], self._ready[column] = there, ready
        self._allowances.count(before, -1)
        self._allowances.count(there, 1)
        if was_ready:
            self._limit(before, -1)
        if ready:
            self._limit(there, 1)
        _mark(self._leaving, column, any(occupant.leaving for occupant in there))
        _mark(self._guards, column, any(occupant.shape.apart for occupant in there))

    def _limit(self, occupants: Iterable[Occupant], change: int) -> None:
        for occupant in occupants:
            for name, amount in occupant.shape.limits.items():
                self._limits[name] += change * amount


def _mark(columns: set[int], column: int, there: bool) -> None:  # noqa: FBT001 - what is so is marked
    (columns.add if there else columns.discard)(column)
