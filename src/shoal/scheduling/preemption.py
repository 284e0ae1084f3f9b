"""Preemption: making room in the home pool, at the least cost to others.

For one task it is enough to clear one node: of all nodes, the one whose victims matter least. A gang needs
room in many places: everybody who may have to leave is taken out, the gang is placed, and whoever does not
stand in its way is put back. Either way as many as possible are spared, so that sparing any one victim more
would leave no room.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import takewhile

import msgspec

from shoal.scheduling.departures import Departures
from shoal.scheduling.filters import Filters
from shoal.scheduling.neighbours import Occupant
from shoal.scheduling.nodes import Span
from shoal.scheduling.placement import Placed
from shoal.scheduling.roomtests import Gang, OneNode, RoomTest, are_alike
from shoal.scheduling.shape import Shape
from shoal.scheduling.sizes import ranks
from shoal.scheduling.snapshot import Snapshot
from shoal.scheduling.victims import (
    NO_TURN,
    Candidate,
    Level,
    Residents,
    Turn,
    Unit,
    extras_of,
    in_order,
    keeps_minimum,
    units_of,
)
from shoal.scheduling.workload import Task, Workload

Cost = tuple[int, int, int, int, int, Turn, int]
"""What victims cost, cheaper first: violated budgets, the highest level, the highest priority at home, the
sum of priorities, their number, the last turn of an extra instance, and the node's column."""

Likeness = tuple[object, ...]
"""What nodes have in common that cost the same to clear."""

Place = list[tuple[Candidate, list[Task]]]
"""Who could leave some place, with which tasks."""


class Clearance(msgspec.Struct, frozen=True, eq=False):
    """Who must leave, and where the tasks go that they make room for."""

    victims: list[Unit]
    placed: Placed


class Preemption:
    """Finds room for workloads in their home pools."""

    def __init__(self, snapshot: Snapshot, filters: Filters, departures: Departures) -> None:
        """Make room in what the filters let through."""
        self._snapshot, self._filters, self._ledger = snapshot, filters, filters.ledger
        self._departures, self._budgets = departures, departures.budgets

    def clear(
        self, workload: Workload, untouchable: Collection[Workload], *, extras_only: bool
    ) -> Clearance | None:
        """Room for the minimum of a workload, if anybody may have to leave for it.

        With `extras_only` nobody loses what it is entitled to.
        """
        candidates = list(self._candidates(workload, untouchable, extras_only=extras_only))
        if not candidates:
            return None
        if len(workload.minimum_tasks) == 1:
            return self._clear_node(workload, candidates)
        return self._clear_pool(workload, candidates)

    def _candidates(
        self, workload: Workload, untouchable: Collection[Workload], *, extras_only: bool
    ) -> Iterator[Candidate]:
        for one in self._residents.of(workload.pool):
            victim = one.workload
            if victim is workload or victim in untouchable:
                continue
            free = not extras_only and (one.foreign or victim.priority < workload.priority)
            lends = victim.elastic and not one.foreign and victim.priority <= workload.priority
            extras = extras_of(victim, self._departures, self._ranks[victim]) if lends else ()
            leaving = self._departures.tasks if victim in self._departures else ()
            tasks = tuple(task for task in one.tasks if task not in leaving) if free else ()
            if tasks or extras:
                yield Candidate(workload=victim, foreign=one.foreign, tasks=tasks, extras=extras)

    @cached_property
    def _ranks(self) -> dict[Workload, int]:
        return ranks(workload for workload in self._snapshot.workloads if workload.elastic)

    @cached_property
    def _residents(self) -> Residents:
        return Residents(self._snapshot)

    def _clear_node(self, workload: Workload, candidates: list[Candidate]) -> Clearance | None:
        """One node for one task: the one whose victims cost least; of nodes that are alike, the first."""
        found: list[tuple[Cost, Clearance]] = []
        looked_at: set[Likeness] = set()
        for column, place in self._by_node(workload, candidates).items():
            node = Span(column, column + 1)
            likeness = self._likeness(workload, column, self._units(place, node, {}))
            if likeness in looked_at:
                continue
            looked_at.add(likeness)
            clearance = self._clear(place, node, partial(self._node_test, workload, column))
            if clearance is not None:
                found.append((self._cost(clearance.victims, column), clearance))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def _clear_pool(self, workload: Workload, candidates: list[Candidate]) -> Clearance | None:
        """Room anywhere in the pool for all of a gang's minimum."""
        span = self._snapshot.pools[workload.pool].span
        place = [(one, list(one.tasks)) for one in candidates]
        return self._clear(place, span, partial(Gang, self._filters, span, workload))

    def _clear(self, place: Place, span: Span, make_test: Callable[[], RoomTest]) -> Clearance | None:
        """Who must leave a place; an elastic workload gives nothing below an instance that does not help."""
        given: dict[Workload, int] = {}
        while True:
            units, test = self._units(place, span, given), make_test()
            with self._ledger.attempt():
                victims = self._spare(units, test)
                if victims is None:
                    return None
                useless = _cut_short(units, victims)
                if not useless:
                    return Clearance(victims, test.placed())
            given |= useless

    def _units(self, place: Place, span: Span, given: dict[Workload, int]) -> list[Unit]:
        """What could leave a place, in the order of being put back; `given` limits who gives what extras."""
        units: list[Unit] = []
        for candidate, tasks in place:
            most = given.get(candidate.workload, len(candidate.extras))
            run = list(takewhile(lambda extra: extra[1].column in span, candidate.extras[:most]))
            units += units_of(candidate, tasks, run, self._departures)
        return in_order(units)

    def _likeness(self, workload: Workload, column: int, units: list[Unit]) -> Likeness:
        """What the cost of clearing a node depends on; the node itself, if that is more than room."""
        special = self._budgets or self._ledger.neighbours is not None or not are_alike(workload)
        if special or any(len(unit.tasks) > 1 for unit in units):
            return (column,)
        victims = ((u.level, u.turn, u.workload.priority, u.tasks[0].shape) for u in units)
        return (self._ledger.room[:, column].tobytes(), *victims)

    def _node_test(self, workload: Workload, column: int) -> RoomTest:
        if are_alike(workload):
            span = self._snapshot.pools[workload.pool].span
            return OneNode(self._filters, span, workload.missing[0], column)
        return Gang(self._filters, Span(column, column + 1), workload)

    def _by_node(self, workload: Workload, candidates: list[Candidate]) -> dict[int, Place]:
        """Who could leave each node, where that could be enough."""
        there: defaultdict[int, Place] = defaultdict(list)
        for candidate in candidates:
            tasks: defaultdict[int, list[Task]] = defaultdict(list)
            if candidate.extras:
                tasks[candidate.extras[0][1].column] = []
            for other in candidate.tasks:
                tasks[other.column].append(other)
            for column, together in tasks.items():
                there[column].append((candidate, together))
        return {
            column: there[column]
            for column in sorted(there)
            if any(self._could_help(task, column, there[column]) for task in workload.missing)
        }

    def _could_help(self, task: Task, column: int, place: Place) -> bool:
        """Whether a node could have room for a task, were these gone."""
        leaving = {other for _, tasks in place for other in tasks}
        leaving |= {e for candidate, _ in place for _, e in candidate.extras if e.column == column}
        demand = self._ledger.demand(task.shape)
        gained = sum(self._ledger.demand(other.shape).vector for other in leaving)
        room = self._ledger.room[:, column] + gained
        enough = all(room[row] >= n for row, n in zip(demand.rows, demand.amounts, strict=True))
        return enough and bool(self._filters.suitable(task)[column])

    def _spare(self, units: list[Unit], test: RoomTest) -> list[Unit] | None:
        """Take all out and put back as many as the test bears; who stays out, or None if it is in vain."""
        tasks = [task for unit in units for task in unit.tasks]
        self._ledger.remove_all(_occupants(tasks))
        test.refresh([task.column for task in tasks])
        if not test.holds():
            return None
        gone = set(self._put_back_all(self._guarded_first(units), test))
        ruined = {unit.workload: unit for unit in units if unit.whole and unit in gone}
        extras = [unit for unit in units if unit.workload in ruined and not unit.whole]
        victims = []
        for unit in units:
            if unit in gone and ruined.get(unit.workload, unit) is unit:
                victims += self._spare_singly(_with_extras(unit, extras), test) if unit.whole else [unit]
        return sorted(victims, key=lambda unit: (-unit.level, unit.turn))

    def _guarded_first(self, units: list[Unit]) -> list[Unit]:
        """Units whose leaving would violate a budget, then the others; a whole workload before its extras."""
        over = self._budgets.violating(task for unit in units for task in unit.tasks)
        guarded = {unit.workload for unit in units if not over.isdisjoint(unit.tasks)}

        def is_free(unit: Unit) -> bool:
            return unit.workload not in guarded if unit.whole else over.isdisjoint(unit.tasks)

        return sorted(units, key=is_free)

    def _put_back_all(self, units: list[Unit], test: RoomTest) -> list[Unit]:
        """Put units back one after another; who cannot.

        Most can, so they are tried by the handful: if all of a handful fit, each of them would have. Where so
        many alike found no room on a node, as many or more find none after them. Who loses its minimum keeps
        no extras.
        """
        victims: list[Unit] = []
        ruined: set[Workload] = set()
        hopeless: dict[tuple[int, Shape], int] = {}
        start, handful = 0, 1
        while start < len(units):
            some = list(takewhile(lambda u: u.workload not in ruined, units[start : start + handful]))
            first = units[start]
            seats = {(task.column, task.shape) for task in first.tasks}
            seat = seats.pop() if len(seats) == 1 else None
            if not some or (seat in hopeless and len(first.tasks) >= hopeless[seat]):
                victims.append(first)
                start += 1
            elif self._put_back([task for unit in some for task in unit.tasks], test):
                start += len(some)
                handful *= 2
                continue
            elif len(some) > 1:
                handful = len(some) // 2
                continue
            else:
                victims.append(first)
                if seat:
                    hopeless[seat] = len(first.tasks)
                start += 1
            if first.whole:
                ruined.add(first.workload)
        return victims

    def _spare_singly(self, victim: Unit, test: RoomTest) -> list[Unit]:
        """What of a whole workload must really leave, if the rest of it can go on."""
        before = test.standing
        with self._ledger.attempt() as attempt:
            back = [task for task in victim.tasks if self._put_back((task,), test)]
            leaving = [task for task in victim.tasks if task not in set(back)]
            if back and keeps_minimum(victim.workload, self._departures, without=leaving):
                attempt.keep()
                return [msgspec.structs.replace(victim, tasks=(task,), whole=False) for task in leaving]
        test.standing = before
        test.refresh([task.column for task in victim.tasks])
        return [victim]

    def _put_back(self, tasks: Sequence[Task], test: RoomTest) -> bool:
        columns = [task.column for task in tasks]
        with self._ledger.attempt() as attempt:
            self._ledger.add_all(_occupants(tasks))
            test.refresh(columns)
            if test.holds():
                attempt.keep()
                return True
        test.refresh(columns)
        return False

    def _cost(self, victims: list[Unit], column: int) -> Cost:
        tasks = [task for unit in victims for task in unit.tasks]
        home = [unit for unit in victims if unit.level is Level.HOME]
        priorities = [unit.workload.priority for unit in home for _ in unit.tasks]
        return (
            len(self._budgets.violating(tasks)),
            max((unit.level for unit in victims), default=Level.FOREIGN),
            max(priorities, default=0),
            sum(max(priority, 0) for priority in priorities),
            len(tasks),
            max((unit.turn for unit in victims), default=NO_TURN),
            column,
        )


def _occupants(tasks: Iterable[Task]) -> list[Occupant]:
    return [Occupant(task.column, task.shape, task.identity) for task in tasks]


def _with_extras(whole: Unit, extras: Iterable[Unit]) -> Unit:
    """All of a workload that goes whole, its extra instances too."""
    leaving = {*whole.tasks, *(task for u in extras if u.workload is whole.workload for task in u.tasks)}
    tasks = tuple(task for task in whole.workload.placed if task in leaving)
    return msgspec.structs.replace(whole, tasks=tasks)


def _cut_short(units: list[Unit], victims: list[Unit]) -> dict[Workload, int]:
    """Who would lose an extra instance from below one that stays, and how many are above that one."""
    leaving = {task for unit in victims for task in unit.tasks}
    ruined = {unit.workload for unit in victims if unit.level is Level.HOME}
    rows: defaultdict[Workload, list[bool]] = defaultdict(list)
    for unit in sorted((u for u in units if u.level is Level.EXTRA), key=lambda unit: unit.turn):
        rows[unit.workload].append(unit.tasks[0] in leaving)
    return {
        workload: row.index(False)
        for workload, row in rows.items()
        if workload not in ruined and False in row and True in row[row.index(False) :]
    }
