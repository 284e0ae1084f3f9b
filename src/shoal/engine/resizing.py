"""Resizing: elastic workloads are cut to their ceilings, grow by fulfilment, and are made equal.

Cutting comes first in a cycle, so that what it frees needs no other victims. Growing comes when every minimum
has been served, and rebalancing last, where nobody waits.
"""

from collections.abc import Collection, Iterable, Mapping

from shoal.api.quantity import seconds
from shoal.engine.allocator import Service, Turn
from shoal.engine.config import SchedulerConfig
from shoal.engine.elastic import Grower, ranks, varying
from shoal.engine.filters import Filters
from shoal.engine.growing import Growing, Load
from shoal.engine.plan import Placement
from shoal.engine.policy_answers import Counsel
from shoal.engine.policy_sizes import Following
from shoal.engine.rebalancing import Rebalancing
from shoal.engine.snapshot import Snapshot
from shoal.engine.victims import keeps_minimum
from shoal.engine.workload import Workload


class Resizing:
    """Decides on the sizes of elastic workloads."""

    def __init__(
        self,
        snapshot: Snapshot,
        filters: Filters,
        service: Service,
        config: SchedulerConfig,
        counsel: Counsel,
    ) -> None:
        """Resize what the filters let through."""
        self._snapshot, self._filters, self._service, self._config = snapshot, filters, service, config
        self._departures, self.counsel = service.departures, counsel
        self._cooldown = seconds(config.cooldown)
        self.growers: dict[Workload, Grower] = {}
        self.placements: list[Placement] = []
        self.resting: set[Workload] = set()

    def cut(self, workloads: Iterable[Workload]) -> None:
        """Send away what is above the ceilings; those that have ended do not count, nobody goes for them."""
        for workload in workloads:
            over = sum([task.varying for task in workload.placed]) - workload.ceiling
            if over > 0 and not workload.held:
                self._departures.send(workload, reversed(varying(workload.placed)[-over:]), "Shrunk")

    def resize(self, turns: Mapping[Workload, Turn], queue: list[Workload], crowded: Collection[int]) -> None:
        """Let workloads grow, and make them equal in pools that are not crowded by those who wait."""
        if not queue:
            return
        self._gather(turns, queue)
        victims = self._departures.is_victim
        awake = {w: g for w, g in self.growers.items() if w not in self.resting and not victims(w)}
        told = {w: g for w, g in awake.items() if w.growth and w.growth.advised}
        free = {w: g for w, g in awake.items() if w not in told}
        evicts = not self._config.disable_preemption
        following = Following(self._filters, self._service, self.counsel)
        self.placements += following.follow(told, may_evict=evicts)
        load = self._load(turns)
        growing = [grower for w, grower in free.items() if w not in self._departures]
        self.placements += Growing(self._filters, load, growing).run()
        if self._config.rebalance and evicts:
            donors = {w: g for w, g in free.items() if w not in turns or not turns[w].placed}
            self._rebalance(free, donors, load, crowded)
        for grower in self.growers.values():
            self._cut_followers(grower)

    def _gather(self, turns: Mapping[Workload, Turn], queue: list[Workload]) -> None:
        """Find all that have their minimum; what they were promised they get, or it is kept on."""
        promised = {workload: self._service.use_promised(workload) for workload in queue}
        whole = [w for w in queue if self._may_be_resized(w, turns.get(w))]
        places = ranks(whole)
        for workload in whole:
            fresh = [task for task, _ in turns[workload].placed] if workload in turns else []
            tasks = [*self._departures.left(workload), *fresh]
            span = self._snapshot.pools[workload.pool].span
            self.growers[workload] = Grower(workload, span, places[workload], tasks, promised[workload])
            self.placements += [Placement(workload, *put) for put in promised[workload][0]]
        self.resting = {workload for workload in whole if self._rests(workload)}

    def _cut_followers(self, grower: Grower) -> None:
        """Those who follow instances that are gone go after them, and not before."""
        workload, growth = grower.workload, grower.workload.growth
        if growth and growth.settled and workload not in self._departures:
            leaving = grower.unled()
            if leaving:
                self._departures.send(workload, leaving, "Shrunk")

    def _may_be_resized(self, workload: Workload, turn: Turn | None) -> bool:
        """Whether a workload has its minimum, at home."""
        unmet = turn.unmet if turn else workload.unmet
        lost = workload in self._departures and not keeps_minimum(workload, self._departures, without=())
        if unmet or lost or workload.held:
            return False
        span = self._snapshot.pools[workload.pool].span
        fresh = turn.placed if turn else []
        columns = [task.column for task in workload.placed] + [column for _, column in fresh]
        return span.has_all(columns)

    def _rests(self, workload: Workload) -> bool:
        """Whether a workload was resized a short while ago."""
        growth = workload.growth
        if growth is None or growth.changed is None:
            return False
        return self._snapshot.now - growth.changed < self._cooldown

    def _load(self, turns: Mapping[Workload, Turn]) -> Load:
        """What all pods may use: those on nodes, those that got nodes, and those that room is kept for."""
        shapes = [task.shape for turn in turns.values() for task, _ in turn.placed]
        shapes += [placement.task.shape for placement in self.placements]
        return Load(self._snapshot, self._config.max_load, [*shapes, *self._service.reserved_shapes()])

    def _rebalance(
        self,
        receivers: Mapping[Workload, Grower],
        donors: Mapping[Workload, Grower],
        load: Load,
        crowded: Collection[int],
    ) -> None:
        ledger = self._filters.ledger
        for shape in self._departures.shapes():
            load.add(shape, -1)
        for number, pool in enumerate(self._snapshot.pools):
            taking = [g for w, g in receivers.items() if w.pool == number]
            giving = [g for w, g in donors.items() if w.pool == number and w.evictable and not g.gained]
            if number in crowded or not taking or not giving:
                continue
            with ledger.attempt():
                self._departures.clear(pool.span)
                exchanges = Rebalancing(self._filters, pool.span, load, receivers=taking, donors=giving).run()
            for one in exchanges:
                self._departures.send(one.donor.workload, [one.leaving], "Shrunk", one.receiver.workload)
                self._service.reserve(one.coming, one.leaving.column)
