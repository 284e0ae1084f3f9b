"""Preemption: finds the victims whose eviction makes room in the home pool, at the least cost.

For one task it is enough to clear one node: the one whose victims cost least. A gang needs room on many
nodes: all candidates are removed, the gang is placed, and the candidates that it can do without are reprieved
(put back). Either way, as many as possible are reprieved: no remaining victim could be put back without
taking the room away again.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, count, takewhile

import msgspec
from msgspec.structs import replace

from shoal.engine.elastic import growth_ranks
from shoal.engine.feasibility import FitTest, GangFitTest, NodeFitTest, is_uniform
from shoal.engine.filters import Filters
from shoal.engine.nodes import NodeSpan
from shoal.engine.placement import Placed
from shoal.engine.releasing import Releasing
from shoal.engine.reprieve import Reprieve
from shoal.engine.snapshot import Snapshot
from shoal.engine.victims import (
    NO_RECLAIM_ORDER,
    CandidateIndex,
    Candidates,
    CostKey,
    EvictionUnit,
    NodeCandidates,
    ReclaimOrder,
    Surplus,
    VictimCandidate,
    VictimLevel,
    eviction_units,
    extra_instances,
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
        extras = extra_instances(victim, self._releasing) if victim.elastic else ()
        surplus = () if candidate.borrower or victim.priority > priority else self._surplus(victim, extras)
        if not free:
            surplus = self._surplus_at_home(victim, surplus)
            return replace(candidate, tasks=(), surplus=surplus, extras=extras) if surplus else None
        if not extras and victim not in self._releasing:
            return candidate
        tasks = tuple(task for task in candidate.tasks if task not in self._releasing.evicted_tasks)
        return replace(candidate, tasks=tasks, surplus=surplus, extras=extras) if tasks else None

    def _surplus(self, victim: Workload, extras: Sequence[Task]) -> Surplus:
        return surplus_of(victim, extras, self._releasing, self._ranks[victim]) if extras else ()

    def _surplus_at_home(self, victim: Workload, surplus: Surplus) -> Surplus:
        """The surplus of a workload, from the highest instance to the last in its pool."""
        span = self._snapshot.pools[victim.pool].span
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

        A workload that can only lose surplus loses its highest instances first, and nothing more if one of
        them does not help. So if one of them stays, those below it are no longer candidates, and the search
        is repeated.
        """
        surplus_limits: dict[Workload, int] = {}
        while True:
            units, test = self._units(candidates, span, surplus_limits), make_test()
            with self._ledger.attempt():
                victims = Reprieve(self._ledger, self._releasing, units, test).victims()
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
            surplus = takewhile(lambda instance: instance[1].column in span, candidate.surplus[:most])
            units += eviction_units(candidate, tasks, tuple(surplus), self._releasing)
        return reprieve_order(units)

    def _cost_key(self, node_candidates: NodeCandidates, column: int) -> CostKey:
        """What the cost of clearing a node depends on; unique if it depends on more than this node."""
        units = self._units(node_candidates.at(column), NodeSpan(column, column + 1), {})
        is_unique = self._budgets or self._ledger.inter_pod is not None
        if is_unique or any(unit.whole and len(unit.tasks) > 1 for unit in units):
            return (next(self._unique_keys),)
        if any(unit.tasks[0].column != column for unit in units):
            return (next(self._unique_keys),)
        jobs: dict[Workload, int] = {}
        victims = (
            (
                unit.level,
                unit.order,
                unit.workload.priority,
                unit.tasks[0].shape,
                unit.extra and jobs.setdefault(unit.workload, len(jobs)),
            )
            for unit in units
        )
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


def _misordered_surplus(units: list[EvictionUnit], victims: list[EvictionUnit]) -> dict[Workload, int]:
    """Workloads that would lose a surplus instance below one that stays.

    The value is the number of surplus instances above the one that stays.
    """
    leaving = {task for unit in victims for task in unit.tasks}
    surplus = [unit for unit in units if unit.level is VictimLevel.SURPLUS and not unit.extra]
    leaving_by_order: defaultdict[Workload, list[bool]] = defaultdict(list)
    for unit in sorted(surplus, key=lambda unit: unit.order):
        leaving_by_order[unit.workload].append(unit.tasks[0] in leaving)
    return {
        workload: in_order.index(False)
        for workload, in_order in leaving_by_order.items()
        if False in in_order and True in in_order[in_order.index(False) :]
    }
