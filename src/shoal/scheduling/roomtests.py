"""Room tests: whether what is wanted still fits, as victims are put back one by one."""

from abc import ABC, abstractmethod

from shoal.scheduling.filters import Filters
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.nodes import Span
from shoal.scheduling.placement import Placed, Placer
from shoal.scheduling.workload import Task, Workload


class RoomTest(ABC):
    """Whether what is wanted still fits, as victims are put back one by one.

    `standing` is where it stands in the ledger meanwhile; who goes back in the ledger must go back here too.
    """

    standing: Placed = []

    @abstractmethod
    def holds(self) -> bool:
        """Whether it fits now."""

    @abstractmethod
    def placed(self) -> Placed:
        """Where it goes, once nobody more can be put back."""

    def refresh(self, columns: list[int]) -> None:  # noqa: B027 - who looks anew each time need not know
        """Learn that something changed on these nodes."""


class OneNode(RoomTest):
    """One task on one node."""

    def __init__(self, filters: Filters, span: Span, task: Task, column: int) -> None:
        self._filters, self._span, self._task, self._column = filters, span, task, column

    def holds(self) -> bool:
        return self._filters.fits_on(self._task, self._column, self._span)

    def placed(self) -> Placed:
        return [(self._task, self._column)]


class _GangTest(RoomTest):
    """A gang in a pool."""

    def __init__(self, filters: Filters, span: Span, workload: Workload) -> None:
        self._filters, self._ledger, self._span, self._workload = filters, filters.ledger, span, workload

    def placed(self) -> Placed:
        with self._ledger.attempt():
            return self._place() or []

    def _place(self) -> Placed | None:
        placer = Placer(self._filters, self._span, self._workload.placement)
        return placer.place(self._workload.missing, self._workload.lacking, minimum_only=True).placed


class Headcount(_GangTest):
    """A gang of tasks all alike: it is enough to count how many of them every node could take."""

    def __init__(self, filters: Filters, span: Span, workload: Workload) -> None:
        super().__init__(filters, span, workload)
        least = workload.minimum_tasks
        self._need = len(least)
        self._demand = self._ledger.demand(least[0].shape)
        self._suitable = filters.suitable(least[0])
        self._counts = {column: self._count(column) for column in range(span.start, span.stop)}
        self._total = sum(self._counts.values())

    def holds(self) -> bool:
        return self._total >= self._need

    def refresh(self, columns: list[int]) -> None:
        for column in set(columns):
            if column in self._span:
                count = self._count(column)
                self._total += count - self._counts[column]
                self._counts[column] = count

    def _count(self, column: int) -> int:
        return max(self._ledger.times(self._demand, column), 0) if self._suitable[column] else 0


class Trial(_GangTest):
    """A gang of different tasks: it is placed to see, and placed anew only where somebody needs its room."""

    def __init__(self, filters: Filters, span: Span, workload: Workload) -> None:
        super().__init__(filters, span, workload)
        self._minds = any(filters.minds(task) for task in workload.minimum_tasks)
        self._changed: list[int] = []

    def holds(self) -> bool:
        if self.standing and not self._minds and all(map(self._is_untouched, self._changed)):
            return True
        self._withdraw()
        placed = self._place()
        if placed is None:
            return False
        self.standing = placed
        return True

    def refresh(self, columns: list[int]) -> None:
        self._changed = columns

    def placed(self) -> Placed:
        """See `RoomTest`; where it stands now, should it not find its way again."""
        with self._ledger.attempt():
            self._withdraw()
            return self._place() or self.standing

    def _is_untouched(self, column: int) -> bool:
        """Whether a node still has room for what the gang took of it."""
        demands = (self._ledger.demand(task.shape) for task, other in self.standing if other == column)
        return all(self._ledger.room[row, column] >= 0 for demand in demands for row in demand.rows)

    def _withdraw(self) -> None:
        for task, column in self.standing:
            self._ledger.remove(Occupant(column, task.shape, task.identity))


def gang_test(filters: Filters, span: Span, workload: Workload) -> RoomTest:
    """The quickest test for a gang."""
    alike = are_alike(workload) and not filters.minds(workload.missing[0])
    return Headcount(filters, span, workload) if alike else Trial(filters, span, workload)


def are_alike(workload: Workload) -> bool:
    """Whether all that a workload misses is of one kind."""
    return len({(task.shape, task.identity) for task in workload.missing}) == 1
