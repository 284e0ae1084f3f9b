"""The data model of the reference: tasks, workloads, and the nodes with their pods."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from tests.reference.quantities import Resources, allocatable, pod_limits, pod_requests, total

Object = dict[str, Any]


@dataclass(eq=False)
class Task:
    """One pod that has or needs a node."""

    namespace: str
    name: str
    role: str
    labels: dict[str, str]
    spec: Object
    fixed: bool = False
    """A leader, a master, a parameter server: the minimum is not met without it."""
    node: str | None = None
    done: bool = False
    nominated: str | None = None
    index: int = 0
    """Ordinal in its role."""
    scaled: bool = False
    """A parameter server that scales with the trainers: neither fixed nor counted."""

    def __post_init__(self) -> None:
        self.requests: Resources = pod_requests(self.spec)
        self.limits: Resources = pod_limits(self.spec)

    @property
    def met(self) -> bool:
        return self.done or self.node is not None


@dataclass(frozen=True)
class Elastic:
    """How an elastic workload may be resized."""

    ceiling: int
    """The most instances: its maximum, or the requested size."""
    instance: Callable[[int], Task]
    """Creates a new instance with this index."""
    reserved_tasks: list[tuple[Task, str]] = field(default_factory=list)
    """New instances that earlier cycles nominated to a node."""
    changed: datetime | None = None
    """When its size last changed."""
    servers: tuple[int, int] | None = None
    """The least and the most parameter servers for its trainers."""
    server: Callable[[int], Task] | None = None
    blocked: frozenset[str] = frozenset()
    """Pod names in its namespace that belong to other owners."""
    leaving: bool = False
    """Whether one of its instances is terminating."""


@dataclass(eq=False)
class Workload:
    """One job, one gang of pods, or one loose pod."""

    kind: str
    namespace: str
    name: str
    created: datetime
    tasks: list[Task]
    minimum: int
    """The minimum of tasks that are not fixed."""
    maximum: int
    priority: int = 0
    job_priority: int | None = None
    policy: str = "BinPack"
    queue_policy: str = "Priority"
    requested_pool: str | None = None
    pool: str = "default"
    held: bool = False
    preemptible: bool = True
    """Whether it may be a victim; a workload that may not be one does not borrow either."""
    may_preempt: bool = True
    """Neither its class nor one of its pods has `preemptionPolicy: Never`."""
    broken_since: datetime | None = None
    whole_minimum: int | None = None
    """The minimum that it had all of the last time."""
    elastic: Elastic | None = None
    reasons: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def varying(self) -> list[Task]:
        return [task for task in self.tasks if not task.fixed and not task.scaled]

    @property
    def size(self) -> int:
        """The number of varying tasks that have a node or are done."""
        return sum(task.met for task in self.varying)

    @property
    def needing(self) -> list[Task]:
        return [task for task in self.tasks if not task.met]

    @property
    def missing(self) -> int:
        """The number of varying tasks that the minimum lacks."""
        return max(0, self.minimum - self.size)

    @property
    def minimum_met(self) -> bool:
        return self.missing == 0 and all(task.met for task in self.tasks if task.fixed)

    @property
    def is_broken(self) -> bool:
        """Whether it has nodes, but less than its minimum, and less than the last minimum that it had."""
        if not self.placed or self.minimum_met:
            return False
        fixed = all(task.met for task in self.tasks if task.fixed)
        return not fixed or self.whole_minimum is None or self.size < min(self.whole_minimum, self.minimum)

    @property
    def has_finished_instance(self) -> bool:
        return any(task.done for task in self.varying)

    @property
    def placed(self) -> list[Task]:
        return [task for task in self.tasks if task.node is not None]

    def whole_without(self, gone: set[Task]) -> bool:
        """Whether it has its minimum without these tasks."""
        fixed = all(task.met and task not in gone for task in self.tasks if task.fixed)
        return fixed and sum(task.met and task not in gone for task in self.varying) >= self.minimum

    def add(self, task: Task) -> None:
        """Add a task in its position: fixed ones, scaled parameter servers, instances."""
        self.tasks = sorted([*self.tasks, task], key=lambda one: (not one.fixed, not one.scaled, one.index))

    def settle(self) -> None:
        """After an eviction, an elastic workload wants what it has left, and new tasks up to its minimum."""
        if self.elastic is not None:
            others = [task for task in self.tasks if task.fixed or (task.scaled and task.met)]
            self.tasks = others + up_to(self.minimum, self.varying, self.elastic.instance)


def up_to(
    minimum: int,
    tasks: Iterable[Task],
    instance: Callable[[int], Task],
    *,
    preferred: Collection[int] = (),
    without: Collection[int] = (),
) -> list[Task]:
    """The tasks that have a node or are done, and new ones with the lowest indices up to `minimum`.

    The lowest `preferred` indices are taken first, then free ones; none of those in `without`.
    """
    kept = [task for task in tasks if task.met]
    used = {task.index for task in kept} | set(without)
    slots = set(preferred) - used
    while len(kept) + len(slots) < minimum:
        slots.add(lowest_free(used | slots))
    lacking = max(0, minimum - len(kept))
    return sorted([*kept, *map(instance, sorted(slots)[:lacking])], key=lambda task: task.index)


def lowest_free(used: Iterable[int]) -> int:
    taken = set(used)
    return next(index for index in range(len(taken) + 1) if index not in taken)


@dataclass(frozen=True, eq=False)
class PodOnNode:
    """A pod on a node: it takes its room until it is gone."""

    node: str
    namespace: str
    labels: dict[str, str]
    spec: Object
    requests: Resources
    terminating: bool = False
    task: Task | None = None


@dataclass(frozen=True)
class Reservation:
    """Room on a node that is reserved for one nominated task."""

    owner: str
    node: str
    task: Task

    @property
    def requests(self) -> Resources:
        return self.task.requests

    @property
    def limits(self) -> Resources:
        return self.task.limits

    @property
    def spec(self) -> Object:
        return self.task.spec

    @property
    def namespace(self) -> str:
        return self.task.namespace

    @property
    def labels(self) -> dict[str, str]:
        return self.task.labels


@dataclass
class Room:
    """The nodes of the cluster with their pods; copied for every what-if."""

    nodes: dict[str, Object]
    namespaces: dict[str, dict[str, str]]
    pods_on_nodes: list[PodOnNode]
    reserved: list[Reservation]

    def copy(self) -> "Room":
        return replace(self, pods_on_nodes=list(self.pods_on_nodes), reserved=list(self.reserved))

    def without_terminating(self) -> "Room":
        return replace(self.copy(), pods_on_nodes=[pod for pod in self.pods_on_nodes if not pod.terminating])

    def without(self, tasks: set[Task]) -> "Room":
        return replace(
            self.copy(), pods_on_nodes=[pod for pod in self.pods_on_nodes if pod.task not in tasks]
        )

    def without_reservations(self) -> "Room":
        return replace(self.copy(), reserved=[])

    def empty(self) -> "Room":
        return replace(self, pods_on_nodes=[], reserved=[])

    def place(self, task: Task, node: str) -> None:
        pod = PodOnNode(node, task.namespace, task.labels, task.spec, task.requests, task=task)
        self.pods_on_nodes.append(pod)

    def reserve(self, owner: str, task: Task, node: str) -> None:
        self.reserved.append(Reservation(owner, node, task))

    def release(self, owner: str) -> None:
        self.reserved = [one for one in self.reserved if one.owner != owner]

    def terminate(self, tasks: set[Task]) -> None:
        """Mark these pods as terminating: they take their room until they are gone."""
        self.pods_on_nodes = [
            replace(pod, terminating=True, task=None) if pod.task in tasks else pod
            for pod in self.pods_on_nodes
        ]

    def on(self, node: str) -> list[PodOnNode]:
        return [pod for pod in self.pods_on_nodes if pod.node == node]

    def used(self, node: str) -> Resources:
        return total(pod.requests for pod in self.on(node))

    def kept(self, node: str) -> list[Reservation]:
        return [one for one in self.reserved if one.node == node]


def capacity(nodes: list[Object]) -> Resources:
    """The sum of what nodes have."""
    return total(allocatable(node) for node in nodes)


def dominant_share(requests: Resources, whole: Resources) -> Fraction:
    """The largest fraction of any resource; resources that do not exist are skipped."""
    parts = [amount / whole[name] for name, amount in requests.items() if whole.get(name)]
    return max(parts, default=Fraction(0))
