"""Workload: the engine's view of one job, one loose pod or one gang of loose pods.

A workload has tasks (pods). Each task has a Shape, what it requires of a node, and an Identity, what the
rules of other pods match. Tasks with equal requirements share one Shape object, so that what is computed for
a shape is computed once. Shapes, identities and terms are compared by object identity: the caller that
creates them must keep one object for each distinct value while it is in use.
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
"""Why a workload waits, for programs; docs/plan-format.md explains each code."""


class Reason(msgspec.Struct, frozen=True):
    """Why a workload waits: a code for programs, a message for people."""

    code: ReasonCode
    message: str


class Identity(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """Namespace and labels of a pod: what affinity terms, spread constraints and budgets match."""

    namespace: str
    labels: Mapping[str, str]


class AffinityTerm(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """A set of pods, by namespace (None: all namespaces) and label selector, within a topology domain."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str] | None

    def matches(self, identity: Identity) -> bool:
        """Whether the term selects a pod; without a selector it selects none."""
        if self.namespaces is not None and identity.namespace not in self.namespaces:
            return False
        return self.selector is not None and self.selector.matches(identity.labels)


class SpreadConstraint(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """A topology spread constraint: how unevenly the pods of a term may be spread over its domains.

    `honour_affinity` and `honour_taints` are the nodeAffinityPolicy and nodeTaintsPolicy of Kubernetes.
    """

    term: AffinityTerm
    max_skew: int
    min_domains: int
    honour_affinity: bool
    honour_taints: bool


class NodeRules(msgspec.Struct, frozen=True, eq=False, kw_only=True, weakref=True):
    """Node selector, required node affinity and tolerations; one object for all tasks with equal rules."""

    selector: Mapping[str, str] = {}
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()


class Shape(msgspec.Struct, frozen=True, eq=False, kw_only=True, weakref=True):
    """What a task requires of a node.

    `requests` and `limits` are in units; `limits` counts towards `maxLoad` (see `fulfilment.LoadLimit`).
    """

    requests: Mapping[str, int]
    nodes: NodeRules
    limits: Mapping[str, int] = {}
    ports: tuple[HostPort, ...] = ()
    pod_affinity: tuple[AffinityTerm, ...] = ()
    pod_anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()

    @property
    def amounts(self) -> dict[str, int]:
        """What a node must have free: the requests, and one pod."""
        return {**self.requests, PODS: 1}

    @property
    def has_inter_pod_rules(self) -> bool:
        """Whether other pods on nodes, and not only free resources, decide where the task may go."""
        return bool(self.ports or self.pod_affinity or self.pod_anti_affinity or self.spread)


PlacementPolicy = Literal["Gang", "BinPack", "LeaderFirst", "MinFragment", "JobAffinity", "JobAntiAffinity"]
QueuePolicy = Literal["Priority", "DRF"]
NO_NODE = -1
"""Column of a task that has no node."""
NO_NUMBER: Final = -1
"""Number of a task without a rank or index."""

DEFAULT_JOB_PRIORITY: Final = 5
"""The job priority of kinds that have none."""


class Task(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """One pod that has or needs a node.

    `varying` tasks are of the role whose number may vary (workers, trainers, replicas). The others are fixed
    (a leader, a master, parameter servers), or they follow: a task that `follows` belongs to a role whose
    number depends on that of the varying role. `leads` marks the task that the LeaderFirst policy places as
    the leader. `number` is its ordinal in the role, or NO_NUMBER. `column` is the node that it has,
    and `nominated` the node on which room is reserved for it (NO_NODE: none).
    """

    name: str
    role: str
    shape: Shape
    identity: Identity
    varying: bool = True
    leads: bool = False
    follows: bool = False
    number: int = NO_NUMBER
    column: int = NO_NODE
    nominated: int = NO_NODE

    @property
    def is_fixed(self) -> bool:
        """Whether the minimum is not whole without it."""
        return not self.varying and not self.follows


class ReplicaSeries(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Numbered instances of one role, all alike: the tasks by which an elastic workload grows.

    `taken` are the numbers in use. `taken_names` are numbers whose pod name belongs to a pod of another
    owner.
    """

    prefix: str
    role: str
    shape: Shape
    identity: Identity
    taken: frozenset[int]
    taken_names: frozenset[int] = frozenset()
    varying: bool = True

    def instances(self, also_free: Collection[int] = ()) -> Iterator[Task]:
        """New instances with the lowest free numbers; ends at the first number whose pod name is taken.

        `also_free` are numbers that count as free although they are in `taken`.
        """
        for number in count():
            if number not in self.taken or number in also_free:
                task = self.instance(number)
                if task is None:
                    return
                yield task

    def instance(self, number: int) -> Task | None:
        """The instance of a number; None if its pod name is taken."""
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
    """A role whose size follows the varying role: `least` at the minimum, `most` at the ceiling."""

    series: ReplicaSeries
    least: int
    most: int


class Growth(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """How an elastic workload is resized.

    `series` makes its new instances and `ceiling` is the size it may grow to, between minimum and maximum.
    `resized_at` is the time of its last resize, for the cooldown. `settled`: none of its instances is
    terminating. `sized_by_policy`: a policy of the user decides on its size, not the built-in one.
    """

    series: ReplicaSeries
    ceiling: int
    resized_at: float | None = None
    following: FollowingRole | None = None
    settled: bool = True
    sized_by_policy: bool = False

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the tasks that it may add."""
        return (self.series.shape, *((self.following.series.shape,) if self.following else ()))


class Workload(msgspec.Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """One job as the engine plans it; derived values are computed once, on first use.

    `tasks` are those it wants now, in the order of placement; finished tasks are left out and counted in
    `done`. `minimum` and `maximum` count varying tasks, finished ones included. `pool` is the number of its
    home pool. A workload with `growth` is elastic: it is served its minimum first, and grows after all
    minimums have been served; any other gets as many tasks placed as fit. `optimistic`: its pods are created
    before there is room for them. `evictable`: its tasks may be evicted for others; `may_preempt`: others may
    be evicted for it. `held`: why it gets nothing at present. `remarks` precede the reasons of every verdict.
    `broken_since`: since when it has had less than its minimum, after it had all of it. `whole_minimum`: the
    minimum that it had all of the last time, if it is known.
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
    whole_minimum: int | None = None

    @property
    def key(self) -> str:
        """Unique key in a plan: kind, namespace and name, as in `TYJob/default/job-a`."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @cached_property
    def precedence(self) -> tuple[Any, ...]:
        """Sort key of a queue by priority; the smallest is served first."""
        own = DEFAULT_JOB_PRIORITY if self.own_priority is None else self.own_priority
        return (0, -self.priority, -own, *self.seniority)

    @property
    def seniority(self) -> tuple[Any, ...]:
        """Sort key among equals: running workloads first, then the older."""
        return not self.placed, self.created, self.namespace, self.name, self.kind

    @property
    def elastic(self) -> bool:
        """Whether its size beyond the minimum is decided separately."""
        return self.growth is not None

    @property
    def ceiling(self) -> int:
        """The size it may grow to."""
        return self.growth.ceiling if self.growth else self.maximum

    @property
    def may_grow(self) -> bool:
        """Whether it may get more instances: it is elastic, and none of them has succeeded."""
        return self.growth is not None and not self.done

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
        """The number of varying tasks that its minimum lacks."""
        return max(self.minimum - self.done - sum([task.varying for task in self.placed]), 0)

    @cached_property
    def unmet(self) -> bool:
        """Whether its minimum is not whole."""
        return self.lacking > 0 or any(task.is_fixed for task in self.missing)

    @cached_property
    def is_broken(self) -> bool:
        """Whether it has nodes, but less than its minimum, also less than the last minimum that it had.

        A minimum that was raised since does not break it: it keeps what it has until the rest fits.
        """
        if not self.placed or not self.unmet:
            return False
        size = self.done + sum([task.varying for task in self.placed])
        kept = self.whole_minimum is not None and size >= min(self.whole_minimum, self.minimum)
        return not kept or any(task.is_fixed for task in self.missing)

    @cached_property
    def minimum_tasks(self) -> tuple[Task, ...]:
        """The missing tasks of its minimum: all fixed ones, and the first `lacking` varying ones."""
        varying = set([task for task in self.missing if task.varying][: self.lacking])
        return tuple([task for task in self.missing if task.is_fixed or task in varying])

    @cached_property
    def incomplete(self) -> bool:
        """Whether too few of its pods exist for its minimum, however they are placed."""
        return sum([task.varying for task in self.minimum_tasks]) < self.lacking

    @cached_property
    def equivalence_key(self) -> tuple[object, ...]:
        """Equal for workloads that get the same when served, and the same reasons if that is nothing.

        That holds as long as no room is reserved for them and no inter-pod rules apply to them.
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
        """Whether it is one task that needs a node, without a reservation, a hold or growth."""
        return len(self.missing) == len(self.tasks) == 1 and not (self.nominated or self.held or self.elastic)

    @cached_property
    def nominated(self) -> tuple[Task, ...]:
        """Tasks without a node for which room is reserved on one."""
        return tuple([t for t in self.tasks if t.nominated != NO_NODE and t.column == NO_NODE])
