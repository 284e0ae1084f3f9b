"""Rebalancing: the most fulfilled give to the least fulfilled, as long as that makes them more alike.

It is done in the room as it will be when all who leave are gone. Each step moves one instance: the donor's
highest leaves its node, and the receiver's next is promised the room.
"""

from bisect import insort
from collections.abc import Iterable

import msgspec
import numpy as np

from shoal.scheduling.elastic import Grower
from shoal.scheduling.filters import Filters
from shoal.scheduling.load import Load
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.nodes import Span
from shoal.scheduling.shape import Shape
from shoal.scheduling.sizes import score
from shoal.scheduling.workload import Task


class Exchange(msgspec.Struct, frozen=True, eq=False):
    """One step: an instance that leaves, and the one that takes its place."""

    donor: Grower
    leaving: Task
    receiver: Grower
    coming: Task


class Rebalancing:
    """Makes workloads of one pool equal. The ledger must have nobody who leaves, and is left changed."""

    def __init__(
        self,
        filters: Filters,
        span: Span,
        load: Load,
        *,
        receivers: Iterable[Grower],
        donors: Iterable[Grower],
    ) -> None:
        """`load` is that of the ledger."""
        self._filters, self._ledger, self._span, self._load = filters, filters.ledger, span, load
        self._receivers = sorted((g for g in receivers if g.next), key=_growth_order)
        self._donors = sorted((g for g in donors if _may_give(g)), key=_giving_order)
        self._gave: set[Grower] = set()
        self._helping: dict[Shape, list[Grower]] = {}

    def run(self) -> list[Exchange]:
        """Exchange until no step is left."""
        made: list[Exchange] = []
        while exchange := self._step():
            made.append(exchange)
        return made

    def _step(self) -> Exchange | None:
        for receiver in self._receivers:
            task = receiver.next
            if task is None or receiver in self._gave or len(receiver.step() or ()) > 1:
                continue
            for donor in self._helpers(task):
                after = score(receiver.workload, receiver.size + 1)
                if donor.score <= after:
                    break
                if self._is_fair(donor, receiver, after):
                    return self._exchange(donor, receiver)
        return None

    def _is_fair(self, donor: Grower, receiver: Grower, after: float) -> bool:
        """Whether one may give to the other, and is then still at least as fulfilled."""
        if donor is receiver or donor.nominated or donor.workload.priority > receiver.workload.priority:
            return False
        return score(donor.workload, donor.size - 1) >= after

    def _exchange(self, donor: Grower, receiver: Grower) -> Exchange:
        self._donors.remove(donor)
        self._receivers.remove(receiver)
        leaving = donor.give()
        coming = receiver.promise(leaving.column)
        self._ledger.remove(Occupant(leaving.column, leaving.shape, leaving.identity))
        self._ledger.add(Occupant(leaving.column, coming.shape, coming.identity))
        self._load.add(leaving.shape, -1)
        self._load.add(coming.shape)
        self._gave.add(donor)
        self._helping.clear()
        if _may_give(donor):
            insort(self._donors, donor, key=_giving_order)
        if receiver.next:
            insort(self._receivers, receiver, key=_growth_order)
        return Exchange(donor, leaving, receiver, coming)

    def _helpers(self, task: Task) -> list[Grower]:
        """Who could make room for a task by giving its highest instance; nobody, if the task needs none."""
        if self._filters.minds(task):
            return [] if self._grows_alone(task) else [d for d in self._donors if self._would_fit(task, d)]
        if task.shape not in self._helping:
            self._helping[task.shape] = [] if self._grows_alone(task) else self._clearing(task)
        return self._helping[task.shape]

    def _grows_alone(self, task: Task) -> bool:
        fits = self._filters.fitting(task, self._span)
        return bool(fits.any()) and self._load.times(task.shape) > 0

    def _would_fit(self, task: Task, donor: Grower) -> bool:
        leaving = donor.seated[-1]
        with self._ledger.attempt():
            self._ledger.remove(Occupant(leaving.column, leaving.shape, leaving.identity))
            return self._filters.fits_on(task, leaving.column, self._span)

    def _clearing(self, task: Task) -> list[Grower]:
        """The donors whose highest instances stand where a task would fit in their place."""
        if not self._donors:
            return []
        leaving = [donor.seated[-1] for donor in self._donors]
        columns = np.array([one.column for one in leaving])
        gained = np.array([self._ledger.demand(one.shape).vector for one in leaving]).T
        demand = self._ledger.demand(task.shape)
        room = self._ledger.room[:, columns] + gained
        enough = np.logical_and.reduce(
            [room[row] >= n for row, n in zip(demand.rows, demand.amounts, strict=True)]
        )
        fits = enough & self._filters.suitable(task)[columns]
        return [donor for donor, helps in zip(self._donors, fits, strict=True) if helps]


def _may_give(grower: Grower) -> bool:
    """Whether it has an instance more than it must have, and that instance was there before."""
    return grower.size > grower.workload.minimum and bool(grower.seated)


def _growth_order(grower: Grower) -> tuple[float, int]:
    return grower.score, grower.rank


def _giving_order(grower: Grower) -> tuple[float, int]:
    return -grower.score, -grower.rank
