"""One cycle: every pool serves its queue, what did not fit borrows, and what is elastic finds its size."""

from typing import Any

from tests.reference.balance import rebalance
from tests.reference.growth import follow, giver, grow, keep_promises, reserve_promises, rest, to_own_size
from tests.reference.lending import foreign_tasks, idle_after
from tests.reference.model import Workload
from tests.reference.placing import (
    Choice,
    all_fit,
    covers,
    fits_empty,
    place_all,
    place_minimum,
    place_nominated,
    place_rest,
)
from tests.reference.pools import borrows_first, lenders, may_make_room, preempts, shares
from tests.reference.state import Cycle, told
from tests.reference.verdicts import let_go, report
from tests.reference.victims import Bargain, by_importance

Object = dict[str, Any]


class Turns(Cycle):
    """The phases of a cycle."""

    def run(self) -> Object:
        to_own_size(self)
        self._reserve_nominations()
        for pool, waiting in self.queues.items():
            for job in waiting:
                self._serve(pool, job)
        for job in self.everybody:
            self._serve_elsewhere(job)
        keep_promises(self)
        grow(self)
        rebalance(self)
        follow(self)
        for job in self.by_pool():
            let_go(self, job)
            rest(self, job)
        listed = [one for jobs in self.queues.values() for one in report(self, jobs)]
        return {"placements": self.placements, "evictions": self.evictions, "jobs": listed}

    def _reserve_nominations(self) -> None:
        for job in self.by_pool():
            promised = self._nominations(job)
            if promised and all_fit(self.waiting_room, promised):
                self.promised[job.key] = promised
                self.reserve(job, promised)
        reserve_promises(self)

    def _nominations(self, job: Workload) -> Choice:
        """What earlier cycles promised, if it still makes the minimum whole."""
        if job.held or job.minimum_met or self.where(job) != job.pool:
            return []
        nodes = {node["metadata"]["name"] for node in self.pools[job.pool]}
        promised = [
            (task, task.nominated) for task in job.needing if task.nominated and task.nominated in nodes
        ]
        return promised if covers(job, promised) else []

    # --- one workload's turn at home ---

    def _serve(self, home: str, job: Workload) -> None:
        if job.key in self.victims:
            return
        if job.held:
            job.reasons.append("Held")
        elif not job.needing or self.where(job) != home:
            return
        elif job.minimum_met:
            self._serve_rest(home, job)
        else:
            self._serve_minimum(home, job)

    def _serve_rest(self, pool: str, job: Workload) -> None:
        self.place(pool, job, place_rest(self.room, self.pools[pool], job))
        self._explain_rest(pool, job)

    def _explain_rest(self, pool: str, job: Workload) -> None:
        if job.needing:
            kept = place_rest(self.room.without_reservations(), self.pools[pool], job)
            job.reasons.append("Behind" if kept else "NoRoom")

    def _serve_minimum(self, home: str, job: Workload) -> None:
        nodes = self.pools[home]
        promised = self.promised.get(job.key, [])
        self.room.lift(job.key)
        later = self.waiting_room
        choice = place_nominated(self.room, nodes, job, promised) if promised else None
        if choice is None and promised and covers(job, promised) and all_fit(later, promised):
            self.nominate(job, promised)
            return
        choice = choice or place_all(self.room, nodes, job)
        if choice is not None:
            self.place(home, job, choice)
            self._explain_rest(home, job)
            return
        coming = place_minimum(later, nodes, job)
        if coming is not None:
            self.nominate(job, coming)
        elif borrows_first(self.world, home) or not self._make_room(job):
            self._give_up(home, job)

    def _give_up(self, pool: str, job: Workload, *, welcome: bool = True) -> None:
        """Nothing now: say why."""
        why = "NoRoom" if job.minimum_met else self._why_not(pool, job, welcome=welcome)
        job.reasons.append(why)

    def _why_not(self, pool: str, job: Workload, *, welcome: bool) -> str:
        if self._never_fits(job):
            return "NeverFits"
        nodes, free = self.pools[pool], self.room.without_reservations()
        soon = free.without_terminating() if pool == job.pool else free
        kept = place_all(free, nodes, job) or place_minimum(soon, nodes, job)
        return "Behind" if welcome and kept else "NoRoom"

    def _never_fits(self, job: Workload) -> bool:
        if len(job.varying) < job.minimum:
            return False  # pods of the gang are still to come
        pools = [self.pools[name] for name in (job.pool, *lenders(self.world, job))]
        return any(pools) and not any(fits_empty(self.room, nodes, job) for nodes in pools)

    # --- making room ---

    def _make_room(self, job: Workload) -> bool:
        """Nominate a workload that has nothing yet to nodes from which others must go."""
        if job.placed or not may_make_room(self.world, job):
            return False
        deal = self._bargain(job).deal(self.pools[job.pool])
        if deal is None:
            return False
        for other, tasks, reason in deal.victims:
            self.room.lift(other.key)
            self.growing.pop(other.key, None)
            self.victims.add(other.key)
            self.evict(other, tasks, reason, job.key)
            lacks = other.elastic is None or not other.minimum_met
            other.reasons = [*told(other), "NoRoom"] if lacks else told(other)
        job.reasons = told(job)
        self.nominate(job, deal.choice)
        return True

    def _bargain(self, job: Workload) -> Bargain:
        """Strangers whatever their priority, those at home with a lower one, and what elastic ones at home
        have above their minimum, but for whom this cycle has done anything."""
        busy = {job.key, *self.placed, *self.nominated}
        able = [one for one in self.jobs if one.key not in busy and one.preemptible]
        others = [one for one in able if one.pool != job.pool or one.priority < job.priority]
        givers = [giver(self, one) for one in able if one.pool == job.pool and one.priority <= job.priority]
        return Bargain(
            room=self.waiting_room,
            job=job,
            others=by_importance(others if preempts(self.world, job.pool) else [], job.pool),
            givers=[one for one in givers if one is not None],
            guards=self.guards,
        )

    # --- borrowing ---

    def _serve_elsewhere(self, job: Workload) -> None:
        """What did not fit at home asks others; what stands elsewhere is completed there."""
        if job.held or not job.needing or job.key in self.victims or job.key in self.nominated:
            return
        where = self.where(job)
        if where != job.pool and job.key not in self.placed:
            self._complete(where, job)
        elif not job.placed and not job.minimum_met:
            self._borrow_or_make_room(job)

    def _borrow_or_make_room(self, job: Workload) -> None:
        if self._borrow(job) or not borrows_first(self.world, job.pool):
            return
        coming = place_minimum(self.waiting_room, self.pools[job.pool], job)
        if coming is None:
            self._make_room(job)
        else:
            job.reasons = told(job)
            self.nominate(job, coming)

    def _complete(self, pool: str, job: Workload) -> None:
        """The rest of a workload, or what half a gang lacks, in a pool that lends."""
        welcome = job.preemptible and shares(self.world, pool) and not self.has_waiting(pool)
        if job.minimum_met and welcome:
            self._serve_rest(pool, job)
            return
        choice = place_all(self.room, self.pools[pool], job) if welcome else None
        if choice is not None:
            self.place(pool, job, choice)
            self._explain_rest(pool, job)
        else:
            self._give_up(pool, job, welcome=welcome)

    def _borrow(self, job: Workload) -> bool:
        offers = []
        for pool in lenders(self.world, job):
            nodes = self.pools[pool]
            choice = None if self.has_waiting(pool) else place_all(self.room, nodes, job)
            if choice is not None:
                strangers = foreign_tasks(pool, nodes, self.jobs)
                offers.append((-idle_after(self.room, nodes, choice), strangers, pool, choice))
        if not offers:
            return False
        _, _, pool, choice = min(offers, key=lambda offer: offer[:3])
        job.reasons = told(job)
        self.place(pool, job, choice)
        self._explain_rest(pool, job)
        return True
