"""Preemption: making room in the home pool, at the least cost to others.

For one task it is enough to clear one node: of all nodes, the one whose victims matter least. A gang needs
room in many places: everybody who may have to leave is taken out, the gang is placed, and whoever does not
stand in its way is put back. Either way as many as possible are spared, so that sparing any one victim more
would leave no room.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Sequence

import msgspec

from shoal.scheduling.budgets import Budgets
from shoal.scheduling.filters import Filters
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.nodes import Span
from shoal.scheduling.placement import Placed, Placer
from shoal.scheduling.shape import Shape
from shoal.scheduling.snapshot import Snapshot
from shoal.scheduling.victims import Resident, Unit, keeps_minimum, residents_of, units_of
from shoal.scheduling.workload import Task, Workload

Cost = tuple[int, bool, int, int, int, int]
"""What victims cost, cheaper first: violated budgets, whether any is at home, the highest priority, the sum
of priorities, their number, and the node's column."""


Likeness = tuple[object, ...]
"""What nodes have in common that cost the same to clear."""


class Clearance(msgspec.Struct, frozen=True, eq=False):
    """Who must leave, and where the tasks go that they make room for."""

    victims: list[Unit]
    placed: Placed


class Preemption:
    """Finds room for workloads in their home pools."""

    def __init__(self, snapshot: Snapshot, filters: Filters, budgets: Budgets) -> None:
        """Make room in what the filters let through."""
        self._snapshot, self._filters, self._ledger = snapshot, filters, filters.ledger
        self._budgets = budgets
        self._residents: dict[int, list[Resident]] = {}

    def clear(self, workload: Workload, untouchable: Collection[Workload]) -> Clearance | None:
        """Room for the minimum of a workload, if anybody may have to leave for it."""
        candidates = [
            r for r in self._residents_of(workload.pool) if self._may_evict(workload, r, untouchable)
        ]
        if not candidates:
            return None
        if len(workload.minimum_tasks) == 1:
            return self._clear_node(workload, candidates)
        return self._clear_pool(workload, candidates)

    def _residents_of(self, pool: int) -> list[Resident]:
        if pool not in self._residents:
            self._residents[pool] = residents_of(self._snapshot, pool)
        return self._residents[pool]

    @staticmethod
    def _may_evict(workload: Workload, resident: Resident, untouchable: Collection[Workload]) -> bool:
        victim = resident.workload
        if victim is workload or victim in untouchable:
            return False
        return resident.foreign or victim.priority < workload.priority

    def _clear_node(self, workload: Workload, candidates: list[Resident]) -> Clearance | None:
        """One node for one task: the one whose victims cost least; of nodes that are alike, the first."""
        found: list[tuple[Cost, Clearance]] = []
        looked_at: set[Likeness] = set()
        for column, units in self._by_node(workload, candidates).items():
            likeness = self._likeness(workload, column, units)
            if likeness in looked_at:
                continue
            looked_at.add(likeness)
            test = self._node_test(workload, column)
            with self._ledger.attempt():
                victims = self._spare(units, test)
                if victims is not None:
                    found.append((self._cost(victims, column), Clearance(victims, test.placed())))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def _likeness(self, workload: Workload, column: int, units: list[Unit]) -> Likeness:
        """What the cost of clearing a node depends on; the node itself, if that is more than room."""
        special = self._budgets or self._ledger.neighbours is not None or not _are_alike(workload)
        if special or any(len(unit.tasks) > 1 for unit in units):
            return (column,)
        victims = ((u.resident.foreign, u.resident.workload.priority, u.tasks[0].shape) for u in units)
        return (self._ledger.room[:, column].tobytes(), *victims)

    def _node_test(self, workload: Workload, column: int) -> "_Test":
        if _are_alike(workload):
            span = self._snapshot.pools[workload.pool].span
            return _OneNode(self._filters, span, workload.missing[0], column)
        return _Trial(self._filters, Span(column, column + 1), workload)

    def _clear_pool(self, workload: Workload, candidates: list[Resident]) -> Clearance | None:
        """Room anywhere in the pool for all of a gang's minimum."""
        units = [unit for resident in candidates for unit in units_of(resident, resident.tasks)]
        test = _gang_test(self._filters, self._snapshot.pools[workload.pool].span, workload)
        with self._ledger.attempt():
            victims = self._spare(units, test)
            return None if victims is None else Clearance(victims, test.placed())

    def _by_node(self, workload: Workload, candidates: list[Resident]) -> dict[int, list[Unit]]:
        """What would leave each node, where that could be enough."""
        there: defaultdict[int, list[tuple[Resident, list[Task]]]] = defaultdict(list)
        for resident in candidates:
            tasks: defaultdict[int, list[Task]] = defaultdict(list)
            for other in resident.tasks:
                tasks[other.column].append(other)
            for column, together in tasks.items():
                there[column].append((resident, together))
        return {
            column: [unit for resident, together in there[column] for unit in units_of(resident, together)]
            for column in sorted(there)
            if any(self._could_help(task, column, there[column]) for task in workload.missing)
        }

    def _could_help(self, task: Task, column: int, leaving: list[tuple[Resident, list[Task]]]) -> bool:
        """Whether a node could have room for a task, were these gone."""
        demand = self._ledger.demand(task.shape)
        gained = sum(self._ledger.demand(other.shape).vector for _, tasks in leaving for other in tasks)
        room = self._ledger.room[:, column] + gained
        enough = all(room[row] >= n for row, n in zip(demand.rows, demand.amounts, strict=True))
        return enough and bool(self._filters.suitable(task)[column])

    def _spare(self, units: list[Unit], test: "_Test") -> list[Unit] | None:
        """Take all out and put back as many as the test bears; who stays out, or None if it is in vain."""
        for unit in units:
            self._take_out(unit)
        test.refresh([task.column for unit in units for task in unit.tasks])
        if not test.holds():
            return None
        over = self._budgets.violating(task for unit in units for task in unit.tasks)
        first = sorted(units, key=lambda unit: over.isdisjoint(unit.tasks))
        gone = set(self._put_back_all(first, test))
        return [part for unit in units if unit in gone for part in self._spare_singly(unit, test)]

    def _put_back_all(self, units: list[Unit], test: "_Test") -> list[Unit]:
        """Put units back one after another; who cannot.

        Most can, so they are tried by the handful: if all of a handful fit, each of them would have. Where so
        many alike found no room on a node, as many or more find none after them.
        """
        victims: list[Unit] = []
        hopeless: dict[tuple[int, Shape], int] = {}
        start, handful = 0, 1
        while start < len(units):
            some = units[start : start + handful]
            seats = {(task.column, task.shape) for task in some[0].tasks}
            seat = seats.pop() if len(seats) == 1 else None
            if seat in hopeless and len(some[0].tasks) >= hopeless[seat]:
                victims.append(some[0])
                start += 1
            elif self._put_back([task for unit in some for task in unit.tasks], test):
                start += len(some)
                handful *= 2
            elif len(some) > 1:
                handful //= 2
            else:
                victims.append(some[0])
                if seat:
                    hopeless[seat] = len(some[0].tasks)
                start += 1
        return victims

    def _spare_singly(self, victim: Unit, test: "_Test") -> list[Unit]:
        """What of a whole workload must really leave, if the rest of it can go on."""
        if not victim.whole:
            return [victim]
        before = test.standing
        with self._ledger.attempt() as attempt:
            back = [task for task in victim.tasks if self._put_back((task,), test)]
            leaving = [task for task in victim.tasks if task not in set(back)]
            if back and keeps_minimum(victim.resident.workload, without=leaving):
                attempt.keep()
                return [Unit(victim.resident, (task,), whole=False) for task in leaving]
        test.standing = before
        test.refresh([task.column for task in victim.tasks])
        return [victim]

    def _put_back(self, tasks: Sequence[Task], test: "_Test") -> bool:
        columns = [task.column for task in tasks]
        with self._ledger.attempt() as attempt:
            for task in tasks:
                self._ledger.add(Occupant(task.column, task.shape, task.identity))
            test.refresh(columns)
            if test.holds():
                attempt.keep()
                return True
        test.refresh(columns)
        return False

    def _take_out(self, unit: Unit) -> None:
        for task in unit.tasks:
            self._ledger.remove(Occupant(task.column, task.shape, task.identity))

    def _cost(self, victims: list[Unit], column: int) -> Cost:
        tasks = [task for unit in victims for task in unit.tasks]
        home = [unit for unit in victims if not unit.resident.foreign]
        priorities = [unit.resident.workload.priority for unit in home for _ in unit.tasks]
        return (
            len(self._budgets.violating(tasks)),
            bool(home),
            max(priorities, default=0),
            sum(max(priority, 0) for priority in priorities),
            len(tasks),
            column,
        )


class _Test(ABC):
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


class _OneNode(_Test):
    """One task on one node."""

    def __init__(self, filters: Filters, span: Span, task: Task, column: int) -> None:
        self._filters, self._span, self._task, self._column = filters, span, task, column

    def holds(self) -> bool:
        return self._filters.fits_on(self._task, self._column, self._span)

    def placed(self) -> Placed:
        return [(self._task, self._column)]


class _GangTest(_Test):
    """A gang in a pool."""

    def __init__(self, filters: Filters, span: Span, workload: Workload) -> None:
        self._filters, self._ledger, self._span, self._workload = filters, filters.ledger, span, workload

    def placed(self) -> Placed:
        with self._ledger.attempt():
            return self._place() or []

    def _place(self) -> Placed | None:
        placer = Placer(self._filters, self._span, self._workload.placement)
        return placer.place(self._workload.missing, self._workload.lacking, minimum_only=True).placed


class _Headcount(_GangTest):
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


class _Trial(_GangTest):
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
        """See `_Test`; where it stands now, should it not find its way again."""
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


def _gang_test(filters: Filters, span: Span, workload: Workload) -> _GangTest:
    alike = _are_alike(workload) and not filters.minds(workload.missing[0])
    return _Headcount(filters, span, workload) if alike else _Trial(filters, span, workload)


def _are_alike(workload: Workload) -> bool:
    return len({(task.shape, task.identity) for task in workload.missing}) == 1
