"""Preemption: making room in the home pool, at the least cost to others.

For one task it is enough to clear one node: of all nodes, the one whose victims matter least. A gang needs
room in many places: everybody who may have to leave is taken out, the gang is placed, and whoever does not
stand in its way is put back. Either way as many as possible are spared, so that sparing any one victim more
would leave no room.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, count, takewhile

import msgspec
from msgspec.structs import replace

from shoal.engine.affinity import Occupant
from shoal.engine.elastic import ranks
from shoal.engine.filters import Filters
from shoal.engine.nodes import Span
from shoal.engine.placement import Placed
from shoal.engine.releasing import Departures
from shoal.engine.room_tests import Gang, OneNode, RoomTest, are_alike
from shoal.engine.snapshot import Snapshot
from shoal.engine.victims import (
    NO_TURN,
    Candidate,
    Level,
    Likeness,
    Place,
    Places,
    Residents,
    Turn,
    Unit,
    extras_of,
    in_order,
    keeps_minimum,
    units_of,
)
from shoal.engine.workload import NOWHERE, Shape, Task, Workload

Cost = tuple[int, int, int, int, int, Turn, int]
"""What victims cost, cheaper first: violated budgets, the highest level, the highest priority at home, the
sum of priorities, their number, the last turn of an extra instance, and the node's column."""


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
        self._places: dict[tuple[int, int, bool], Places] = {}
        self._seen: dict[tuple[int, int, bool], tuple[int, int]] = {}
        self._costs: defaultdict[Shape, dict[Likeness, Cost | None]] = defaultdict(dict)
        self._versions = count()

    def clear(
        self, workload: Workload, untouchable: Collection[Workload], *, extras_only: bool
    ) -> Clearance | None:
        """Room for the minimum of a workload, if anybody may have to leave for it.

        With `extras_only` nobody loses what it is entitled to. Nobody leaves for a gang that could not start.
        """
        if workload.incomplete:
            return None
        places = self._places_for(workload, untouchable, extras_only=extras_only)
        if len(workload.minimum_tasks) == 1:
            return self._clear_node(workload, places)
        return self._clear_pool(workload, places.everybody())

    def _places_for(
        self, workload: Workload, untouchable: Collection[Workload], *, extras_only: bool
    ) -> Places:
        """Who could leave for a workload; those who lost or got something since are looked at again."""
        key = (workload.pool, workload.priority, extras_only)
        lost = len(self._departures.evictions)
        if key not in self._places:
            judge = partial(self._judge, workload.priority, untouchable, extras_only=extras_only)
            span, residents = self._snapshot.pools[workload.pool].span, self._residents.of(workload.pool)
            self._places[key] = Places(span, residents, judge)
        elif self._seen[key] != (lost, len(untouchable)):
            evicted = (eviction.workload for eviction in self._departures.evictions[self._seen[key][0] :])
            self._places[key].judge({*evicted, *untouchable})
        self._seen[key] = lost, len(untouchable)
        return self._places[key]

    def _judge(
        self, priority: int, untouchable: Collection[Workload], one: Candidate, *, extras_only: bool
    ) -> Candidate | None:
        """What a resident could lose to somebody of a priority."""
        victim = one.workload
        if victim in untouchable:
            return None
        free = not extras_only and (one.foreign or victim.priority < priority)
        lends = victim.elastic and not one.foreign and victim.priority <= priority
        extras = self._extras(victim) if lends else ()
        if free and not extras and victim not in self._departures:
            return one
        tasks = tuple(task for task in one.tasks if task not in self._departures.tasks) if free else ()
        return replace(one, tasks=tasks, extras=extras) if tasks or extras else None

    def _extras(self, victim: Workload) -> tuple[tuple[Turn, Task], ...]:
        """What an elastic workload at home could give, from the top, as far as it stands in its pool."""
        span = self._snapshot.pools[victim.pool].span
        extras = extras_of(victim, self._departures, self._ranks[victim])
        return tuple(takewhile(lambda extra: extra[1].column in span, extras))

    @cached_property
    def _ranks(self) -> dict[Workload, int]:
        return ranks(workload for workload in self._snapshot.workloads if workload.elastic)

    @cached_property
    def _residents(self) -> Residents:
        return Residents(self._snapshot)

    def _clear_node(self, workload: Workload, places: Places) -> Clearance | None:
        """One node for one task: the one whose victims cost least."""
        span = self._snapshot.pools[workload.pool].span
        places.sort(self._ledger.room[:, span.columns], partial(self._sign, places))
        costs = self._weigh_sorts(workload, places) if are_alike(workload) else self._weigh(workload, places)
        best = min(costs, default=None)
        return None if best is None else self._clear_one(workload, places, best[-1])

    def _weigh(self, workload: Workload, places: Places) -> Iterator[Cost]:
        """What it costs to clear each node for a workload."""
        for column in chain.from_iterable(places.sorts.values()):
            cost = self._cost_of(workload, places, column)
            if cost:
                yield cost

    def _weigh_sorts(self, workload: Workload, places: Places) -> Iterator[Cost]:
        """What it costs to clear the first node of each sort; that is kept, where nobody else matters."""
        task = workload.missing[0]
        suitable = self._filters.suitable(task)
        lasting = not self._budgets and self._ledger.neighbours is None
        known = self._costs[task.shape] if lasting else {}
        for likeness, columns in places.sorts.items():
            column = next((column for column in columns if suitable[column]), NOWHERE)
            if column == NOWHERE:
                continue
            if likeness not in known:
                known[likeness] = self._cost_of(workload, places, column)
            cost = known[likeness]
            if cost:
                yield (*cost[:-1], column)

    def _cost_of(self, workload: Workload, places: Places, column: int) -> Cost | None:
        place = places.at(column)
        if not any(self._could_help(task, column, place) for task in workload.missing):
            return None
        clearance = self._clear_one(workload, places, column)
        return self._cost(clearance.victims, column) if clearance else None

    def _clear_one(self, workload: Workload, places: Places, column: int) -> Clearance | None:
        """Room on one node."""
        test = partial(self._node_test, workload, column)
        return self._clear(places.at(column), Span(column, column + 1), test)

    def _clear_pool(self, workload: Workload, everybody: Place) -> Clearance | None:
        """Room anywhere in the pool for all of a gang's minimum."""
        span = self._snapshot.pools[workload.pool].span
        test = partial(Gang, self._filters, span, workload)
        return self._clear(everybody, span, test) if everybody else None

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

    def _sign(self, places: Places, column: int) -> Likeness:
        """What the cost of clearing a node depends on; the node as it is now, if that is more than room."""
        units = self._units(places.at(column), Span(column, column + 1), {})
        special = self._budgets or self._ledger.neighbours is not None
        if special or any(len(unit.tasks) > 1 for unit in units):
            return (next(self._versions),)
        victims = ((u.level, u.turn, u.workload.priority, u.tasks[0].shape) for u in units)
        return (self._ledger.room[:, column].tobytes(), *victims)

    def _node_test(self, workload: Workload, column: int) -> RoomTest:
        if are_alike(workload):
            span = self._snapshot.pools[workload.pool].span
            return OneNode(self._filters, span, workload.missing[0], column)
        return Gang(self._filters, Span(column, column + 1), workload)

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
                return [replace(victim, tasks=(task,), whole=False) for task in leaving]
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
    return replace(whole, tasks=tasks)


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
