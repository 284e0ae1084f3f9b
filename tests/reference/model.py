"""What the reference thinks in: tasks, workloads, and the room they stand in."""

from collections.abc import Callable, Iterable
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
    """A leader, a master, a parameter server: without it there is no minimum."""
    node: str | None = None
    done: bool = False
    nominated: str | None = None
    index: int = 0
    """Of those of its role."""
    scaled: bool = False
    """A parameter server that comes and goes with the trainers: neither fixed nor counted."""

    def __post_init__(self) -> None:
        self.requests: Resources = pod_requests(self.spec)
        self.limits: Resources = pod_limits(self.spec)

    @property
    def met(self) -> bool:
        return self.done or self.node is not None


@dataclass(frozen=True)
class Elastic:
    """What an elastic workload may become."""

    ceiling: int
    """Not more instances than this: its maximum, or the size that was asked for."""
    instance: Callable[[int], Task]
    """A new instance with this index."""
    promised: list[tuple[Task, str]] = field(default_factory=list)
    """New instances that earlier cycles promised a node."""
    changed: datetime | None = None
    """When its size last changed."""
    servers: tuple[int, int] | None = None
    """How few and how many parameter servers go with its trainers."""
    server: Callable[[int], Task] | None = None
    blocked: frozenset[str] = frozenset()
    """Names in its namespace that belong to somebody else."""
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
    """So many of the tasks that are not fixed."""
    maximum: int
    priority: int = 0
    job_priority: int | None = None
    policy: str = "BinPack"
    queue_policy: str = "Priority"
    wished_pool: str | None = None
    pool: str = "default"
    held: bool = False
    preemptible: bool = True
    """Whether it may be a victim; what may not be one does not borrow either."""
    makes_room: bool = True
    """Its class (or a pod of its own) does not say `preemptionPolicy: Never`."""
    broken_since: datetime | None = None
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
        """How many varying tasks have a node or are done."""
        return sum(task.met for task in self.varying)

    @property
    def needing(self) -> list[Task]:
        return [task for task in self.tasks if not task.met]

    @property
    def missing(self) -> int:
        """How many varying tasks are still short of the minimum."""
        return max(0, self.minimum - self.size)

    @property
    def minimum_met(self) -> bool:
        return self.missing == 0 and all(task.met for task in self.tasks if task.fixed)

    @property
    def placed(self) -> list[Task]:
        return [task for task in self.tasks if task.node is not None]

    def whole_without(self, gone: set[Task]) -> bool:
        """Whether it has its minimum when these tasks are gone."""
        fixed = all(task.met and task not in gone for task in self.tasks if task.fixed)
        return fixed and sum(task.met and task not in gone for task in self.varying) >= self.minimum

    def add(self, task: Task) -> None:
        """One more, in its place: what is fixed, parameter servers that come and go, instances."""
        self.tasks = sorted([*self.tasks, task], key=lambda one: (not one.fixed, not one.scaled, one.index))

    def settle(self) -> None:
        """After a loss: an elastic workload wants what it has left, and new ones up to its minimum."""
        if self.elastic is not None:
            others = [task for task in self.tasks if task.fixed or (task.scaled and task.met)]
            self.tasks = others + up_to(self.minimum, self.varying, self.elastic.instance)


def up_to(minimum: int, tasks: Iterable[Task], instance: Callable[[int], Task]) -> list[Task]:
    """The tasks that have a node or are done, and new ones of the lowest indices until they are enough."""
    kept = [task for task in tasks if task.met]
    while len(kept) < minimum:
        kept.append(instance(lowest_free(task.index for task in kept)))
    return sorted(kept, key=lambda task: task.index)


def lowest_free(used: Iterable[int]) -> int:
    taken = set(used)
    return next(index for index in range(len(taken) + 1) if index not in taken)


@dataclass(frozen=True, eq=False)
class Standing:
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
    """Room on a node that is kept for one nominated task."""

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
    """The nodes of the cluster with all that stands on them; copied freely for every what-if."""

    nodes: dict[str, Object]
    namespaces: dict[str, dict[str, str]]
    standing: list[Standing]
    reserved: list[Reservation]

    def copy(self) -> "Room":
        return replace(self, standing=list(self.standing), reserved=list(self.reserved))

    def without_terminating(self) -> "Room":
        return replace(self.copy(), standing=[pod for pod in self.standing if not pod.terminating])

    def without(self, tasks: set[Task]) -> "Room":
        return replace(self.copy(), standing=[pod for pod in self.standing if pod.task not in tasks])

    def without_reservations(self) -> "Room":
        return replace(self.copy(), reserved=[])

    def empty(self) -> "Room":
        return replace(self, standing=[], reserved=[])

    def place(self, task: Task, node: str) -> None:
        pod = Standing(node, task.namespace, task.labels, task.spec, task.requests, task=task)
        self.standing.append(pod)

    def reserve(self, owner: str, task: Task, node: str) -> None:
        self.reserved.append(Reservation(owner, node, task))

    def lift(self, owner: str) -> None:
        self.reserved = [one for one in self.reserved if one.owner != owner]

    def send_away(self, tasks: set[Task]) -> None:
        """These pods leave: they take their room until they are gone."""
        self.standing = [
            replace(pod, terminating=True, task=None) if pod.task in tasks else pod for pod in self.standing
        ]

    def on(self, node: str) -> list[Standing]:
        return [pod for pod in self.standing if pod.node == node]

    def used(self, node: str) -> Resources:
        return total(pod.requests for pod in self.on(node))

    def kept(self, node: str) -> list[Reservation]:
        return [one for one in self.reserved if one.node == node]


def capacity(nodes: list[Object]) -> Resources:
    """The sum of what nodes have to give."""
    return total(allocatable(node) for node in nodes)


def dominant_share(asked: Resources, whole: Resources) -> Fraction:
    """The largest part of any resource; what the whole has none of is skipped."""
    parts = [amount / whole[name] for name, amount in asked.items() if whole.get(name)]
    return max(parts, default=Fraction(0))
