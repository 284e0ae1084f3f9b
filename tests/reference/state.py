"""The state of one cycle: the world as it was, and the decisions so far."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.reference import kinds, loose_pods
from tests.reference.budgets import budgets, spend
from tests.reference.model import PodOnNode, Room, Task, Workload
from tests.reference.objects import Input, is_finished, is_terminating, labels, namespace, owns
from tests.reference.placement import Choice, fits_empty
from tests.reference.pools import assign_pool, in_order, nodes_by_pool, queue, share
from tests.reference.quantities import pod_requests

Object = dict[str, Any]


@dataclass
class CycleState:
    """Everything that the phases of a cycle read and write."""

    world: Input
    placements: list[Object] = field(default_factory=list)
    evictions: list[Object] = field(default_factory=list)
    nominated: dict[str, Choice] = field(default_factory=dict)
    """Nominations for minimums, by job."""
    growing: dict[str, Choice] = field(default_factory=dict)
    """Nominations for growth, of earlier cycles and of this one."""
    reserved_tasks: dict[str, Choice] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)
    victims: set[str] = field(default_factory=set)
    """Workloads that lost tasks to the minimum of another, or as a broken gang."""
    lost: set[str] = field(default_factory=set)
    """Workloads that lost tasks for any reason."""
    grown: set[str] = field(default_factory=set)
    shrunk: set[str] = field(default_factory=set)
    fitting: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pools = nodes_by_pool(self.world)
        self.pool_of = {
            node["metadata"]["name"]: pool for pool, nodes in self.pools.items() for node in nodes
        }
        self.jobs = kinds.jobs(self.world) + loose_pods.loose_pods(self.world)
        for job in self.jobs:
            assign_pool(self.world, job)
        self.room = Room(self.world.nodes, self._namespaces(), self._pods_on_nodes(), [])
        self.budgets = budgets(self.world, self.room.pods_on_nodes)
        self.current = {job.key: sum(t.node is not None for t in job.varying) for job in self.jobs}
        self.shares = {job.key: share(self.world, job) for job in self.jobs}
        self.queues = {pool: queue(self.world, pool, self.jobs) for pool in sorted(self.pools)}
        self.all_in_order = in_order(self.world, self.jobs)

    def _namespaces(self) -> dict[str, dict[str, str]]:
        return {one["metadata"]["name"]: labels(one) for one in self.world.of_kind("Namespace")}

    def _pods_on_nodes(self) -> list[PodOnNode]:
        """Every pod on a node, and every task with an assigned node that has no pod there yet."""
        tasks = {(t.namespace, t.name): t for job in self.jobs for t in job.placed}
        pods = [pod for pod in self.world.pods if pod["spec"].get("nodeName") and not is_finished(pod)]
        pods_on_nodes = []
        for pod in pods:
            name, gone, spec = (namespace(pod), pod["metadata"]["name"]), is_terminating(pod), pod["spec"]
            if gone and name in tasks and tasks[name].node == spec["nodeName"] and self._is_of_job(pod):
                gone = False  # its job keeps the room for its successor
            task = None if gone else tasks.pop(name, None)
            pods_on_nodes.append(
                PodOnNode(spec["nodeName"], name[0], labels(pod), spec, pod_requests(spec), gone, task)
            )
        return pods_on_nodes + [
            PodOnNode(t.node, t.namespace, t.labels, t.spec, t.requests, task=t)
            for t in tasks.values()
            if t.node
        ]

    def _is_of_job(self, pod: Object) -> bool:
        jobs = [job for kind in kinds.JOB_KINDS for job in self.world.of_kind(kind)]
        return any(owns(job, pod) for job in jobs)

    @property
    def room_after_release(self) -> Room:
        """The room once terminating and evicted pods are gone."""
        return self.room.without_terminating()

    def by_pool(self) -> list[Workload]:
        """Workloads by pool name, each pool in queue order."""
        return [job for waiting in self.queues.values() for job in waiting]

    def where(self, job: Workload) -> str:
        """The pool for the rest of a workload: that of its first placed task, else its home."""
        first = job.placed[0].node if job.placed else None
        return self.pool_of[first] if first else job.pool

    def is_at_home(self, job: Workload) -> bool:
        return all(self.pool_of[task.node] == job.pool for task in job.placed if task.node)

    def size(self, job: Workload) -> int:
        """Instances with a node, finished ones, and those nominated for growth."""
        return job.size + len(self.growing.get(job.key, ()))

    def score(self, job: Workload, more: int = 0) -> Fraction:
        """Its fulfilment, or what it would be with more or fewer instances."""
        assert job.elastic is not None
        span = job.elastic.ceiling - job.minimum
        return Fraction(self.size(job) + more - job.minimum, span) if span else Fraction(1)

    # --- decisions ---

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

    def evict(
        self, job: Workload, tasks: Iterable[Task], reason: str, beneficiary: str | None = None
    ) -> None:
        """Evict tasks; they keep their room until they are gone."""
        tasks = list(tasks)
        self.room.terminate(set(tasks))
        for task in tasks:
            pod = f"{task.namespace}/{task.name}"
            self.evictions.append(
                {"pod": pod, "job": job.key, "node": task.node, "reason": reason, "for": beneficiary}
            )
            task.node = None
            spend(self.budgets, task)
            self.lost.add(job.key)
            if reason == "Shrunk" and not task.scaled:
                self.shrunk.add(job.key)
        job.settle()

    # --- waiting workloads ---

    def has_waiting(self, pool: str) -> bool:
        return any(job.pool == pool and self.is_waiting(job) for job in self.jobs)

    def is_waiting(self, job: Workload) -> bool:
        """Whether it is active, not failed, and its unmet minimum would fit its pool if that were empty."""
        active = not job.held and not job.minimum_met and "NeverFits" not in job.reasons
        return active and self._fits_home(job)

    def _fits_home(self, job: Workload) -> bool:
        if job.key not in self.fitting:
            self.fitting[job.key] = fits_empty(self.room, self.pools[job.pool], job)
        return self.fitting[job.key]


def pool_reasons(job: Workload) -> list[str]:
    """The reasons that were set before the workload was served."""
    return [code for code in job.reasons if code == "WaitingForPool"]
