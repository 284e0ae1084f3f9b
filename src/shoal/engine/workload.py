"""Shape: what a task asks of a node, and Identity: how other tasks' rules see it.

Tasks that ask for the same share one Shape object, so whatever is worked out for a shape is worked out
once. Shapes and identities are compared by being the same object; whoever makes them keeps one of each, for
as long as somebody has it.

Workload: the engine's view of one job, one loose pod or one gang of loose pods.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import count, groupby
from typing import Any, Final, Literal

import msgspec

from shoal.api.podspec import HostPort
from shoal.api.selectors import LabelSelector, NodeSelector, Toleration
from shoal.engine.resources import PODS

ReasonCode = Literal[
    "NoRoom",
    "WaitingForRoom",
    "NeverFits",
    "WaitingForPool",
    "Behind",
    "Held",
    "PolicyRefused",
    "NameTaken",
]


class Reason(msgspec.Struct, frozen=True):
    """Why a workload waits: a code for programs, a message for people."""

    code: ReasonCode
    message: str


class Identity(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """What rules about neighbouring pods look at."""

    namespace: str
    labels: Mapping[str, str]


class AffinityTerm(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """Pods of some namespaces (None: all of them) by their labels, within a topology domain."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str] | None

    def matches(self, identity: Identity) -> bool:
        """Whether the term speaks of a pod; without a selector it speaks of none."""
        if self.namespaces is not None and identity.namespace not in self.namespaces:
            return False
        return self.selector is not None and self.selector.matches(identity.labels)


class SpreadConstraint(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """How uneven the pods that a term speaks of may lie over its topology domains."""

    term: AffinityTerm
    max_skew: int
    min_domains: int
    honour_affinity: bool
    honour_taints: bool


class NodeRules(msgspec.Struct, frozen=True, eq=False, kw_only=True, weakref=True):
    """Which nodes a task may use, by their labels and taints; one object for all tasks that say the same."""

    selector: Mapping[str, str] = {}
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()


class Shape(msgspec.Struct, frozen=True, eq=False, kw_only=True, weakref=True):
    """What a task asks of a node; `limits` is the most it may come to use of each resource."""

    requests: Mapping[str, int]
    nodes: NodeRules
    limits: Mapping[str, int] = {}
    ports: tuple[HostPort, ...] = ()
    pod_affinity: tuple[AffinityTerm, ...] = ()
    pod_anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()

    @property
    def amounts(self) -> dict[str, int]:
        """What a node must have: the requests, and room for one pod."""
        return {**self.requests, PODS: 1}

    @property
    def has_inter_pod_rules(self) -> bool:
        """Whether a node may stop fitting because of who is there, and not only for want of resources."""
        return bool(self.ports or self.pod_affinity or self.pod_anti_affinity or self.spread)


PlacementPolicy = Literal["Gang", "BinPack", "LeaderFirst", "MinFragment", "JobAffinity", "JobAntiAffinity"]
QueuePolicy = Literal["Priority", "DRF"]
NO_NODE = -1
DEFAULT_JOB_PRIORITY: Final = 5
"""The place in the queue of a kind without a priority of its own."""


class Task(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """One pod that has or needs a node.

    `varying` tells the role whose number may vary (workers, trainers, replicas) from what must always be
    there (a leader, a master, parameter servers); what `follows` those that vary is there as long as they
    need it. `number` is its place in its role, where that has one. `column` is the node it has, `nominated`
    the one whose room is kept for it.
    """

    name: str
    role: str
    shape: Shape
    identity: Identity
    varying: bool = True
    leads: bool = False
    follows: bool = False
    number: int = NO_NODE
    column: int = NO_NODE
    nominated: int = NO_NODE

    @property
    def is_fixed(self) -> bool:
        """Whether there is no minimum without it."""
        return not self.varying and not self.follows


class ReplicaSeries(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Numbered instances of one role, all alike, as many as are wanted.

    `taken` are the numbers in use; `foreign` those by which a pod would have a name that is somebody else's.
    """

    prefix: str
    role: str
    shape: Shape
    identity: Identity
    taken: frozenset[int]
    taken_names: frozenset[int] = frozenset()
    varying: bool = True

    def instances(self, also_free: Collection[int] = ()) -> Iterator[Task]:
        """New instances, with the lowest numbers that are not in use; they end where a name is taken."""
        for number in count():
            if number not in self.taken or number in also_free:
                task = self.instance(number)
                if task is None:
                    return
                yield task

    def instance(self, number: int) -> Task | None:
        """The instance of a number; None if its name is taken."""
        if number in self.taken_names:
            return None
        return Task(
            name=f"{self.prefix}{number}",
            role=self.role,
            shape=self.shape,
            identity=self.identity,
            varying=self.varying,
            follows=not self.varying,
            number=number,
        )


class FollowingRole(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A role whose number follows those that vary: `least` of it at the minimum, `most` at the ceiling."""

    series: ReplicaSeries
    least: int
    most: int


class Growth(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """How an elastic workload is resized.

    `ceiling` is the size it may grow to, and `series` what it grows by. It was resized last at `changed`.
    `settled`: none of its instances is terminating. `advised`: a policy of the user's decides on its size.
    """

    series: ReplicaSeries
    ceiling: int
    resized_at: float | None = None
    following: FollowingRole | None = None
    settled: bool = True
    sized_by_policy: bool = False

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """What it may come to ask of nodes."""
        return (self.series.shape, *((self.following.series.shape,) if self.following else ()))


class Workload(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """One job as the engine plans it. What follows from its fields is worked out once.

    `tasks` are all that it wants now, in the order in which they are placed; those that are done are left
    out and counted in `done`. `minimum` and `maximum` count varying tasks, done ones included. A workload
    with `growth` is elastic: it takes its minimum at its turn and more when all minimums are served; any
    other takes all that fits. `optimistic`: its pods are made even before there is room for them.
    `evictable`: it may have to leave for others; `makes_room`: others may have to leave for it.
    """

    kind: str
    namespace: str
    name: str
    pool: int
    created: float
    tasks: tuple[Task, ...]
    minimum: int
    maximum: int
    done: int = 0
    growth: Growth | None = None
    optimistic: bool = False
    priority: int = 0
    own_priority: int | None = None
    queue_policy: QueuePolicy = "Priority"
    placement: PlacementPolicy = "BinPack"
    may_borrow: bool = True
    evictable: bool = True
    may_preempt: bool = True
    held: Reason | None = None
    remarks: tuple[Reason, ...] = ()
    broken_since: float | None = None

    @property
    def key(self) -> str:
        """What the workload is called in a plan: `TYJob/default/job-a`."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @cached_property
    def precedence(self) -> tuple[Any, ...]:
        """Its place in a queue by priority; the first comes first."""
        own = DEFAULT_JOB_PRIORITY if self.own_priority is None else self.own_priority
        return (0, -self.priority, -own, *self.seniority)

    @property
    def seniority(self) -> tuple[Any, ...]:
        """Its place among those of the same rank: who runs is served first, then who came first."""
        return not self.placed, self.created, self.namespace, self.name, self.kind

    @property
    def elastic(self) -> bool:
        """Whether its size is decided apart from its minimum."""
        return self.growth is not None

    @property
    def ceiling(self) -> int:
        """The size it may grow to."""
        return self.growth.ceiling if self.growth else self.maximum

    @cached_property
    def placed(self) -> tuple[Task, ...]:
        """Tasks that have a node."""
        return tuple([task for task in self.tasks if task.column != NO_NODE])

    @cached_property
    def missing(self) -> tuple[Task, ...]:
        """Tasks that need a node."""
        return tuple([task for task in self.tasks if task.column == NO_NODE])

    @cached_property
    def lacking(self) -> int:
        """How many varying tasks its minimum lacks."""
        return max(self.minimum - self.done - sum([task.varying for task in self.placed]), 0)

    @cached_property
    def unmet(self) -> bool:
        """Whether its minimum is not whole."""
        return self.lacking > 0 or any(task.is_fixed for task in self.missing)

    @cached_property
    def minimum_tasks(self) -> tuple[Task, ...]:
        """The tasks that its minimum lacks: all that do not vary, and the first of those that do."""
        varying = set([task for task in self.missing if task.varying][: self.lacking])
        return tuple([task for task in self.missing if task.is_fixed or task in varying])

    @cached_property
    def incomplete(self) -> bool:
        """Whether so few of its tasks are there that its minimum could not be whole wherever they are."""
        return sum([task.varying for task in self.minimum_tasks]) < self.lacking

    @cached_property
    def equivalence_key(self) -> tuple[object, ...]:
        """What those have in common who get the same at their turn, and hear the same if that is nothing.

        As long as no room is kept for them, and none of them minds its neighbours.
        """
        kinds = groupby(self.missing, key=lambda task: (task.shape, task.varying, task.leads, task.follows))
        return (
            self.pool,
            self.priority,
            self.may_preempt,
            self.may_borrow,
            self.elastic,
            self.placement,
            self.minimum,
            self.done,
            self.remarks,
            tuple([task.column for task in self.placed]),
            tuple([(*kind, len(list(run))) for kind, run in kinds]),
        )

    @cached_property
    def is_single_pod(self) -> bool:
        """Whether it is one task that has no node and waits for nothing but that."""
        return len(self.missing) == len(self.tasks) == 1 and not (self.nominated or self.held or self.elastic)

    @cached_property
    def nominated(self) -> tuple[Task, ...]:
        """Tasks for which room is kept."""
        return tuple([t for t in self.tasks if t.nominated != NO_NODE and t.column == NO_NODE])
