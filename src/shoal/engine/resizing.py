"""Resizing: cuts elastic workloads to their ceilings, lets them grow, and rebalances them.

Cutting is the first step of a cycle, so that the room it frees needs no other victims. Growing follows when
every minimum has been served, and rebalancing is last, in pools where no workload waits.
"""

from collections.abc import Collection, Iterable, Mapping

from shoal.api.quantity import parse_duration
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
    """Decides on the sizes of elastic workloads.

    `states` are the workloads that may be resized in this cycle, `placements` the tasks that they got beyond
    their minimums, and `cooling_down` those that were resized too recently to be resized again.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        filters: Filters,
        allocator: Allocator,
        config: SchedulerConfig,
        answers: CheckedAnswers,
    ) -> None:
        """Place by the filters; evict and reserve through the allocator."""
        self._snapshot, self._filters, self._allocator, self._config = snapshot, filters, allocator, config
        self._releasing, self.answers = allocator.releasing, answers
        self._cooldown = parse_duration(config.cooldown)
        self.states: dict[Workload, ElasticState] = {}
        self.placements: list[Placement] = []
        self.cooling_down: set[Workload] = set()

    def cut(self, workloads: Iterable[Workload]) -> None:
        """Evict the instances above the ceilings; finished ones do not count."""
        for workload in workloads:
            over = sum([task.varying for task in workload.placed]) - workload.ceiling
            if over > 0 and not workload.held:
                self._releasing.evict(workload, reversed(varying_tasks(workload.placed)[-over:]), "Shrunk")

    def resize(
        self, results: Mapping[Workload, ServeResult], queue: list[Workload], contended: Collection[int]
    ) -> None:
        """Let workloads grow, and rebalance them in pools that are not `contended`."""
        if not queue:
            return
        self._collect_states(results, queue)
        is_victim = self._releasing.is_victim
        active = {w: s for w, s in self.states.items() if w not in self.cooling_down and not is_victim(w)}
        by_policy = {w: s for w, s in active.items() if w.growth and w.growth.sized_by_policy}
        by_fulfilment = {w: s for w, s in active.items() if w not in by_policy}
        may_evict = not self._config.disable_preemption
        policy_sizes = PolicySizes(self._filters, self._allocator, self.answers)
        self.placements += policy_sizes.apply(by_policy, may_evict=may_evict)
        load = self._load(results)
        growable = [state for w, state in by_fulfilment.items() if w not in self._releasing]
        self.placements += Growing(self._filters, load, growable).run()
        if self._config.rebalance and may_evict:
            donors = {w: s for w, s in by_fulfilment.items() if w not in results or not results[w].placed}
            self._rebalance(by_fulfilment, donors, load, contended)
        for state in self.states.values():
            self._cut_followers(state)

    def _collect_states(self, results: Mapping[Workload, ServeResult], queue: list[Workload]) -> None:
        """Collect the workloads that have their minimum; reservations beyond it are used or kept."""
        reserved = {workload: self._allocator.use_growth_reservations(workload) for workload in queue}
        resizable = [w for w in queue if self._may_be_resized(w, results.get(w))]
        ranks = growth_ranks(resizable)
        for workload in resizable:
            fresh = [task for task, _ in results[workload].placed] if workload in results else []
            tasks = [*self._releasing.remaining(workload), *fresh]
            span = self._snapshot.pools[workload.pool].span
            self.states[workload] = ElasticState(workload, span, ranks[workload], tasks, reserved[workload])
            self.placements += [Placement(workload, *assignment) for assignment in reserved[workload][0]]
        self.cooling_down = {workload for workload in resizable if self._is_cooling_down(workload)}

    def _cut_followers(self, state: ElasticState) -> None:
        """Evict surplus followers, once the instances that they followed are gone."""
        workload, growth = state.workload, state.workload.growth
        if growth and growth.settled and workload not in self._releasing:
            leaving = state.surplus_followers()
            if leaving:
                self._releasing.evict(workload, leaving, "Shrunk")

    def _may_be_resized(self, workload: Workload, result: ServeResult | None) -> bool:
        """Whether a workload is not held and has its minimum, all in its home pool."""
        unmet = result.unmet if result else workload.unmet
        lost = workload in self._releasing and not keeps_minimum(workload, self._releasing, without=())
        if unmet or lost or workload.held:
            return False
        span = self._snapshot.pools[workload.pool].span
        fresh = result.placed if result else []
        columns = [task.column for task in self._releasing.remaining(workload)]
        columns += [column for _, column in fresh]
        return span.has_all(columns)

    def _is_cooling_down(self, workload: Workload) -> bool:
        """Whether the last resize of a workload is more recent than the cooldown."""
        growth = workload.growth
        if growth is None or growth.resized_at is None:
            return False
        return self._snapshot.now - growth.resized_at < self._cooldown

    def _load(self, results: Mapping[Workload, ServeResult]) -> LoadLimit:
        """The load limit, with all pods on nodes, those placed in this cycle, and reservations."""
        shapes = [task.shape for result in results.values() for task, _ in result.placed]
        shapes += [placement.task.shape for placement in self.placements]
        return LoadLimit(self._snapshot, self._config.max_load, [*shapes, *self._allocator.reserved_shapes()])

    def _rebalance(
        self,
        receivers: Mapping[Workload, ElasticState],
        donors: Mapping[Workload, ElasticState],
        load: LoadLimit,
        contended: Collection[int],
    ) -> None:
        ledger = self._filters.ledger
        for shape in self._releasing.released_shapes():
            load.add(shape, -1)
        for number, pool in enumerate(self._snapshot.pools):
            receiving = [s for w, s in receivers.items() if w.pool == number]
            donating = [s for w, s in donors.items() if w.pool == number and w.evictable and not s.grew]
            if number in contended or not receiving or not donating:
                continue
            with ledger.attempt():
                self._releasing.release(pool.span)
                transfers = Rebalancing(
                    self._filters, pool.span, load, receivers=receiving, donors=donating
                ).run()
            for transfer in transfers:
                self._releasing.evict(
                    transfer.donor.workload, [transfer.leaving], "Shrunk", transfer.receiver.workload
                )
                self._allocator.reserve(transfer.arriving, transfer.leaving.column)
