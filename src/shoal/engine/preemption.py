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
from shoal.engine.elastic import growth_ranks
from shoal.engine.feasibility import FitTest, GangFitTest, NodeFitTest, is_uniform
from shoal.engine.filters import Filters
from shoal.engine.nodes import NodeSpan
from shoal.engine.placement import Placed
from shoal.engine.releasing import Releasing
from shoal.engine.snapshot import Snapshot
from shoal.engine.victims import (
    NO_RECLAIM_ORDER,
    CandidateIndex,
    Candidates,
    CostKey,
    EvictionUnit,
    NodeCandidates,
    ReclaimOrder,
    VictimCandidate,
    VictimLevel,
    eviction_units,
    keeps_minimum,
    reprieve_order,
    surplus_of,
)
from shoal.engine.workload import NO_NODE, Shape, Task, Workload

Cost = tuple[int, int, int, int, int, ReclaimOrder, int]
"""What victims cost, cheaper first: violated budgets, the highest level, the highest priority at home, the
sum of priorities, their number, the last turn of an extra instance, and the node's column."""


class PreemptionResult(msgspec.Struct, frozen=True, eq=False):
    """Who must leave, and where the tasks go that they make room for."""

    victims: list[EvictionUnit]
    placed: Placed


class Preemption:
    """Finds room for workloads in their home pools."""

    def __init__(self, snapshot: Snapshot, filters: Filters, releasing: Releasing) -> None:
        """Make room in what the filters let through."""
        self._snapshot, self._filters, self._ledger = snapshot, filters, filters.ledger
        self._releasing, self._budgets = releasing, releasing.budgets
        self._candidates_of: dict[tuple[int, int, bool], NodeCandidates] = {}
        self._seen: dict[tuple[int, int, bool], tuple[int, int]] = {}
        self._costs: defaultdict[Shape, dict[CostKey, Cost | None]] = defaultdict(dict)
        self._versions = count()

    def clear(
        self, workload: Workload, protected: Collection[Workload], *, surplus_only: bool
    ) -> PreemptionResult | None:
        """Room for the minimum of a workload, if anybody may have to leave for it.

        With `extras_only` nobody loses what it is entitled to. Nobody leaves for a gang that could not start.
        """
        if workload.incomplete:
            return None
        places = self._candidates_for(workload, protected, surplus_only=surplus_only)
        if len(workload.minimum_tasks) == 1:
            return self._preempt_on_best_node(workload, places)
        return self._preempt_gang(workload, places.all_candidates())

    def _candidates_for(
        self, workload: Workload, protected: Collection[Workload], *, surplus_only: bool
    ) -> NodeCandidates:
        """Who could leave for a workload; those who lost or got something since are looked at again."""
        key = (workload.pool, workload.priority, surplus_only)
        lost = len(self._releasing.evictions)
        if key not in self._candidates_of:
            judge = partial(self._judge, workload.priority, protected, surplus_only=surplus_only)
            span, residents = self._snapshot.pools[workload.pool].span, self._residents.of(workload.pool)
            self._candidates_of[key] = NodeCandidates(span, residents, judge)
        elif self._seen[key] != (lost, len(protected)):
            evicted = (eviction.workload for eviction in self._releasing.evictions[self._seen[key][0] :])
            self._candidates_of[key].judge({*evicted, *protected})
        self._seen[key] = lost, len(protected)
        return self._candidates_of[key]

    def _judge(
        self, priority: int, protected: Collection[Workload], one: VictimCandidate, *, surplus_only: bool
    ) -> VictimCandidate | None:
        """What a resident could lose to somebody of a priority."""
        victim = one.workload
        if victim in protected:
            return None
        free = not surplus_only and (one.foreign or victim.priority < priority)
        lends = victim.elastic and not one.foreign and victim.priority <= priority
        surplus = self._surplus(victim) if lends else ()
        if free and not surplus and victim not in self._releasing:
            return one
        tasks = tuple(task for task in one.tasks if task not in self._releasing.tasks) if free else ()
        return replace(one, tasks=tasks, surplus=surplus) if tasks or surplus else None

    def _surplus(self, victim: Workload) -> tuple[tuple[ReclaimOrder, Task], ...]:
        """What an elastic workload at home could give, from the top, as far as it stands in its pool."""
        span = self._snapshot.pools[victim.pool].span
        surplus = surplus_of(victim, self._releasing, self._ranks[victim])
        return tuple(takewhile(lambda extra: extra[1].column in span, surplus))

    @cached_property
    def _ranks(self) -> dict[Workload, int]:
        return growth_ranks(workload for workload in self._snapshot.workloads if workload.elastic)

    @cached_property
    def _residents(self) -> CandidateIndex:
        return CandidateIndex(self._snapshot)

    def _preempt_on_best_node(self, workload: Workload, places: NodeCandidates) -> PreemptionResult | None:
        """One node for one task: the one whose victims cost least."""
        span = self._snapshot.pools[workload.pool].span
        places.sort(self._ledger.room[:, span.columns], partial(self._sign, places))
        costs = (
            self._costs_by_key(workload, places)
            if is_uniform(workload)
            else self._node_costs(workload, places)
        )
        best = min(costs, default=None)
        return None if best is None else self._preempt_on_node(workload, places, best[-1])

    def _node_costs(self, workload: Workload, places: NodeCandidates) -> Iterator[Cost]:
        """What it costs to clear each node for a workload."""
        for column in chain.from_iterable(places.by_cost_key.values()):
            cost = self._cost_of(workload, places, column)
            if cost:
                yield cost

    def _costs_by_key(self, workload: Workload, places: NodeCandidates) -> Iterator[Cost]:
        """What it costs to clear the first node of each sort; that is kept, where nobody else matters."""
        task = workload.missing[0]
        suitable = self._filters.suitable(task)
        lasting = not self._budgets and self._ledger.inter_pod is None
        known = self._costs[task.shape] if lasting else {}
        for likeness, columns in places.by_cost_key.items():
            column = next((column for column in columns if suitable[column]), NO_NODE)
            if column == NO_NODE:
                continue
            if likeness not in known:
                known[likeness] = self._cost_of(workload, places, column)
            cost = known[likeness]
            if cost:
                yield (*cost[:-1], column)

    def _cost_of(self, workload: Workload, places: NodeCandidates, column: int) -> Cost | None:
        place = places.at(column)
        if not any(self._could_help(task, column, place) for task in workload.missing):
            return None
        clearance = self._preempt_on_node(workload, places, column)
        return self._cost(clearance.victims, column) if clearance else None

    def _preempt_on_node(
        self, workload: Workload, places: NodeCandidates, column: int
    ) -> PreemptionResult | None:
        """Room on one node."""
        test = partial(self._node_test, workload, column)
        return self._clear(places.at(column), NodeSpan(column, column + 1), test)

    def _preempt_gang(self, workload: Workload, all_candidates: Candidates) -> PreemptionResult | None:
        """Room anywhere in the pool for all of a gang's minimum."""
        span = self._snapshot.pools[workload.pool].span
        test = partial(GangFitTest, self._filters, span, workload)
        return self._clear(all_candidates, span, test) if all_candidates else None

    def _clear(
        self, place: Candidates, span: NodeSpan, make_test: Callable[[], FitTest]
    ) -> PreemptionResult | None:
        """Who must leave a place; an elastic workload gives nothing below an instance that does not help."""
        given: dict[Workload, int] = {}
        while True:
            units, test = self._units(place, span, given), make_test()
            with self._ledger.attempt():
                victims = self._reprieve(units, test)
                if victims is None:
                    return None
                useless = _misordered_surplus(units, victims)
                if not useless:
                    return PreemptionResult(victims, test.placed())
            given |= useless

    def _units(self, place: Candidates, span: NodeSpan, given: dict[Workload, int]) -> list[EvictionUnit]:
        """What could leave a place, in the order of being put back; `given` limits who gives what extras."""
        units: list[EvictionUnit] = []
        for candidate, tasks in place:
            most = given.get(candidate.workload, len(candidate.surplus))
            run = list(takewhile(lambda extra: extra[1].column in span, candidate.surplus[:most]))
            units += eviction_units(candidate, tasks, run, self._releasing)
        return reprieve_order(units)

    def _sign(self, places: NodeCandidates, column: int) -> CostKey:
        """What the cost of clearing a node depends on; the node as it is now, if that is more than room."""
        units = self._units(places.at(column), NodeSpan(column, column + 1), {})
        special = self._budgets or self._ledger.inter_pod is not None
        if special or any(len(unit.tasks) > 1 for unit in units):
            return (next(self._versions),)
        victims = ((u.level, u.order, u.workload.priority, u.tasks[0].shape) for u in units)
        return (self._ledger.room[:, column].tobytes(), *victims)

    def _node_test(self, workload: Workload, column: int) -> FitTest:
        if is_uniform(workload):
            span = self._snapshot.pools[workload.pool].span
            return NodeFitTest(self._filters, span, workload.missing[0], column)
        return GangFitTest(self._filters, NodeSpan(column, column + 1), workload)

    def _could_help(self, task: Task, column: int, place: Candidates) -> bool:
        """Whether a node could have room for a task, were these gone."""
        leaving = {other for _, tasks in place for other in tasks}
        leaving |= {e for candidate, _ in place for _, e in candidate.surplus if e.column == column}
        demand = self._ledger.demand(task.shape)
        grew = sum(self._ledger.demand(other.shape).vector for other in leaving)
        room = self._ledger.room[:, column] + grew
        enough = all(room[row] >= n for row, n in zip(demand.rows, demand.amounts, strict=True))
        return enough and bool(self._filters.suitable(task)[column])

    def _reprieve(self, units: list[EvictionUnit], test: FitTest) -> list[EvictionUnit] | None:
        """Take all out and put back as many as the test bears; who stays out, or None if it is in vain."""
        tasks = [task for unit in units for task in unit.tasks]
        self._ledger.remove_all(_occupants(tasks))
        test.refresh([task.column for task in tasks])
        if not test.fits():
            return None
        gone = set(self._reprieve_in_order(self._budget_violations_first(units), test))
        ruined = {unit.workload: unit for unit in units if unit.whole and unit in gone}
        surplus = [unit for unit in units if unit.workload in ruined and not unit.whole]
        victims = []
        for unit in units:
            if unit in gone and ruined.get(unit.workload, unit) is unit:
                victims += self._reprieve_tasks(_with_surplus(unit, surplus), test) if unit.whole else [unit]
        return sorted(victims, key=lambda unit: (-unit.level, unit.order))

    def _budget_violations_first(self, units: list[EvictionUnit]) -> list[EvictionUnit]:
        """Units whose leaving would violate a budget, then the others; a whole workload before its extras."""
        over = self._budgets.violating(task for unit in units for task in unit.tasks)
        guarded = {unit.workload for unit in units if not over.isdisjoint(unit.tasks)}

        def is_free(unit: EvictionUnit) -> bool:
            return unit.workload not in guarded if unit.whole else over.isdisjoint(unit.tasks)

        return sorted(units, key=is_free)

    def _reprieve_in_order(self, units: list[EvictionUnit], test: FitTest) -> list[EvictionUnit]:
        """Put units back one after another; who cannot.

        Most can, so they are tried by the handful: if all of a handful fit, each of them would have. Where so
        many alike found no room on a node, as many or more find none after them. Who loses its minimum keeps
        no extras.
        """
        victims: list[EvictionUnit] = []
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

    def _reprieve_tasks(self, victim: EvictionUnit, test: FitTest) -> list[EvictionUnit]:
        """What of a whole workload must really leave, if the rest of it can go on."""
        before = test.last_fit
        with self._ledger.attempt() as attempt:
            back = [task for task in victim.tasks if self._put_back((task,), test)]
            leaving = [task for task in victim.tasks if task not in set(back)]
            if back and keeps_minimum(victim.workload, self._releasing, without=leaving):
                attempt.keep()
                return [replace(victim, tasks=(task,), whole=False) for task in leaving]
        test.last_fit = before
        test.refresh([task.column for task in victim.tasks])
        return [victim]

    def _put_back(self, tasks: Sequence[Task], test: FitTest) -> bool:
        columns = [task.column for task in tasks]
        with self._ledger.attempt() as attempt:
            self._ledger.add_all(_occupants(tasks))
            test.refresh(columns)
            if test.fits():
                attempt.keep()
                return True
        test.refresh(columns)
        return False

    def _cost(self, victims: list[EvictionUnit], column: int) -> Cost:
        tasks = [task for unit in victims for task in unit.tasks]
        home = [unit for unit in victims if unit.level is VictimLevel.HOME]
        priorities = [unit.workload.priority for unit in home for _ in unit.tasks]
        return (
            len(self._budgets.violating(tasks)),
            max((unit.level for unit in victims), default=VictimLevel.FOREIGN),
            max(priorities, default=0),
            sum(max(priority, 0) for priority in priorities),
            len(tasks),
            max((unit.order for unit in victims), default=NO_RECLAIM_ORDER),
            column,
        )


def _occupants(tasks: Iterable[Task]) -> list[Occupant]:
    return [Occupant(task.column, task.shape, task.identity) for task in tasks]


def _with_surplus(whole: EvictionUnit, surplus: Iterable[EvictionUnit]) -> EvictionUnit:
    """All of a workload that goes whole, its extra instances too."""
    leaving = {*whole.tasks, *(task for u in surplus if u.workload is whole.workload for task in u.tasks)}
    tasks = tuple(task for task in whole.workload.placed if task in leaving)
    return replace(whole, tasks=tasks)


def _misordered_surplus(units: list[EvictionUnit], victims: list[EvictionUnit]) -> dict[Workload, int]:
    """Who would lose an extra instance from below one that stays, and how many are above that one."""
    leaving = {task for unit in victims for task in unit.tasks}
    ruined = {unit.workload for unit in victims if unit.level is VictimLevel.HOME}
    rows: defaultdict[Workload, list[bool]] = defaultdict(list)
    for unit in sorted((u for u in units if u.level is VictimLevel.EXTRA), key=lambda unit: unit.order):
        rows[unit.workload].append(unit.tasks[0] in leaving)
    return {
        workload: row.index(False)
        for workload, row in rows.items()
        if workload not in ruined and False in row and True in row[row.index(False) :]
    }
