"""One cycle: every pool serves its queue, what did not fit borrows, and every workload has a verdict."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.reference import kinds
from tests.reference.lending import foreign_tasks, idle_after
from tests.reference.model import Reservation, Room, Standing, Task, Workload
from tests.reference.objects import Input, is_finished, is_terminating, labels, moment, namespace, newest
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
from tests.reference.pools import (
    borrows_first,
    in_order,
    lenders,
    may_make_room,
    members,
    queue,
    send_home,
    share,
    shares,
)
from tests.reference.quantities import is_gpu, pod_requests
from tests.reference.victims import Bargain, budgets, by_importance, spend

Object = dict[str, Any]


def plan(objects: list[Object], config: Object | None = None, now: str | None = None) -> Object:
    """Plan one cycle of the world."""
    return _Cycle(_world(objects, config, now)).run()


def workloads(objects: list[Object], config: Object | None = None, now: str | None = None) -> list[Workload]:
    """The workloads of the world as they are before any plan, each with its home pool."""
    world = _world(objects, config, now)
    return _Cycle(world).jobs


def fits_without(objects: list[Object], config: Object, now: str, job: str, gone: set[str]) -> bool:
    """Whether the minimum of a workload fits its home pool when these pods are gone, and those that leave."""
    cycle = _Cycle(_world(objects, config, now))
    wanted = next(one for one in cycle.jobs if one.key == job)
    pods = {task for one in cycle.jobs for task in one.placed if f"{task.namespace}/{task.name}" in gone}
    room = cycle.room.without_terminating().without(pods)
    return place_minimum(room, cycle.pools[wanted.pool], wanted) is not None


def _world(objects: list[Object], config: Object | None, now: str | None) -> Input:
    return Input(objects, config or {}, moment(now) if now else newest(objects))


@dataclass
class _Cycle:
    world: Input
    placements: list[Object] = field(default_factory=list)
    evictions: list[Object] = field(default_factory=list)
    nominated: dict[str, Choice] = field(default_factory=dict)
    promised: dict[str, Choice] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)
    fitting: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pools = members(self.world)
        self.pool_of = {
            node["metadata"]["name"]: pool for pool, nodes in self.pools.items() for node in nodes
        }
        self.jobs = kinds.jobs(self.world) + kinds.loose(self.world)
        for job in self.jobs:
            send_home(self.world, job)
        self.room = Room(self.world.nodes, self._namespaces(), self._standing(), [])
        self.guards = budgets(self.world, self.room.standing)
        self.current = {job.key: sum(t.node is not None for t in job.varying) for job in self.jobs}

    def run(self) -> Object:
        queues = {pool: queue(self.world, pool, self.jobs) for pool in sorted(self.pools)}
        everybody = in_order(self.world, self.jobs)
        self._reserve_nominations([job for waiting in queues.values() for job in waiting])
        for pool, waiting in queues.items():
            for job in waiting:
                self._serve(pool, job)
        for job in everybody:
            self._serve_elsewhere(job)
        for job in [job for waiting in queues.values() for job in waiting]:
            self._let_go(job)
        listed = [one for waiting in queues.values() for one in self._report(waiting)]
        return {"placements": self.placements, "evictions": self.evictions, "jobs": listed}

    # --- the world as it is ---

    def _namespaces(self) -> dict[str, dict[str, str]]:
        return {one["metadata"]["name"]: labels(one) for one in self.world.of_kind("Namespace")}

    def _standing(self) -> list[Standing]:
        """Every pod on a node, of whoever, and every task that was given a node and has no pod there yet."""
        tasks = {(t.namespace, t.name): t for job in self.jobs for t in job.placed}
        pods = [pod for pod in self.world.pods if pod["spec"].get("nodeName") and not is_finished(pod)]
        standing = []
        for pod in pods:
            name, gone = (namespace(pod), pod["metadata"]["name"]), is_terminating(pod)
            task = None if gone else tasks.pop(name, None)
            spec = pod["spec"]
            standing.append(
                Standing(spec["nodeName"], name[0], labels(pod), spec, pod_requests(spec), gone, task)
            )
        return standing + [
            Standing(t.node, t.namespace, t.labels, t.spec, t.requests, task=t)
            for t in tasks.values()
            if t.node
        ]

    def _reserve_nominations(self, jobs: list[Workload]) -> None:
        for job in jobs:
            promised = self._nominations(job)
            if promised and all_fit(self.room.without_terminating(), promised):
                self.promised[job.key] = promised
                for task, node in promised:
                    self.room.reserve(job.key, task, node)

    def _nominations(self, job: Workload) -> Choice:
        """What earlier cycles promised, if it still makes the minimum whole."""
        if job.held or job.minimum_met or self._where(job) != job.pool:
            return []
        nodes = {node["metadata"]["name"] for node in self.pools[job.pool]}
        promised = [
            (task, task.nominated) for task in job.needing if task.nominated and task.nominated in nodes
        ]
        return promised if covers(job, promised) else []

    def _where(self, job: Workload) -> str:
        """The pool in which the rest of a workload goes: where its first placed task is, else its home."""
        first = job.placed[0].node if job.placed else None
        return self.pool_of[first] if first else job.pool

    # --- one workload's turn at home ---

    def _serve(self, home: str, job: Workload) -> None:
        if job.key in self.evicted:
            return
        if job.held:
            job.reasons.append("Held")
        elif not job.needing or self._where(job) != home:
            return
        elif job.minimum_met:
            self._serve_rest(home, job)
        else:
            self._serve_minimum(home, job)

    def _serve_rest(self, pool: str, job: Workload) -> None:
        self._place(pool, job, place_rest(self.room, self.pools[pool], job))
        self._explain_rest(pool, job)

    def _explain_rest(self, pool: str, job: Workload) -> None:
        if job.needing:
            kept = place_rest(self.room.without_reservations(), self.pools[pool], job)
            job.reasons.append("Behind" if kept else "NoRoom")

    def _serve_minimum(self, home: str, job: Workload) -> None:
        nodes = self.pools[home]
        promised = self.promised.get(job.key, [])
        self.room.lift(job.key)
        later = self.room.without_terminating()
        choice = place_nominated(self.room, nodes, job, promised) if promised else None
        if choice is None and promised and covers(job, promised) and all_fit(later, promised):
            self._nominate(job, promised)
            return
        choice = choice or place_all(self.room, nodes, job)
        if choice is not None:
            self._place(home, job, choice)
            self._explain_rest(home, job)
            return
        coming = place_minimum(later, nodes, job)
        if coming is not None:
            self._nominate(job, coming)
        elif borrows_first(self.world, home) or not self._make_room(job):
            self._give_up(home, job)

    def _place(self, pool: str, job: Workload, choice: Choice) -> None:
        for task, node in choice:
            task.node = node
            self.room.place(task, node)
            self.placed.add(job.key)
            self.placements.append(
                {
                    "pod": f"{task.namespace}/{task.name}",
                    "job": job.key,
                    "role": task.role,
                    "node": node,
                    "pool": pool,
                    "home": job.pool,
                    "borrowed": pool != job.pool,
                }
            )

    def _nominate(self, job: Workload, choice: Choice) -> None:
        self.nominated[job.key] = choice
        self.room.reserved += [Reservation(job.key, node, task.requests) for task, node in choice]
        job.reasons.append("WaitingForRoom")

    def _give_up(self, pool: str, job: Workload, *, welcome: bool = True) -> None:
        """Nothing now: say why."""
        why = "NoRoom" if job.minimum_met else self._why_not(pool, job, welcome=welcome)
        job.reasons.append(why)

    def _let_go(self, job: Workload) -> None:
        """At last: half a gang that could not be made whole in time is let go."""
        if job.minimum_met or job.held or job.key in self.evicted or job.key in self.nominated:
            return
        seconds = self.world.config.get("gangRecoverySeconds", 300)
        broken = job.broken_since or self.world.now
        late = self.world.now - broken >= timedelta(seconds=seconds)
        if job.placed and late and not self.world.config.get("disablePreemption"):
            self._evict(job, job.placed, "GangLost")

    def _why_not(self, pool: str, job: Workload, *, welcome: bool) -> str:
        if self._never_fits(job):
            return "NeverFits"
        nodes, free = self.pools[pool], self.room.without_reservations()
        soon = free.without_terminating() if pool == job.pool else free
        kept = place_all(free, nodes, job) or place_minimum(soon, nodes, job)
        return "Behind" if welcome and kept else "NoRoom"

    def _never_fits(self, job: Workload) -> bool:
        pools = [self.pools[name] for name in (job.pool, *lenders(self.world, job))]
        return any(pools) and not any(fits_empty(self.room, nodes, job) for nodes in pools)

    def _evict(self, job: Workload, tasks: list[Task], reason: str, **more: str) -> None:
        self.evicted.add(job.key)
        for task in tasks:
            pod = f"{task.namespace}/{task.name}"
            self.evictions.append({"pod": pod, "job": job.key, "node": task.node, "reason": reason, **more})
            task.node = None
            spend(self.guards, task)

    # --- making room ---

    def _make_room(self, job: Workload) -> bool:
        """Nominate a workload that has nothing yet to nodes from which others must go."""
        if job.placed or not may_make_room(self.world, job):
            return False
        deal = Bargain(
            room=self.room.without_terminating(), job=job, others=self._candidates(job), guards=self.guards
        ).deal(self.pools[job.pool])
        if deal is None:
            return False
        for other, tasks in deal.victims:
            self.room.lift(other.key)
            self.room.send_away(set(tasks))
            self._evict(
                other, tasks, "Preempted" if other.pool == job.pool else "Reclaimed", **{"for": job.key}
            )
            other.reasons = [*_told(other), "NoRoom"]
        job.reasons = _told(job)
        self._nominate(job, deal.choice)
        return True

    def _candidates(self, job: Workload) -> list[Workload]:
        """Strangers whatever their priority, and those at home with a lower one, but for whom this cycle
        has done anything."""
        busy = {job.key, *self.placed, *self.nominated, *self.evicted}
        able = [
            other
            for other in self.jobs
            if other.key not in busy
            and other.preemptible
            and (other.pool != job.pool or other.priority < job.priority)
        ]
        return by_importance(able, job.pool)

    # --- borrowing ---

    def _serve_elsewhere(self, job: Workload) -> None:
        """What did not fit at home asks others; what stands elsewhere is completed there."""
        if job.held or not job.needing or job.key in self.evicted or job.key in self.nominated:
            return
        where = self._where(job)
        if where != job.pool and job.key not in self.placed:
            self._complete(where, job)
        elif not job.placed and not job.minimum_met:
            self._borrow_or_make_room(job)

    def _borrow_or_make_room(self, job: Workload) -> None:
        if self._borrow(job) or not borrows_first(self.world, job.pool):
            return
        coming = place_minimum(self.room.without_terminating(), self.pools[job.pool], job)
        if coming is None:
            self._make_room(job)
        else:
            job.reasons = _told(job)
            self._nominate(job, coming)

    def _complete(self, pool: str, job: Workload) -> None:
        """The rest of a workload, or what half a gang lacks, in a pool that lends."""
        welcome = job.preemptible and shares(self.world, pool) and not self._has_waiting(pool)
        if job.minimum_met and welcome:
            self._serve_rest(pool, job)
            return
        choice = place_all(self.room, self.pools[pool], job) if welcome else None
        if choice is not None:
            self._place(pool, job, choice)
            self._explain_rest(pool, job)
        else:
            self._give_up(pool, job, welcome=welcome)

    def _borrow(self, job: Workload) -> bool:
        offers = []
        for pool in lenders(self.world, job):
            nodes = self.pools[pool]
            choice = None if self._has_waiting(pool) else place_all(self.room, nodes, job)
            if choice is not None:
                strangers = foreign_tasks(pool, nodes, self.jobs)
                offers.append((-idle_after(self.room, nodes, choice), strangers, pool, choice))
        if not offers:
            return False
        _, _, pool, choice = min(offers, key=lambda offer: offer[:3])
        job.reasons = _told(job)
        self._place(pool, job, choice)
        self._explain_rest(pool, job)
        return True

    def _has_waiting(self, pool: str) -> bool:
        return any(job.pool == pool and self._is_waiting(job) for job in self.jobs)

    # --- the verdicts ---

    def _report(self, jobs: list[Workload]) -> list[Object]:
        waiting = [job for job in jobs if self._is_waiting(job)]
        positions = {job.key: number for number, job in enumerate(waiting, start=1)}
        return [self._verdict(job, positions.get(job.key)) for job in jobs]

    def _is_waiting(self, job: Workload) -> bool:
        """Active, not failed, with an unmet minimum that would fit the pool if it were empty."""
        active = not job.held and not job.minimum_met and "NeverFits" not in job.reasons
        return active and self._fits_home(job)

    def _fits_home(self, job: Workload) -> bool:
        if job.key not in self.fitting:
            self.fitting[job.key] = fits_empty(self.room, self.pools[job.pool], job)
        return self.fitting[job.key]

    def _verdict(self, job: Workload, position: int | None) -> Object:
        nominated = {task.name: node for task, node in self.nominated.get(job.key, [])}
        return {
            "job": job.key,
            "state": self._state(job),
            "pool": job.pool,
            "priority": job.priority,
            "jobPriority": job.job_priority,
            "position": position,
            "share": float(share(self.world, job)),
            "min": job.minimum,
            "max": job.maximum,
            "current": self.current[job.key],
            "target": self._target(job, nominated),
            "allocation": {task.name: task.node for task in job.placed},
            "nominated": nominated,
            "reasons": [{"code": code} for code in job.reasons],
        }

    def _state(self, job: Workload) -> str:
        if not job.needing:
            return "ScheduledSucceed"
        if job.minimum_met:
            return "ScheduledPartly"
        return "ScheduledFailed" if "NeverFits" in job.reasons else "Unscheduled"

    def _target(self, job: Workload, nominated: dict[str, str]) -> int:
        """With a node or nominated; the pods of a waiting TrainingJob without GPUs are made anyway."""
        have = sum(task.node is not None or task.name in nominated for task in job.varying)
        on_cpus = job.kind == "TrainingJob" and not any(
            is_gpu(name) for t in job.varying for name in t.requests
        )
        return max(have, job.minimum) if on_cpus and self._state(job) == "Unscheduled" else have


def _told(job: Workload) -> list[str]:
    """What was said of the workload before its turn."""
    return [code for code in job.reasons if code == "WaitingForPool"]
