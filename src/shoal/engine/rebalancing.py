"""Rebalancing: the most fulfilled give to the least fulfilled, as long as that makes them more alike.

It is done in the room as it will be when all who leave are gone. Each step moves one instance: the donor's
highest leaves its node, and the receiver's next is promised the room.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable

import msgspec
import numpy as np

from shoal.engine.affinity import Occupant
from shoal.engine.elastic import Grower, score
from shoal.engine.filters import Filters
from shoal.engine.growing import Load
from shoal.engine.nodes import Span
from shoal.engine.workload import Shape, Task


class Exchange(msgspec.Struct, frozen=True, eq=False):
    """One step: an instance that leaves, and the one that takes its place."""

    donor: Grower
    leaving: Task
    receiver: Grower
    coming: Task


class Prospects:
    """What instances of one shape can hope for: nodes with room, and donors in whose place they would fit.

    Those instances mind no neighbours. `donors` are in the order of giving.
    """

    def __init__(self, filters: Filters, span: Span, task: Task, donors: list[Grower]) -> None:
        """Look at all nodes and all donors."""
        self._ledger, self._demand = filters.ledger, filters.ledger.demand(task.shape)
        self._suitable = filters.suitable(task)
        self.roomy = set((span.start + np.flatnonzero(filters.fitting(task, span))).tolist())
        self.donors = [donor for donor in donors if self._would_fit(donor)]

    def look_at(self, column: int) -> None:
        """Look again at a node that has changed."""
        if self._suitable[column] and self._ledger.has_room(self._demand, column):
            self.roomy.add(column)
        else:
            self.roomy.discard(column)

    def count_on(self, donor: Grower) -> None:
        """Look at one more donor."""
        if self._would_fit(donor):
            insort(self.donors, donor, key=_giving_order)

    def _would_fit(self, donor: Grower) -> bool:
        """Whether an instance fits where the highest of a donor stands, in its place."""
        leaving, demand = donor.seated[-1], self._demand
        room = (self._ledger.room[:, leaving.column] + self._ledger.demand(leaving.shape).vector).tolist()
        enough = all(room[row] >= n for row, n in zip(demand.rows, demand.amounts, strict=True))
        return enough and bool(self._suitable[leaving.column])


class Rebalancing:
    """Makes workloads of one pool equal. The ledger must have nobody who leaves, and is left changed.

    Who has given takes nothing any more, and who has been promised something gives nothing. An exchange
    changes one node, so only what concerns that node is looked at again.
    """

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
        self._prospects: dict[Shape, Prospects] = {}
        self._standing: defaultdict[int, list[Grower]] = defaultdict(list)
        for donor in self._donors:
            self._standing[donor.seated[-1].column].append(donor)

    def run(self) -> list[Exchange]:
        """Exchange until no step is left."""
        made: list[Exchange] = []
        while exchange := self._step():
            made.append(exchange)
        return made

    def _step(self) -> Exchange | None:
        for receiver in self._receivers:
            task = receiver.next
            if task is None or (receiver.is_followed and receiver.step() != [task]):
                continue
            after = score(receiver.workload, receiver.size + 1)
            for donor in self._helpers(task):
                if donor.score <= after:
                    break
                if _is_fair(donor, receiver, after):
                    return self._exchange(donor, receiver)
        return None

    def _exchange(self, donor: Grower, receiver: Grower) -> Exchange:
        column = donor.seated[-1].column
        concerned = self._standing.pop(column)
        for one in (*concerned, receiver):
            self._forget_donor(one)
        self._receivers = [one for one in self._receivers if one is not donor and one is not receiver]
        leaving, coming = donor.give(), receiver.promise(column)
        self._ledger.remove(Occupant(column, leaving.shape, leaving.identity))
        self._ledger.add(Occupant(column, coming.shape, coming.identity))
        self._load.add(leaving.shape, -1)
        self._load.add(coming.shape)
        for prospects in self._prospects.values():
            prospects.look_at(column)
        for one in concerned:
            if _may_give(one):
                self._count_on(one)
        if receiver.next:
            insort(self._receivers, receiver, key=_growth_order)
        return Exchange(donor, leaving, receiver, coming)

    def _forget_donor(self, donor: Grower) -> None:
        for donors in (self._donors, *(prospects.donors for prospects in self._prospects.values())):
            if donor in donors:
                donors.remove(donor)

    def _count_on(self, donor: Grower) -> None:
        insort(self._donors, donor, key=_giving_order)
        self._standing[donor.seated[-1].column].append(donor)
        for prospects in self._prospects.values():
            prospects.count_on(donor)

    def _helpers(self, task: Task) -> list[Grower]:
        """Who could make room for a task by giving its highest instance; nobody, if the task needs none."""
        if self._filters.minds(task):
            fits = self._filters.fitting(task, self._span).any() and self._load.times(task.shape)
            return [] if fits else [donor for donor in self._donors if self._would_fit(task, donor)]
        if task.shape not in self._prospects:
            self._prospects[task.shape] = Prospects(self._filters, self._span, task, self._donors)
        prospects = self._prospects[task.shape]
        return [] if prospects.roomy and self._load.times(task.shape) else prospects.donors

    def _would_fit(self, task: Task, donor: Grower) -> bool:
        leaving = donor.seated[-1]
        with self._ledger.attempt():
            self._ledger.remove(Occupant(leaving.column, leaving.shape, leaving.identity))
            return self._filters.fits_on(task, leaving.column, self._span)


def _is_fair(donor: Grower, receiver: Grower, after: float) -> bool:
    """Whether one may give to the other, and is then still at least as fulfilled."""
    if donor is receiver or donor.workload.priority > receiver.workload.priority:
        return False
    return score(donor.workload, donor.size - 1) >= after


def _may_give(grower: Grower) -> bool:
    """Whether it has an instance more than it must have that was there before, and is promised none."""
    return grower.size > grower.workload.minimum and bool(grower.seated) and not grower.nominated


def _growth_order(grower: Grower) -> tuple[float, int]:
    return grower.score, grower.rank


def _giving_order(grower: Grower) -> tuple[float, int]:
    return -grower.score, -grower.rank
