"""One cycle: every pool serves its queue, the rest borrows, and elastic workloads are resized."""

from typing import Any

from tests.reference.borrowing import borrowing_tasks, idle_after
from tests.reference.elastic import (
    cut_followers,
    cut_to_ceiling,
    grow,
    report_cooldown,
    restore_growth_reservations,
    surplus_of,
    use_growth_reservations,
)
from tests.reference.impossible import never_fits
from tests.reference.model import Workload
from tests.reference.placement import (
    Choice,
    all_fit,
    covers,
    place_all,
    place_minimum,
    place_nominated,
    place_rest,
)
from tests.reference.pools import borrows_first, lenders, preemption_allowed, preempts, shares
from tests.reference.rebalancing import rebalance
from tests.reference.state import CycleState, pool_reasons
from tests.reference.verdicts import evict_broken_gang, report
from tests.reference.victims import Preemption, by_importance

Object = dict[str, Any]


class CyclePhases(CycleState):
    """The phases of a cycle."""

    def run(self) -> Object:
        cut_to_ceiling(self)
        self._reserve_nominations()
        for pool, waiting in self.queues.items():
            for job in waiting:
                self._serve(pool, job)
        for job in self.all_in_order:
            self._serve_elsewhere(job)
        use_growth_reservations(self)
        grow(self)
        rebalance(self)
        cut_followers(self)
        for job in self.by_pool():
            evict_broken_gang(self, job)
            report_cooldown(self, job)
        listed = [one for jobs in self.queues.values() for one in report(self, jobs)]
        return {"placements": self.placements, "evictions": self.evictions, "jobs": listed}

    def _reserve_nominations(self) -> None:
        for job in self.by_pool():
            reserved_tasks = self._nominations(job)
            if reserved_tasks and all_fit(self.room_after_release, reserved_tasks):
                self.reserved_tasks[job.key] = reserved_tasks
                self.reserve(job, reserved_tasks)
        restore_growth_reservations(self)

    def _nominations(self, job: Workload) -> Choice:
        """The nominations of earlier cycles, if they still complete the minimum."""
        if job.held or job.minimum_met or self.where(job) != job.pool:
            return []
        nodes = {node["metadata"]["name"] for node in self.pools[job.pool]}
        reserved_tasks = [
            (task, task.nominated) for task in job.needing if task.nominated and task.nominated in nodes
        ]
        return reserved_tasks if covers(job, reserved_tasks) else []

    # --- serving one workload at home ---

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
        reserved_tasks = self.reserved_tasks.get(job.key, [])
        self.room.release(job.key)
        later = self.room_after_release
        choice = place_nominated(self.room, nodes, job, reserved_tasks) if reserved_tasks else None
        choice = choice or place_all(self.room, nodes, job)
        if choice is not None:
            self.place(home, job, choice)
            self._explain_rest(home, job)
            return
        if reserved_tasks and covers(job, reserved_tasks) and all_fit(later, reserved_tasks):
            self.nominate(job, reserved_tasks)
            return
        choice_after_release = place_minimum(later, nodes, job)
        if choice_after_release is not None:
            self.nominate(job, choice_after_release)
        elif borrows_first(self.world, home) or not self._preempt(job):
            self._give_up(home, job)

    def _give_up(self, pool: str, job: Workload, *, may_lend: bool = True) -> None:
        """Nothing now: add the reason."""
        why = "NoRoom" if job.minimum_met else self._why_not(pool, job, may_lend=may_lend)
        job.reasons.append(why)

    def _why_not(self, pool: str, job: Workload, *, may_lend: bool) -> str:
        if self._never_fits(job):
            return "NeverFits"
        nodes, free = self.pools[pool], self.room.without_reservations()
        soon = free.without_terminating() if pool == job.pool else free
        kept = place_all(free, nodes, job) or place_minimum(soon, nodes, job)
        return "Behind" if may_lend and kept else "NoRoom"

    def _never_fits(self, job: Workload) -> bool:
        if len(job.varying) < job.minimum:
            return False  # pods of the gang do not exist yet
        pools = [self.pools[name] for name in (job.pool, *lenders(self.world, job))]
        return any(pools) and all(never_fits(self.room, nodes, job) for nodes in pools if nodes)

    # --- preemption ---

    def _preempt(self, job: Workload) -> bool:
        """Nominate a workload without nodes to nodes from which others are evicted."""
        if job.placed or not preemption_allowed(self.world, job):
            return False
        result = self._preemption(job).find_victims(self.pools[job.pool])
        if result is None:
            return False
        for other, tasks, reason in result.victims:
            self.room.release(other.key)
            self.growing.pop(other.key, None)
            self.victims.add(other.key)
            self.evict(other, tasks, reason, job.key)
            lacks = other.elastic is None or not other.minimum_met
            other.reasons = [*pool_reasons(other), "NoRoom"] if lacks else pool_reasons(other)
        job.reasons = pool_reasons(job)
        self.nominate(job, result.choice)
        return True

    def _preemption(self, job: Workload) -> Preemption:
        """Candidates: borrowers, lower priorities at home, and surplus instances at home.

        Workloads for which this cycle has done anything are no candidates.
        """
        busy = {job.key, *self.placed, *self.nominated}
        able = [one for one in self.jobs if one.key not in busy and one.preemptible]
        others = [one for one in able if one.pool != job.pool or one.priority < job.priority]
        surplus_holders = [
            surplus_of(self, one) for one in able if one.pool == job.pool and one.priority <= job.priority
        ]
        return Preemption(
            room=self.room_after_release,
            job=job,
            others=by_importance(others if preempts(self.world, job.pool) else [], job.pool),
            surplus_holders=[one for one in surplus_holders if one is not None],
            budgets=self.budgets,
        )

    # --- borrowing ---

    def _serve_elsewhere(self, job: Workload) -> None:
        """Borrow for a workload that did not fit at home; complete one that runs in another pool there."""
        if job.held or not job.needing or job.key in self.victims or job.key in self.nominated:
            return
        where = self.where(job)
        if where != job.pool and job.key not in self.placed:
            self._complete(where, job)
        elif not job.placed and not job.minimum_met:
            self._borrow_or_preempt(job)

    def _borrow_or_preempt(self, job: Workload) -> None:
        if self._borrow(job) or not borrows_first(self.world, job.pool):
            return
        choice_after_release = place_minimum(self.room_after_release, self.pools[job.pool], job)
        if choice_after_release is None:
            self._preempt(job)
        else:
            job.reasons = pool_reasons(job)
            self.nominate(job, choice_after_release)

    def _complete(self, pool: str, job: Workload) -> None:
        """The rest of a workload, or what a broken gang lacks, in a pool that lends."""
        may_lend = job.preemptible and shares(self.world, pool) and not self.has_waiting(pool)
        if job.minimum_met and may_lend:
            self._serve_rest(pool, job)
            return
        choice = place_all(self.room, self.pools[pool], job) if may_lend else None
        if choice is not None:
            self.place(pool, job, choice)
            self._explain_rest(pool, job)
        else:
            self._give_up(pool, job, may_lend=may_lend)

    def _borrow(self, job: Workload) -> bool:
        offers = []
        for pool in lenders(self.world, job):
            nodes = self.pools[pool]
            choice = None if self.has_waiting(pool) else place_all(self.room, nodes, job)
            if choice is not None:
                borrowers = borrowing_tasks(pool, nodes, self.jobs)
                offers.append((-idle_after(self.room, nodes, choice), borrowers, pool, choice))
        if not offers:
            return False
        _, _, pool, choice = min(offers, key=lambda offer: offer[:3])
        job.reasons = pool_reasons(job)
        self.place(pool, job, choice)
        self._explain_rest(pool, job)
        return True
