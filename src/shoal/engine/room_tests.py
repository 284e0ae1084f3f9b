"""Room tests: whether what is wanted still fits, as victims are put back one by one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from shoal.engine.feasibility import Bound
from shoal.engine.filters import Filters
from shoal.engine.nodes import Span
from shoal.engine.placement import Placed, Placer
from shoal.engine.resources import Amounts
from shoal.engine.workload import Task, Workload


class RoomTest(ABC):
    """Whether what is wanted still fits, as victims are put back one by one.

    `standing` is where it was last seen to fit, if the test remembers that.
    """

    standing: Placed = []

    @abstractmethod
    def holds(self) -> bool:
        """Whether it fits now."""

    @abstractmethod
    def placed(self) -> Placed:
        """Where it goes, once nobody more can be put back."""

    def refresh(self, columns: Sequence[int]) -> None:  # noqa: B027 - who looks anew each time need not know
        """Learn that something changed on these nodes."""


class OneNode(RoomTest):
    """One task on one node."""

    def __init__(self, filters: Filters, span: Span, task: Task, column: int) -> None:
        self._filters, self._span, self._task, self._column = filters, span, task, column

    def holds(self) -> bool:
        return self._filters.fits_on(self._task, self._column, self._span)

    def placed(self) -> Placed:
        return [(self._task, self._column)]


class Gang(RoomTest):
    """A gang in a pool: where a bound does not tell, it is placed to see, or stands where it stood."""

    def __init__(self, filters: Filters, span: Span, workload: Workload) -> None:
        self._filters, self._ledger, self._span, self._workload = filters, filters.ledger, span, workload
        self._bound = Bound(filters, span, workload)
        self._minds = any(filters.minds(task) for task in workload.minimum_tasks)
        self._is_counted = are_alike(workload) and not self._minds
        self._taken: tuple[Placed, dict[int, Amounts]] = ([], {})
        self._changed: Sequence[int] = ()

    def holds(self) -> bool:
        if self._bound.excludes():
            return False
        if self._is_counted or (self.standing and not self._minds and self._is_undisturbed()):
            return True
        placed = self._place()
        self.standing = placed or self.standing
        return placed is not None

    def refresh(self, columns: Sequence[int]) -> None:
        self._changed = columns
        self._bound.refresh(columns)

    def placed(self) -> Placed:
        """See `RoomTest`; where it stood last, should it not find its way again."""
        return self._place() or self.standing

    def _place(self) -> Placed | None:
        placer = Placer(self._filters, self._span, self._workload.placement)
        with self._ledger.attempt():
            return placer.place(self._workload.missing, self._workload.lacking, minimum_only=True).placed

    def _is_undisturbed(self) -> bool:
        """Whether nodes that have changed still have room for what the gang takes of them."""
        taken = self._amounts()
        return not any(
            ((taken[column] > self._ledger.room[:, column]) & (taken[column] > 0)).any()
            for column in self._changed
            if column in taken
        )

    def _amounts(self) -> dict[int, Amounts]:
        """What the gang takes of each node where it stands."""
        if self._taken[0] is not self.standing:
            amounts: dict[int, Amounts] = {}
            for task, column in self.standing:
                vector = self._ledger.demand(task.shape).vector
                amounts[column] = amounts[column] + vector if column in amounts else vector
            self._taken = self.standing, amounts
        return self._taken[1]


def are_alike(workload: Workload) -> bool:
    """Whether all that a workload misses is of one kind."""
    return len({(task.shape, task.identity) for task in workload.missing}) == 1
