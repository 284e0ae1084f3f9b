"""Preemption: finds the victims whose eviction makes room in the home pool, at the least cost.

For one task it is enough to clear one node: the one whose victims cost least. A gang needs room on many
nodes: all candidates are removed, the gang is placed, and the candidates that it can do without are reprieved
(put back). Either way, as many as possible are reprieved: no remaining victim could be put back without
taking the room away again.
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
"""The cost of victims, as a sort key.

In this order: violated budgets, the highest level, the highest priority at home, the sum of these priorities,
the number of tasks, the last reclaim order of a surplus instance, and the node's column.
"""


class PreemptionResult(msgspec.Struct, frozen=True, eq=False):
    """The victims, and where the tasks of the preempting workload go."""

    victims: list[EvictionUnit]
    placed: Placed


class Preemption:
    """Finds room for workloads in their home pools."""

    def __init__(self, snapshot: Snapshot, filters: Filters, releasing: Releasing) -> None:
        """Place by the filters; evictions of this cycle so far are in `releasing`."""
        self._snapshot, self._filters, self._ledger = snapshot, filters, filters.ledger
        self._releasing, self._budgets = releasing, releasing.budgets
        self._node_candidates: dict[tuple[int, int, bool], NodeCandidates] = {}
        self._seen_versions: dict[tuple[int, int, bool], tuple[int, int]] = {}
        self._costs: defaultdict[Shape, dict[CostKey, Cost | None]] = defaultdict(dict)
        self._unique_keys = count()

    def find_victims(
        self, workload: Workload, protected: Collection[Workload], *, surplus_only: bool
    ) -> PreemptionResult | None:
        """The victims whose eviction makes room for the minimum of a workload; None if there are none.

        Workloads in `protected` are no candidates. With `surplus_only`, only surplus instances of elastic
        workloads are. Nothing is evicted for a gang whose pods do not all exist.
        """
        if workload.incomplete:
            return None
        node_candidates = self._candidates_for(workload, protected, surplus_only=surplus_only)
        if len(workload.minimum_tasks) == 1:
            return self._preempt_on_best_node(workload, node_candidates)
        return self._preempt_gang(workload, node_candidates.all_candidates())

    def _candidates_for(
        self, workload: Workload, protected: Collection[Workload], *, surplus_only: bool
    ) -> NodeCandidates:
        """The candidates for a workload; those that lost or got something since are evaluated again."""
        key = (workload.pool, workload.priority, surplus_only)
        evictions = len(self._releasing.evictions)
        if key not in self._node_candidates:
            evaluate = partial(self._evaluate, workload.priority, protected, surplus_only=surplus_only)
            span, candidates = (
                self._snapshot.pools[workload.pool].span,
                self._candidate_index.of(workload.pool),
            )
            self._node_candidates[key] = NodeCandidates(span, candidates, evaluate)
        elif self._seen_versions[key] != (evictions, len(protected)):
            evicted = (
                eviction.workload for eviction in self._releasing.evictions[self._seen_versions[key][0] :]
            )
            self._node_candidates[key].update({*evicted, *protected})
        self._seen_versions[key] = evictions, len(protected)
        return self._node_candidates[key]

    def _evaluate(
        self,
        priority: int,
        protected: Collection[Workload],
        candidate: VictimCandidate,
        *,
        surplus_only: bool,
    ) -> VictimCandidate | None:
        """What a candidate could lose to a workload of a priority; None if nothing."""
        victim = candidate.workload
        if victim in protected:
            return None
        free = not surplus_only and (candidate.borrower or victim.priority < priority)
        gives_surplus = victim.elastic and not candidate.borrower and victim.priority <= priority
        surplus = self._surplus(victim) if gives_surplus else ()
        if free and not surplus and victim not in self._releasing:
            return candidate
        tasks = (
            tuple(task for task in candidate.tasks if task not in self._releasing.evicted_tasks)
            if free
            else ()
        )
        return replace(candidate, tasks=tasks, surplus=surplus) if tasks or surplus else None

    def _surplus(self, victim: Workload) -> tuple[tuple[ReclaimOrder, Task], ...]:
        """The surplus instances of a workload at home, from the highest to the last in its pool."""
        span = self._snapshot.pools[victim.pool].span
        surplus = surplus_of(victim, self._releasing, self._ranks[victim])
        return tuple(takewhile(lambda instance: instance[1].column in span, surplus))

    @cached_property
    def _ranks(self) -> dict[Workload, int]:
        return growth_ranks(workload for workload in self._snapshot.workloads if workload.elastic)

    @cached_property
    def _candidate_index(self) -> CandidateIndex:
        return CandidateIndex(self._snapshot)

    def _preempt_on_best_node(
        self, workload: Workload, node_candidates: NodeCandidates
    ) -> PreemptionResult | None:
        """Make room for one task on the node whose victims cost least."""
        span = self._snapshot.pools[workload.pool].span
        node_candidates.regroup(self._ledger.room[:, span.columns], partial(self._cost_key, node_candidates))
        costs = (
            self._costs_by_key(workload, node_candidates)
            if is_uniform(workload)
            else self._node_costs(workload, node_candidates)
        )
        best = min(costs, default=None)
        return None if best is None else self._preempt_on_node(workload, node_candidates, best[-1])

    def _node_costs(self, workload: Workload, node_candidates: NodeCandidates) -> Iterator[Cost]:
        """The cost of each node on which preemption makes room for a workload."""
        for column in chain.from_iterable(node_candidates.by_cost_key.values()):
            cost = self._cost_of(workload, node_candidates, column)
            if cost:
                yield cost

    def _costs_by_key(self, workload: Workload, node_candidates: NodeCandidates) -> Iterator[Cost]:
        """The cost of the first suitable node of each cost key.

        Without budgets and inter-pod rules the cost depends only on shape and key, and is kept for later
        workloads.
        """
        task = workload.missing[0]
        suitable = self._filters.suitable(task)
        reusable = not self._budgets and self._ledger.inter_pod is None
        costs = self._costs[task.shape] if reusable else {}
        for cost_key, columns in node_candidates.by_cost_key.items():
            column = next((column for column in columns if suitable[column]), NO_NODE)
            if column == NO_NODE:
                continue
            if cost_key not in costs:
                costs[cost_key] = self._cost_of(workload, node_candidates, column)
            cost = costs[cost_key]
            if cost:
                yield (*cost[:-1], column)

    def _cost_of(self, workload: Workload, node_candidates: NodeCandidates, column: int) -> Cost | None:
        candidates = node_candidates.at(column)
        if not any(self._could_help(task, column, candidates) for task in workload.missing):
            return None
        result = self._preempt_on_node(workload, node_candidates, column)
        return self._cost(result.victims, column) if result else None

    def _preempt_on_node(
        self, workload: Workload, node_candidates: NodeCandidates, column: int
    ) -> PreemptionResult | None:
        """Make room on one node."""
        test = partial(self._node_test, workload, column)
        return self._find_victims(node_candidates.at(column), NodeSpan(column, column + 1), test)

    def _preempt_gang(self, workload: Workload, candidates: Candidates) -> PreemptionResult | None:
        """Make room anywhere in the pool for all of a gang's minimum."""
        span = self._snapshot.pools[workload.pool].span
        test = partial(GangFitTest, self._filters, span, workload)
        return self._find_victims(candidates, span, test) if candidates else None

    def _find_victims(
        self, candidates: Candidates, span: NodeSpan, make_test: Callable[[], FitTest]
    ) -> PreemptionResult | None:
        """The victims among some candidates, within a span.

        An elastic workload loses its highest instances first. So if one of them stays, those below it are no
        longer candidates, and the search is repeated.
        """
        surplus_limits: dict[Workload, int] = {}
        while True:
            units, test = self._units(candidates, span, surplus_limits), make_test()
            with self._ledger.attempt():
                victims = self._reprieve(units, test)
                if victims is None:
                    return None
                misordered = _misordered_surplus(units, victims)
                if not misordered:
                    return PreemptionResult(victims, test.placed())
            surplus_limits |= misordered

    def _units(
        self, candidates: Candidates, span: NodeSpan, surplus_limits: dict[Workload, int]
    ) -> list[EvictionUnit]:
        """What could be evicted, in the order of reprieve; `surplus_limits` bounds surplus by workload."""
        units: list[EvictionUnit] = []
        for candidate, tasks in candidates:
            most = surplus_limits.get(candidate.workload, len(candidate.surplus))
            surplus = list(takewhile(lambda instance: instance[1].column in span, candidate.surplus[:most]))
            units += eviction_units(candidate, tasks, surplus, self._releasing)
        return reprieve_order(units)

    def _cost_key(self, node_candidates: NodeCandidates, column: int) -> CostKey:
        """What the cost of clearing a node depends on; unique if it depends on more than this node."""
        units = self._units(node_candidates.at(column), NodeSpan(column, column + 1), {})
        is_unique = self._budgets or self._ledger.inter_pod is not None
        if is_unique or any(len(unit.tasks) > 1 for unit in units):
            return (next(self._unique_keys),)
        victims = ((u.level, u.order, u.workload.priority, u.tasks[0].shape) for u in units)
        return (self._ledger.room[:, column].tobytes(), *victims)

    def _node_test(self, workload: Workload, column: int) -> FitTest:
        if is_uniform(workload):
            span = self._snapshot.pools[workload.pool].span
            return NodeFitTest(self._filters, span, workload.missing[0], column)
        return GangFitTest(self._filters, NodeSpan(column, column + 1), workload)

    def _could_help(self, task: Task, column: int, candidates: Candidates) -> bool:
        """Whether a node could have room for a task without these candidates."""
        leaving = {other for _, tasks in candidates for other in tasks}
        leaving |= {e for candidate, _ in candidates for _, e in candidate.surplus if e.column == column}
        demand = self._ledger.demand(task.shape)
        released = sum(self._ledger.demand(other.shape).vector for other in leaving)
        room = self._ledger.room[:, column] + released
        enough = all(room[row] >= n for row, n in zip(demand.rows, demand.amounts, strict=True))
        return enough and bool(self._filters.suitable(task)[column])

    def _reprieve(self, units: list[EvictionUnit], test: FitTest) -> list[EvictionUnit] | None:
        """Remove all units and put back as many as possible; returns the victims, None if all is in vain."""
        tasks = [task for unit in units for task in unit.tasks]
        self._ledger.remove_all(_occupants(tasks))
        test.refresh([task.column for task in tasks])
        if not test.fits():
            return None
        evicted = set(self._reprieve_in_order(self._budget_violations_first(units), test))
        losing_minimum = {unit.workload: unit for unit in units if unit.whole and unit in evicted}
        surplus = [unit for unit in units if unit.workload in losing_minimum and not unit.whole]
        victims = []
        for unit in units:
            if unit in evicted and losing_minimum.get(unit.workload, unit) is unit:
                victims += self._reprieve_tasks(_with_surplus(unit, surplus), test) if unit.whole else [unit]
        return sorted(victims, key=lambda unit: (-unit.level, unit.order))

    def _budget_violations_first(self, units: list[EvictionUnit]) -> list[EvictionUnit]:
        """Units whose eviction would violate a budget, then the others.

        A whole workload counts as violating if any of its units does, so that it precedes its surplus.
        """
        violating = self._budgets.violating(task for unit in units for task in unit.tasks)
        violating_workloads = {unit.workload for unit in units if not violating.isdisjoint(unit.tasks)}

        def is_free(unit: EvictionUnit) -> bool:
            return (
                unit.workload not in violating_workloads if unit.whole else violating.isdisjoint(unit.tasks)
            )

        return sorted(units, key=is_free)

    def _reprieve_in_order(self, units: list[EvictionUnit], test: FitTest) -> list[EvictionUnit]:
        """Put units back one after another; returns those that cannot be.

        Most can, so they are tried in batches: if a whole batch fits, each of its units would have. If a
        number of equal tasks found no room on a node, as many or more find none later. A workload that loses
        its minimum keeps no surplus.
        """
        victims: list[EvictionUnit] = []
        losing_minimum: set[Workload] = set()
        failed_counts: dict[tuple[int, Shape], int] = {}
        start, batch_size = 0, 1
        while start < len(units):
            batch = list(
                takewhile(lambda u: u.workload not in losing_minimum, units[start : start + batch_size])
            )
            first = units[start]
            spots = {(task.column, task.shape) for task in first.tasks}
            spot = spots.pop() if len(spots) == 1 else None
            if not batch or (spot in failed_counts and len(first.tasks) >= failed_counts[spot]):
                victims.append(first)
                start += 1
            elif self._put_back([task for unit in batch for task in unit.tasks], test):
                start += len(batch)
                batch_size *= 2
                continue
            elif len(batch) > 1:
                batch_size = len(batch) // 2
                continue
            else:
                victims.append(first)
                if spot:
                    failed_counts[spot] = len(first.tasks)
                start += 1
            if first.whole:
                losing_minimum.add(first.workload)
        return victims

    def _reprieve_tasks(self, victim: EvictionUnit, test: FitTest) -> list[EvictionUnit]:
        """The tasks of a whole workload that must really be evicted, if it keeps its minimum without them."""
        before = test.last_fit
        with self._ledger.attempt() as attempt:
            reprieved = [task for task in victim.tasks if self._put_back((task,), test)]
            leaving = [task for task in victim.tasks if task not in set(reprieved)]
            if reprieved and keeps_minimum(victim.workload, self._releasing, without=leaving):
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
            max((unit.level for unit in victims), default=VictimLevel.BORROWER),
            max(priorities, default=0),
            sum(max(priority, 0) for priority in priorities),
            len(tasks),
            max((unit.order for unit in victims), default=NO_RECLAIM_ORDER),
            column,
        )


def _occupants(tasks: Iterable[Task]) -> list[Occupant]:
    return [Occupant(task.column, task.shape, task.identity) for task in tasks]


def _with_surplus(whole: EvictionUnit, surplus: Iterable[EvictionUnit]) -> EvictionUnit:
    """A unit of a whole workload, extended by its surplus instances."""
    leaving = {*whole.tasks, *(task for u in surplus if u.workload is whole.workload for task in u.tasks)}
    tasks = tuple(task for task in whole.workload.placed if task in leaving)
    return replace(whole, tasks=tasks)


def _misordered_surplus(units: list[EvictionUnit], victims: list[EvictionUnit]) -> dict[Workload, int]:
    """Workloads that would lose a surplus instance below one that stays.

    The value is the number of surplus instances above the one that stays.
    """
    leaving = {task for unit in victims for task in unit.tasks}
    losing_minimum = {unit.workload for unit in victims if unit.level is VictimLevel.HOME}
    leaving_by_order: defaultdict[Workload, list[bool]] = defaultdict(list)
    for unit in sorted((u for u in units if u.level is VictimLevel.SURPLUS), key=lambda unit: unit.order):
        leaving_by_order[unit.workload].append(unit.tasks[0] in leaving)
    return {
        workload: in_order.index(False)
        for workload, in_order in leaving_by_order.items()
        if workload not in losing_minimum and False in in_order and True in in_order[in_order.index(False) :]
    }
