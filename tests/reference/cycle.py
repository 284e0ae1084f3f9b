"""One cycle: every pool serves its queue, every workload gets its turn, and every one has a verdict."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tests.reference import kinds
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
from tests.reference.pools import lenders, members, queue, send_home, share
from tests.reference.quantities import is_gpu, pod_requests

Object = dict[str, Any]


def plan(objects: list[Object], config: Object | None = None, now: str | None = None) -> Object:
    """Plan one cycle of the world."""
    world = Input(objects, config or {}, moment(now) if now else newest(objects))
    return _Cycle(world).run()


def workloads(objects: list[Object], config: Object | None = None, now: str | None = None) -> list[Workload]:
    """The workloads of the world as they are before any plan."""
    world = Input(objects, config or {}, moment(now) if now else newest(objects))
    return kinds.jobs(world) + kinds.loose(world)


@dataclass
class _Cycle:
    world: Input
    placements: list[Object] = field(default_factory=list)
    evictions: list[Object] = field(default_factory=list)
    nominated: dict[str, Choice] = field(default_factory=dict)
    promised: dict[str, Choice] = field(default_factory=dict)

    def run(self) -> Object:
        self.pools = members(self.world)
        self.jobs = kinds.jobs(self.world) + kinds.loose(self.world)
        for job in self.jobs:
            send_home(self.world, job)
        self.room = Room(self.world.nodes, self._namespaces(), self._standing(), [])
        self.current = {job.key: sum(t.node is not None for t in job.varying) for job in self.jobs}
        queues = {pool: queue(self.world, pool, self.jobs) for pool in sorted(self.pools)}
        self._reserve_nominations([job for waiting in queues.values() for job in waiting])
        for pool, waiting in queues.items():
            for job in waiting:
                self._serve(pool, job)
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
        if job.held or job.minimum_met:
            return []
        nodes = {node["metadata"]["name"] for node in self.pools[job.pool]}
        promised = [
            (task, task.nominated) for task in job.needing if task.nominated and task.nominated in nodes
        ]
        return promised if covers(job, promised) else []

    # --- one workload's turn ---

    def _serve(self, home: str, job: Workload) -> None:
        if job.held:
            job.reasons.append("Held")
        elif not job.needing:
            return
        elif not self._is_at_home(home, job):
            self._give_up(home, job)
        elif job.minimum_met:
            self._serve_rest(home, job)
        else:
            self._serve_minimum(home, job)

    def _is_at_home(self, home: str, job: Workload) -> bool:
        """The rest of a workload goes where its first placed task is; away from home nobody lends (yet)."""
        nodes = {node["metadata"]["name"] for node in self.pools[home]}
        return not job.placed or job.placed[0].node in nodes

    def _serve_rest(self, home: str, job: Workload) -> None:
        self._place(home, job, place_rest(self.room, self.pools[home], job))
        self._explain_rest(home, job)

    def _explain_rest(self, home: str, job: Workload) -> None:
        if job.needing:
            kept = place_rest(self.room.without_reservations(), self.pools[home], job)
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
        else:
            self._give_up(home, job)

    def _place(self, pool: str, job: Workload, choice: Choice) -> None:
        for task, node in choice:
            task.node = node
            self.room.place(task, node)
            pod = f"{task.namespace}/{task.name}"
            self.placements.append(
                {"pod": pod, "job": job.key, "role": task.role, "node": node, "pool": pool}
            )

    def _nominate(self, job: Workload, choice: Choice) -> None:
        self.nominated[job.key] = choice
        self.room.reserved += [Reservation(job.key, node, task.requests) for task, node in choice]
        job.reasons.append("WaitingForRoom")

    def _give_up(self, home: str, job: Workload) -> None:
        """Nothing now: say why, and let go of half a gang that could not be made whole in time."""
        if job.minimum_met:
            job.reasons.append("NoRoom")
            return
        job.reasons.append(self._why_not(home, job))
        seconds = self.world.config.get("gangRecoverySeconds", 300)
        broken = job.broken_since or self.world.now
        late = self.world.now - broken >= timedelta(seconds=seconds)
        if job.placed and late and not self.world.config.get("disablePreemption"):
            self._evict(job, job.placed)

    def _why_not(self, home: str, job: Workload) -> str:
        if self._never_fits(home, job):
            return "NeverFits"
        nodes, free = self.pools[home], self.room.without_reservations()
        if place_all(free, nodes, job) or place_minimum(free.without_terminating(), nodes, job):
            return "Behind"
        return "NoRoom"

    def _never_fits(self, home: str, job: Workload) -> bool:
        pools = [self.pools[name] for name in (home, *lenders(self.world, home))]
        return any(pools) and not any(fits_empty(self.room, nodes, job) for nodes in pools)

    def _evict(self, job: Workload, tasks: list[Task]) -> None:
        for task in tasks:
            pod = f"{task.namespace}/{task.name}"
            self.evictions.append({"pod": pod, "job": job.key, "node": task.node, "reason": "GangLost"})
            task.node = None

    # --- the verdicts ---

    def _report(self, jobs: list[Workload]) -> list[Object]:
        waiting = [job for job in jobs if self._is_waiting(job)]
        positions = {job.key: number for number, job in enumerate(waiting, start=1)}
        return [self._verdict(job, positions.get(job.key)) for job in jobs]

    def _is_waiting(self, job: Workload) -> bool:
        """Active, not failed, with an unmet minimum that would fit the pool if it were empty."""
        active = not job.held and not job.minimum_met and "NeverFits" not in job.reasons
        return active and fits_empty(self.room, self.pools[job.pool], job)

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
