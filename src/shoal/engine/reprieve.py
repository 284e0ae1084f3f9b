"""Reprieve: puts victims back, one workload after another, while the preempting workload still fits.

The procedure is the same for a single task that preempts on one node and for a gang that preempts in a pool.
At its turn a workload gets all its tasks back if they fit, else as many as fit if these make its minimum,
else none. So a workload is never evicted to spare one that stands later in the order.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile

from msgspec.structs import replace

from shoal.engine.affinity import Occupant
from shoal.engine.feasibility import FitTest
from shoal.engine.ledger import Ledger
from shoal.engine.releasing import Releasing
from shoal.engine.victims import EvictionUnit, keeps_minimum
from shoal.engine.workload import Shape, Task, Workload


class Reprieve:
    """Removes what could be evicted from the ledger, and puts back as much as possible.

    Of the extra instances of an elastic workload a lower one never goes while a higher one stays: they are
    put back from the lowest up to the first that does not fit.
    """

    def __init__(
        self, ledger: Ledger, releasing: Releasing, units: Sequence[EvictionUnit], test: FitTest
    ) -> None:
        """Remove all units, which must be in the order of putting back, regardless of budgets."""
        self._ledger, self._releasing, self._units, self._test = ledger, releasing, units, test
        self._positions = {unit: position for position, unit in enumerate(units)}
        self._removed = {task for unit in units for task in unit.tasks}
        self._ledger.remove_all(_occupants(self._tasks_of(units)))
        test.refresh([task.column for task in self._tasks_of(units)])

    def victims(self) -> list[EvictionUnit] | None:
        """The units that cannot be put back, the most important first; None if all is in vain."""
        if not self._test.fits():
            return None
        units = self._pass(self._budget_violations_first())
        while not self._test.is_monotone:
            removed = len(self._removed)
            units = self._pass(units)
            if len(self._removed) == removed:
                break
        in_order = sorted(units, key=lambda unit: self._positions[unit])
        return sorted(_merge(in_order), key=lambda unit: (-unit.level, unit.order))

    def _budget_violations_first(self) -> list[EvictionUnit]:
        """Units whose eviction would violate a budget, then the others.

        A whole workload counts as violating if any of its units does, so that it precedes its extra
        instances; an extra instance, if a higher one does, so that it precedes that one.
        """
        violating = self._releasing.budgets.violating(self._tasks_of(self._units))
        if not violating:
            return list(self._units)
        workloads: set[Workload] = set()
        highest: dict[Workload, int] = {}
        for unit in self._units:
            numbers = [task.number for task in unit.tasks if task in violating]
            if numbers:
                workloads.add(unit.workload)
            if numbers and unit.extra:
                highest[unit.workload] = max(numbers[0], highest.get(unit.workload, -1))

        def is_free(unit: EvictionUnit) -> bool:
            if unit.whole:
                return unit.workload not in workloads
            if unit.extra:
                return unit.tasks[0].number > highest.get(unit.workload, -1)
            return violating.isdisjoint(unit.tasks)

        return sorted(self._units, key=is_free)

    def _pass(self, units: list[EvictionUnit]) -> list[EvictionUnit]:
        """Put units back one after another; returns those that cannot be.

        Most can, so they are tried in batches: if a whole batch fits, each of its units would have. If a
        number of equal tasks found no room on a node, as many or more find none later.
        """
        victims: list[EvictionUnit] = []
        blocked: set[Workload] = set()
        failed_counts: dict[tuple[int, Shape], int] = {}
        start, batch_size = 0, 1
        while start < len(units):
            first = units[start]
            if self._removed.isdisjoint(first.tasks):
                start += 1
                continue
            batch = list(
                takewhile(
                    lambda unit: (
                        not (unit.extra and unit.workload in blocked)
                        and not self._removed.isdisjoint(unit.tasks)
                    ),
                    units[start : start + batch_size],
                )
            )
            spots = {(task.column, task.shape) for task in first.tasks}
            spot = spots.pop() if len(spots) == 1 else None
            known = spot in failed_counts and len(first.tasks) >= failed_counts[spot]
            if batch and not known and self._put_back(self._tasks_of(batch)):
                start += len(batch)
                batch_size *= 2
                continue
            if len(batch) > 1 and not known:
                batch_size = len(batch) // 2
                continue
            if batch and spot and not known:
                failed_counts[spot] = len(first.tasks)
            leaving = self._put_back_part(first) if first.whole else None
            victims += [first] if leaving is None else leaving
            if leaving is None and (first.whole or first.extra):
                blocked.add(first.workload)
            start += 1
        return victims

    def _put_back_part(self, whole: EvictionUnit) -> list[EvictionUnit] | None:
        """Put back as many tasks of a whole workload as fit; returns the others.

        None if what fits is not its minimum: then nothing is put back. If the tasks of the unit do not
        suffice, extra instances that stand later in the order complete the minimum.
        """
        workload = whole.workload
        tasks = [*whole.tasks, *self._later_extras(whole)]
        needed = workload.minimum - workload.done
        spare = sum(task.varying for task in tasks) - needed
        if not spare and not any(task.follows for task in tasks):
            return None
        if not keeps_minimum(workload, self._releasing, without=()):
            return None
        before, removed = self._test.last_fit, set(self._removed)
        with self._ledger.attempt() as attempt:
            leaving = self._put_back_each(whole, tasks, needed)
            if leaving is not None:
                attempt.keep()
                return leaving
        self._removed = removed
        self._test.last_fit = before
        self._test.refresh([task.column for task in tasks])
        return None

    def _put_back_each(
        self, whole: EvictionUnit, tasks: list[Task], needed: int
    ) -> list[EvictionUnit] | None:
        """Put tasks of a workload back one by one; None if its minimum cannot be made of them."""
        leaving: list[EvictionUnit] = []
        extras, blocked = set(whole.extras), False
        left = sum(task.varying for task in tasks)
        for number, task in enumerate(tasks):
            is_own = number < len(whole.tasks)
            if not is_own and needed <= 0:
                break
            is_extra = task in extras
            if not (is_extra and blocked) and self._put_back((task,)):
                needed -= task.varying
            elif task.is_fixed:
                return None
            else:
                blocked = blocked or is_extra
                if is_own:
                    leaving.append(self._single(whole, task, extra=is_extra))
            left -= task.varying
            if left < needed:
                return None
        return leaving

    def _later_extras(self, whole: EvictionUnit) -> list[Task]:
        """The extra instances of a whole workload that are units of their own, the lowest first."""
        own = set(whole.tasks)
        return [task for task in whole.extras if task not in own]

    def _single(self, whole: EvictionUnit, task: Task, *, extra: bool) -> EvictionUnit:
        unit = replace(whole, tasks=(task,), whole=False, extra=extra)
        self._positions[unit] = self._positions[whole]
        return unit

    def _put_back(self, tasks: Sequence[Task]) -> bool:
        columns = [task.column for task in tasks]
        with self._ledger.attempt() as attempt:
            self._ledger.add_all(_occupants(tasks))
            self._test.refresh(columns)
            if self._test.fits():
                attempt.keep()
                self._removed.difference_update(tasks)
                return True
        self._test.refresh(columns)
        return False

    @staticmethod
    def _tasks_of(units: Iterable[EvictionUnit]) -> list[Task]:
        return [task for unit in units for task in unit.tasks]


def _occupants(tasks: Iterable[Task]) -> list[Occupant]:
    return [Occupant(task.column, task.shape, task.identity) for task in tasks]


def _merge(units: list[EvictionUnit]) -> list[EvictionUnit]:
    """The units, with the extra instances of each whole workload merged into it."""
    whole = {unit.workload for unit in units if unit.whole}
    merged = []
    for unit in units:
        if unit.whole:
            leaving = {*unit.tasks, *unit.extras}
            tasks = tuple(task for task in unit.workload.placed if task in leaving)
            merged.append(replace(unit, tasks=tasks))
        elif unit.workload not in whole:
            merged.append(unit)
    return merged
