"""Borrowing: room in other pools, for workloads that their own has none for.

A pool lends only what it has no use for itself: while nobody waits in it. Of several lenders the one is
chosen that keeps the largest part of what is asked for idle.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property

from shoal.engine.allocator import Allocator, ServeResult
from shoal.engine.feasibility import Feasibility
from shoal.engine.placement import Placed
from shoal.engine.queues import by_pool
from shoal.engine.resources import exact_sums
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Workload


class Borrowing:
    """Lends room to workloads, one after another."""

    def __init__(
        self, snapshot: Snapshot, allocator: Allocator, feasibility: Feasibility, waiting: Iterable[Workload]
    ) -> None:
        """`waiting` are those who wait for room in their own pools."""
        self._snapshot, self._allocator, self._feasibility = snapshot, allocator, feasibility
        self._waiting = {number: set(queue) for number, queue in by_pool(waiting).items()}
        self._numbers = {pool.name: number for number, pool in enumerate(snapshot.pools)}
        self._moves = 0
        self._idle_pools: tuple[tuple[int, int], set[int]] = ((-1, -1), set())

    def serve(self, workload: Workload) -> ServeResult | None:
        """What a workload gets from others; None if nothing."""
        if not workload.may_borrow:
            return None
        if workload.placed:
            return self._join(workload)
        idle = self._pools_to_lend()
        offers = [pool for pool in self._snapshot.pools[workload.pool].lenders if pool in idle]
        rated = [(rate, pool) for pool in offers if (rate := self._rate(workload, pool)) is not None]
        return self._move_in(workload, min(rated)[1]) if rated else None

    def _join(self, workload: Workload) -> ServeResult | None:
        """The rest of a workload follows those who are there already, as long as they are welcome."""
        pool = self._pool_of(workload.placed[0].column)
        if not self._snapshot.pools[pool].sharing or self._is_wanted(pool):
            return None
        return self._move_in(workload, pool)

    def _pools_to_lend(self) -> set[int]:
        """Pools with nodes in which nobody waits; worked out again when somebody moved in or must leave."""
        moment = self._moves, len(self._allocator.releasing.evictions)
        if self._idle_pools[0] != moment:
            numbers = [number for number, pool in enumerate(self._snapshot.pools) if len(pool.span)]
            self._idle_pools = moment, {number for number in numbers if not self._is_wanted(number)}
        return self._idle_pools[1]

    def _is_wanted(self, pool: int) -> bool:
        """Whether somebody waits for room in their own pool; those who must leave another will, too."""
        if self._waiting.get(pool):
            return True
        gone = [workload for workload in self._allocator.releasing.fully_evicted() if workload.pool == pool]
        self._feasibility.evaluate(gone)
        return any(self._feasibility.fits_home(workload) for workload in gone)

    def _move_in(self, workload: Workload, pool: int) -> ServeResult | None:
        result = self._allocator.serve_in_pool(workload, pool)
        if result is None:
            return None
        self._moves += 1
        self._guests[pool] += len(result.placed)
        self._waiting.get(workload.pool, set()).discard(workload)
        return self._allocator.record(result)

    def _rate(self, workload: Workload, pool: int) -> tuple[Fraction, int, str] | None:
        """How good an offer is, best first: what it leaves idle, how many guests there are, its name."""
        with self._allocator.ledger.attempt():
            result = self._allocator.serve_in_pool(workload, pool)
            if result is None:
                return None
            return -self._idle(result.placed, pool), self._guests[pool], self._snapshot.pools[pool].name

    def _idle(self, placed: Placed, pool: int) -> Fraction:
        """The smallest part that is left idle of any resource asked for."""
        ledger, columns = self._allocator.ledger, self._snapshot.pools[pool].span.columns
        names = sorted({name for task, _ in placed for name in task.shape.requests})
        rows = [ledger.nodes.layout.rows[name] for name in names]
        there, used = exact_sums(ledger.nodes.alloc[rows, columns]), exact_sums(ledger.used[rows, columns])
        return min((Fraction(t - u, t) for t, u in zip(there, used, strict=True)), default=Fraction(1))

    def _pool_of(self, column: int) -> int:
        return self._numbers[self._snapshot.nodes.pools[column]]

    @cached_property
    def _guests(self) -> Counter[int]:
        """How many tasks in each pool are at home elsewhere; counted once somebody could move in."""
        guests: Counter[int] = Counter()
        for workload in self._snapshot.workloads:
            for task in workload.placed:
                pool = self._pool_of(task.column)
                guests[pool] += pool != workload.pool
        return guests
