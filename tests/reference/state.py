"""One cycle in the making: the world as it was, what was decided so far, and the few ways to decide more."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.reference import kinds, loose
from tests.reference.budgets import budgets, spend
from tests.reference.model import Room, Standing, Task, Workload
from tests.reference.objects import Input, is_finished, is_terminating, labels, namespace
from tests.reference.placing import Choice, fits_empty
from tests.reference.pools import in_order, members, queue, send_home, share
from tests.reference.quantities import pod_requests

Object = dict[str, Any]


@dataclass
class Cycle:
    """Everything that the phases of a cycle read and write."""

    world: Input
    placements: list[Object] = field(default_factory=list)
    evictions: list[Object] = field(default_factory=list)
    nominated: dict[str, Choice] = field(default_factory=dict)
    """For their minimum."""
    growing: dict[str, Choice] = field(default_factory=dict)
    """Nominated to grow: kept from earlier cycles, or in this one."""
    promised: dict[str, Choice] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    victims: set[str] = field(default_factory=set)
    """Who lost something to another's minimum, or as half a gang."""
    lost: set[str] = field(default_factory=set)
    """Who lost anything, for whatever reason."""
    grown: set[str] = field(default_factory=set)
    shrunk: set[str] = field(default_factory=set)
    fitting: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pools = members(self.world)
        self.pool_of = {
            node["metadata"]["name"]: pool for pool, nodes in self.pools.items() for node in nodes
        }
        self.jobs = kinds.jobs(self.world) + loose.loose(self.world)
        for job in self.jobs:
            send_home(self.world, job)
        self.room = Room(self.world.nodes, self._namespaces(), self._standing(), [])
        self.guards = budgets(self.world, self.room.standing)
        self.current = {job.key: sum(t.node is not None for t in job.varying) for job in self.jobs}
        self.shares = {job.key: share(self.world, job) for job in self.jobs}
        self.queues = {pool: queue(self.world, pool, self.jobs) for pool in sorted(self.pools)}
        self.everybody = in_order(self.world, self.jobs)

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

    @property
    def waiting_room(self) -> Room:
        """The room once those that leave are gone."""
        return self.room.without_terminating()

    def by_pool(self) -> list[Workload]:
        """Pools by name, each in the order of its queue."""
        return [job for waiting in self.queues.values() for job in waiting]

    def where(self, job: Workload) -> str:
        """The pool in which the rest of a workload goes: where its first placed task is, else its home."""
        first = job.placed[0].node if job.placed else None
        return self.pool_of[first] if first else job.pool

    def is_at_home(self, job: Workload) -> bool:
        return all(self.pool_of[task.node] == job.pool for task in job.placed if task.node)

    def size(self, job: Workload) -> int:
        """Instances that it has, those that are done, and those nominated to grow."""
        return job.size + len(self.growing.get(job.key, ()))

    def score(self, job: Workload, more: int = 0) -> Fraction:
        """How fulfilled it is, or would be with more or fewer."""
        assert job.elastic is not None
        span = job.elastic.ceiling - job.minimum
        return Fraction(self.size(job) + more - job.minimum, span) if span else Fraction(1)

    # --- deciding ---

    def place(self, pool: str, job: Workload, choice: Choice) -> None:
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

    def reserve(self, job: Workload, choice: Choice) -> None:
        for task, node in choice:
            self.room.reserve(job.key, task, node)

    def nominate(self, job: Workload, choice: Choice) -> None:
        self.nominated[job.key] = choice
        self.reserve(job, choice)
        job.reasons.append("WaitingForRoom")

    def evict(self, job: Workload, tasks: Iterable[Task], reason: str, loser_to: str | None = None) -> None:
        """They leave: they keep their room until they are gone."""
        tasks = list(tasks)
        self.room.send_away(set(tasks))
        for task in tasks:
            pod = f"{task.namespace}/{task.name}"
            self.evictions.append(
                {"pod": pod, "job": job.key, "node": task.node, "reason": reason, "for": loser_to}
            )
            task.node = None
            spend(self.guards, task)
            self.lost.add(job.key)
            if reason == "Shrunk" and not task.scaled:
                self.shrunk.add(job.key)
        job.settle()

    # --- who waits ---

    def has_waiting(self, pool: str) -> bool:
        return any(job.pool == pool and self.is_waiting(job) for job in self.jobs)

    def is_waiting(self, job: Workload) -> bool:
        """Active, not failed, with an unmet minimum that would fit the pool if it were empty."""
        active = not job.held and not job.minimum_met and "NeverFits" not in job.reasons
        return active and self._fits_home(job)

    def _fits_home(self, job: Workload) -> bool:
        if job.key not in self.fitting:
            self.fitting[job.key] = fits_empty(self.room, self.pools[job.pool], job)
        return self.fitting[job.key]


def told(job: Workload) -> list[str]:
    """What was said of the workload before its turn."""
    return [code for code in job.reasons if code == "WaitingForPool"]
