"""Resizing: elastic workloads are cut to their ceilings, grow by fulfilment, and are made equal.

Cutting comes first in a cycle, so that what it frees needs no other victims. Growing comes when every minimum
has been served, and rebalancing last, where nobody waits.
"""

from collections.abc import Collection, Iterable, Mapping

from shoal.api.quantity import seconds
from shoal.engine.allocator import Allocator, ServeResult
from shoal.engine.config import SchedulerConfig
from shoal.engine.elastic import ElasticState, growth_ranks, varying_tasks
from shoal.engine.filters import Filters
from shoal.engine.fulfilment import Growing, LoadLimit, Rebalancing
from shoal.engine.plan import Placement
from shoal.engine.policy_answers import CheckedAnswers
from shoal.engine.policy_sizes import PolicySizes
from shoal.engine.snapshot import Snapshot
from shoal.engine.victims import keeps_minimum
from shoal.engine.workload import Workload


class Resizing:
    """Decides on the sizes of elastic workloads."""

    def __init__(
        self,
        snapshot: Snapshot,
        filters: Filters,
        allocator: Allocator,
        config: SchedulerConfig,
        answers: CheckedAnswers,
    ) -> None:
        """Resize what the filters let through."""
        self._snapshot, self._filters, self._allocator, self._config = snapshot, filters, allocator, config
        self._releasing, self.answers = allocator.releasing, answers
        self._cooldown = seconds(config.cooldown)
        self.states: dict[Workload, ElasticState] = {}
        self.placements: list[Placement] = []
        self.cooling_down: set[Workload] = set()

    def cut(self, workloads: Iterable[Workload]) -> None:
        """Send away what is above the ceilings; those that have ended do not count, nobody goes for them."""
        for workload in workloads:
            over = sum([task.varying for task in workload.placed]) - workload.ceiling
            if over > 0 and not workload.held:
                self._releasing.evict(workload, reversed(varying_tasks(workload.placed)[-over:]), "Shrunk")

    def resize(
        self, results: Mapping[Workload, ServeResult], queue: list[Workload], crowded: Collection[int]
    ) -> None:
        """Let workloads grow, and make them equal in pools that are not crowded by those who wait."""
        if not queue:
            return
        self._gather(results, queue)
        victims = self._releasing.is_victim
        awake = {w: g for w, g in self.states.items() if w not in self.cooling_down and not victims(w)}
        told = {w: g for w, g in awake.items() if w.growth and w.growth.sized_by_policy}
        free = {w: g for w, g in awake.items() if w not in told}
        evicts = not self._config.disable_preemption
        following = PolicySizes(self._filters, self._allocator, self.answers)
        self.placements += following.apply(told, may_evict=evicts)
        load = self._load(results)
        growing = [state for w, state in free.items() if w not in self._releasing]
        self.placements += Growing(self._filters, load, growing).run()
        if self._config.rebalance and evicts:
            donors = {w: g for w, g in free.items() if w not in results or not results[w].placed}
            self._rebalance(free, donors, load, crowded)
        for state in self.states.values():
            self._cut_followers(state)

    def _gather(self, results: Mapping[Workload, ServeResult], queue: list[Workload]) -> None:
        """Find all that have their minimum; what they were promised they get, or it is kept on."""
        promised = {workload: self._allocator.use_growth_reservations(workload) for workload in queue}
        whole = [w for w in queue if self._may_be_resized(w, results.get(w))]
        places = growth_ranks(whole)
        for workload in whole:
            fresh = [task for task, _ in results[workload].placed] if workload in results else []
            tasks = [*self._releasing.remaining(workload), *fresh]
            span = self._snapshot.pools[workload.pool].span
            self.states[workload] = ElasticState(workload, span, places[workload], tasks, promised[workload])
            self.placements += [Placement(workload, *put) for put in promised[workload][0]]
        self.cooling_down = {workload for workload in whole if self._is_cooling_down(workload)}

    def _cut_followers(self, state: ElasticState) -> None:
        """Those who follow instances that are gone go after them, and not before."""
        workload, growth = state.workload, state.workload.growth
        if growth and growth.settled and workload not in self._releasing:
            leaving = state.surplus_followers()
            if leaving:
                self._releasing.evict(workload, leaving, "Shrunk")

    def _may_be_resized(self, workload: Workload, result: ServeResult | None) -> bool:
        """Whether a workload has its minimum, at home."""
        unmet = result.unmet if result else workload.unmet
        lost = workload in self._releasing and not keeps_minimum(workload, self._releasing, without=())
        if unmet or lost or workload.held:
            return False
        span = self._snapshot.pools[workload.pool].span
        fresh = result.placed if result else []
        columns = [task.column for task in workload.placed] + [column for _, column in fresh]
        return span.has_all(columns)

    def _is_cooling_down(self, workload: Workload) -> bool:
        """Whether a workload was resized a short while ago."""
        growth = workload.growth
        if growth is None or growth.resized_at is None:
            return False
        return self._snapshot.now - growth.resized_at < self._cooldown

    def _load(self, results: Mapping[Workload, ServeResult]) -> LoadLimit:
        """What all pods may use: those on nodes, those that got nodes, and those that room is kept for."""
        shapes = [task.shape for result in results.values() for task, _ in result.placed]
        shapes += [placement.task.shape for placement in self.placements]
        return LoadLimit(self._snapshot, self._config.max_load, [*shapes, *self._allocator.reserved_shapes()])

    def _rebalance(
        self,
        receivers: Mapping[Workload, ElasticState],
        donors: Mapping[Workload, ElasticState],
        load: LoadLimit,
        crowded: Collection[int],
    ) -> None:
        ledger = self._filters.ledger
        for shape in self._releasing.shapes():
            load.add(shape, -1)
        for number, pool in enumerate(self._snapshot.pools):
            taking = [g for w, g in receivers.items() if w.pool == number]
            giving = [g for w, g in donors.items() if w.pool == number and w.evictable and not g.grew]
            if number in crowded or not taking or not giving:
                continue
            with ledger.attempt():
                self._releasing.clear(pool.span)
                exchanges = Rebalancing(self._filters, pool.span, load, receivers=taking, donors=giving).run()
            for one in exchanges:
                self._releasing.evict(one.donor.workload, [one.leaving], "Shrunk", one.receiver.workload)
                self._allocator.reserve(one.arriving, one.leaving.column)
