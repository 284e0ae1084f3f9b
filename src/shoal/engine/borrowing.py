"""Borrowing: room in other pools, for workloads that do not fit their home pool.

A pool lends only while no workload waits for room in it. Of several lenders the one is chosen that keeps the
largest idle fraction of the scarcest requested resource.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property

from shoal.engine.allocator import Allocator, ServeResult
from shoal.engine.feasibility import Feasibility
from shoal.engine.layout import exact_sums
from shoal.engine.placement import Placed
from shoal.engine.queues import by_pool
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Workload


class Borrowing:
    """Serves workloads from the pools of lenders, one after another."""

    def __init__(
        self, snapshot: Snapshot, allocator: Allocator, feasibility: Feasibility, waiting: Iterable[Workload]
    ) -> None:
        """`waiting` are the workloads that wait for room in their home pools."""
        self._snapshot, self._allocator, self._feasibility = snapshot, allocator, feasibility
        self._waiting = {number: set(queue) for number, queue in by_pool(waiting).items()}
        self._numbers = {pool.name: number for number, pool in enumerate(snapshot.pools)}
        self._borrowings = 0
        self._lendable: tuple[tuple[int, int], set[int]] = ((-1, -1), set())

    def serve(self, workload: Workload) -> ServeResult | None:
        """What a workload gets from other pools; None if nothing."""
        if not workload.may_borrow:
            return None
        if workload.placed:
            return self._join_placed_tasks(workload)
        lendable = self._lendable_pools()
        offers = [pool for pool in self._snapshot.pools[workload.pool].lenders if pool in lendable]
        rated = [(rate, pool) for pool in offers if (rate := self._rate_offer(workload, pool)) is not None]
        return self._borrow_from(workload, min(rated)[1]) if rated else None

    def _join_placed_tasks(self, workload: Workload) -> ServeResult | None:
        """Place missing tasks in the pool where the others run, while that pool lends."""
        pool = self._pool_of(workload.placed[0].column)
        if not self._snapshot.pools[pool].sharing or self._has_demand(pool):
            return None
        return self._borrow_from(workload, pool)

    def _lendable_pools(self) -> set[int]:
        """Pools with nodes in which no workload waits; recomputed after each borrowing and eviction."""
        version = self._borrowings, len(self._allocator.releasing.evictions)
        if self._lendable[0] != version:
            numbers = [number for number, pool in enumerate(self._snapshot.pools) if len(pool.span)]
            self._lendable = version, {number for number in numbers if not self._has_demand(number)}
        return self._lendable[1]

    def _has_demand(self, pool: int) -> bool:
        """Whether a workload waits for room in its home pool, or was evicted and will wait there."""
        if self._waiting.get(pool):
            return True
        evicted = [
            workload for workload in self._allocator.releasing.fully_evicted() if workload.pool == pool
        ]
        self._feasibility.evaluate(evicted)
        return any(self._feasibility.fits_home(workload) for workload in evicted)

    def _borrow_from(self, workload: Workload, pool: int) -> ServeResult | None:
        result = self._allocator.serve_in_pool(workload, pool)
        if result is None:
            return None
        self._borrowings += 1
        self._borrowers[pool] += len(result.placed)
        self._waiting.get(workload.pool, set()).discard(workload)
        return self._allocator.record(result)

    def _rate_offer(self, workload: Workload, pool: int) -> tuple[Fraction, int, str] | None:
        """Rating of a lender, smallest first: idle fraction (negated), number of borrowed tasks, name."""
        with self._allocator.ledger.attempt():
            result = self._allocator.serve_in_pool(workload, pool)
            if result is None:
                return None
            return (
                -self._idle_fraction(result.placed, pool),
                self._borrowers[pool],
                self._snapshot.pools[pool].name,
            )

    def _idle_fraction(self, placed: Placed, pool: int) -> Fraction:
        """The smallest fraction of any requested resource that stays idle in the pool."""
        ledger, columns = self._allocator.ledger, self._snapshot.pools[pool].span.columns
        names = sorted({name for task, _ in placed for name in task.shape.requests})
        rows = [ledger.nodes.layout.rows[name] for name in names]
        total, used = exact_sums(ledger.nodes.alloc[rows, columns]), exact_sums(ledger.used[rows, columns])
        return min((Fraction(t - u, t) for t, u in zip(total, used, strict=True)), default=Fraction(1))

    def _pool_of(self, column: int) -> int:
        return self._numbers[self._snapshot.nodes.pools[column]]

    @cached_property
    def _borrowers(self) -> Counter[int]:
        """The number of tasks in each pool whose home is another; counted when first needed."""
        borrowers: Counter[int] = Counter()
        for workload in self._snapshot.workloads:
            for task in workload.placed:
                pool = self._pool_of(task.column)
                borrowers[pool] += pool != workload.pool
        return borrowers
