"""Aftermath: the room that a plan leaves, and the room there was at somebody's turn, as a ledger.

A cycle keeps its ledger to itself. Whoever wants to explain its plan, or to ask what else would have fitted,
makes the ledger again from the plan's decisions.

What if: cheap questions to the room that a plan leaves, asked before anything is planned anew.

Would the workload fit if a node had more, or if somebody else were gone? Answers hold for the room alone.
What the others would do with it only a plan can tell, so an answer is where to look, not what to promise.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from shoal.engine.nodes import NodeSpan
from shoal.engine.placement import Placer
from shoal.engine.resources import Amounts
from shoal.engine.workload import Shape, Task, Workload
from shoal.explain.aftermath import Aftermath
from shoal.explain.holders import Party

_MOST: Final = 10**15
"""More than a node may have of anything, in counted units: what comes to that is no advice."""


class Addition(msgspec.Struct, frozen=True, eq=False):
    """What one node would need to have more of.

    `cost` is relative to what is asked for. It is `modest` if it is no more than the node has already.
    """

    cost: float
    column: int
    amounts: dict[str, int]
    modest: bool


class WhatIf:
    """Asks for what a workload lacks: its minimum, or `whole`, all that is missing."""

    def __init__(self, aftermath: Aftermath, *, whole: bool) -> None:
        """Ask about the room that is left."""
        self._aftermath, self._workload, self._whole = aftermath, aftermath.workload, whole
        self.snapshot, self.filters = aftermath.snapshot, aftermath.after()
        self._ledger = self.filters.ledger
        self._pick = aftermath.missing
        self.goal = aftermath.missing if whole else aftermath.minimum_tasks
        self._need = sum(task.varying for task in self.goal)

    def pools(self) -> list[int]:
        """Where it could be placed: at home, or with those who may lend to it."""
        lends = self._workload.may_borrow and not self._aftermath.seated
        return [self._workload.pool, *(self.snapshot.pools[self._workload.pool].lenders if lends else ())]

    def fits(self, pool: int) -> bool:
        """Whether what it lacks fits a pool, now or once those who are leaving have left."""
        if self._fits(pool):
            return True
        with self._cleared(pool) as cleared:
            return cleared and self._fits(pool)

    def fits_without(self, parties: Iterable[Party], pool: int) -> bool:
        """Whether what it lacks fits a pool if some were gone."""
        with self.gone(parties):
            return self.fits(pool)

    @contextmanager
    def gone(self, parties: Iterable[Party]) -> Iterator[None]:
        """As long as this lasts, some are not there."""
        with self._ledger.attempt():
            for party in parties:
                for seat in party.seats:
                    self._ledger.remove(seat)
                for promise in party.kept:
                    self._ledger.release(promise)
            yield

    def rest(self, pool: int) -> list[Task]:
        """What of it finds no room in a pool, if the others took what they could."""
        with self._ledger.attempt():
            return self._rest(pool)

    def additions(self, pool: int, most: int) -> list[Addition]:
        """What single nodes of a pool would need to have more of, now or once those who leave have left."""
        found = self._additions(pool, most)
        with self._cleared(pool) as cleared:
            return [*found, *(self._additions(pool, most) if cleared else ())]

    def lacking_on(self, node: str) -> dict[str, int]:
        """What one node would need to have more of; nothing where that is not the point."""
        column = self.snapshot.nodes.columns[node]
        for pool in self.pools():
            span = self.snapshot.pools[pool].span
            if column in span:
                found = (one for one in self._additions(pool, len(span)) if one.column == column)
                return next((one.amounts for one in found), {})
        return {}

    def bins(self, pool: int, column: int) -> int | None:
        """How many empty nodes like one would seem to be enough, for it and for those who would take of them.

        None if the node could not hold each of its tasks.
        """
        rest = self.rest(pool)
        if not all(self._holds(shape, column) for shape in dict.fromkeys(task.shape for task in rest)):
            return None
        ahead = [(self._bins(w.minimum_tasks, column), w.missing) for w in self._ahead(pool)]
        count, more = 0, self._bins(rest, column)
        while more > count:
            count = more
            rivals = [task for least, tasks in ahead if least <= count for task in tasks]
            more = self._bins([*rivals, *rest], column)
        return count

    def _bins(self, tasks: Iterable[Task], column: int) -> int:
        """How many empty nodes like one hold tasks that are put there one after another."""
        room = self.snapshot.nodes.alloc[:, column]
        left, used = room.copy(), 1
        for demand in (self._ledger.demand(task.shape).vector for task in tasks):
            if (demand > left).any():
                left, used = room.copy(), used + 1
            left = np.maximum(left - demand, 0)
        return used

    def _ahead(self, pool: int) -> list[Workload]:
        """Who else waits in a pool and is served first."""
        order = list(self._aftermath.plan.verdicts.items())
        own = next((n for n, (workload, _) in enumerate(order) if workload is self._workload), len(order))
        return [workload for workload, verdict in order[:own] if verdict.waiting and workload.pool == pool]

    def _holds(self, shape: Shape, column: int) -> bool:
        """Whether a node could take a task if it were empty and well."""
        nodes, rules = self.snapshot.nodes, shape.nodes
        suits = nodes.selected(rules)[column] and nodes.tolerated(rules, ignore_transient=True)[column]
        return bool(suits and (self._ledger.demand(shape).vector <= nodes.alloc[:, column]).all())

    def _fits(self, pool: int) -> bool:
        with self._ledger.attempt():
            return self._placer(pool).place(self._pick, self._need, minimum_only=True).placed is not None

    @contextmanager
    def _cleared(self, pool: int) -> Iterator[bool]:
        """As long as this lasts, those who are leaving have left, if that may count.

        Room that becomes free is kept for minimums only, and only at home.
        """
        span = self.snapshot.pools[pool].span
        counts = not self._whole and pool == self._workload.pool
        leaving = [one for one in self._aftermath.leaving if counts and one.column in span]
        with self._ledger.attempt():
            for occupant in leaving:
                self._ledger.remove(occupant)
            yield bool(leaving)

    def _rest(self, pool: int) -> list[Task]:
        """What of it finds no room in a pool; the others stand in the ledger from now on."""
        willing = {replace(task, varying=True, follows=False): task for task in self.goal}
        placed = self._placer(pool).place(list(willing), 0).placed or []
        there = {willing[copy] for copy, _ in placed}
        return [task for task in self.goal if task not in there]

    def _additions(self, pool: int, most: int) -> list[Addition]:
        span = self.snapshot.pools[pool].span
        with self._ledger.attempt():
            rest = self._rest(pool)
            if not rest or not len(span):
                return []
            asked, room = self._sum(rest), self._ledger.room[:, span.columns]
            lack = np.where(asked[:, None] > 0, np.maximum(asked[:, None] - room, 0), 0)
            cost = (lack / np.maximum(self._sum(self.goal), 1)[:, None]).sum(axis=0)
            good = np.logical_and.reduce(
                [(lack < _MOST).all(axis=0), *(self.filters.allowed(t, span) for t in rest)]
            )
        cost = np.where(good, cost, np.inf)
        order = np.argsort(cost, kind="stable")[:most]
        return [self._addition(span, int(i), lack, float(cost[i])) for i in order if cost[i] < np.inf]

    def _addition(self, span: NodeSpan, index: int, lack: Amounts, cost: float) -> Addition:
        names, column = self.snapshot.nodes.layout.names, span.start + index
        amounts = {names[row]: int(n) for row, n in enumerate(lack[:, index]) if n}
        modest = bool((lack[:, index] <= self.snapshot.nodes.alloc[:, column]).all())
        return Addition(cost, column, amounts, modest)

    def _placer(self, pool: int) -> Placer:
        span = self.snapshot.pools[pool].span
        return Placer(self.filters, span, self._workload.placement, self._aftermath.seated)

    def _sum(self, tasks: Iterable[Task]) -> Amounts:
        """What tasks ask for together; more than anybody has counts as just that."""
        vectors = [self._ledger.demand(task.shape).vector.astype(float) for task in tasks]
        total: Amounts = np.minimum(np.sum(vectors, axis=0), _MOST).astype(np.int64)
        return total
