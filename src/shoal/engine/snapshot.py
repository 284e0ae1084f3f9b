"""Snapshot: one consistent view of nodes, pools, pods and workloads, for one cycle."""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from shoal.engine.affinity import Occupant
from shoal.engine.nodes import Nodes, NodeSpan
from shoal.engine.resources import Amounts
from shoal.engine.workload import AffinityTerm, QueuePolicy, Workload


class Pool(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Nodes that somebody owns: a span of columns, and the terms on which others may use them.

    `lenders` are the pools it may borrow from, by number.
    """

    name: str
    span: NodeSpan
    preemption: bool = True
    borrowing: bool = True
    sharing: bool = True
    lenders: tuple[int, ...] = ()
    queue_policy: QueuePolicy | None = None
    order: Literal["PreemptFirst", "BorrowFirst"] | None = None


class Budget(msgspec.Struct, frozen=True, eq=False):
    """A PodDisruptionBudget: the pods that a term speaks of, and how many of them may go now."""

    pods: AffinityTerm
    allowed: int


class Snapshot(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What a cycle sees. Nothing in it ever changes.

    `pools` are ordered by name, and workloads refer to them by number. `used` is what all pods on nodes
    take, `system` the part of it that pods of other schedulers take. `leaving` are the occupants whose pods
    are terminating; `guarded` tells whether an occupant keeps others away from itself. `unsettled` are those
    of `workloads` that a cycle has something to do for, and `elastic` those whose size it decides on: it
    looks at no other, so its cost grows with what is going on and not with the size of the cluster. `limits`
    is what all pods on ready nodes may come to use.
    """

    nodes: Nodes
    pools: tuple[Pool, ...]
    used: Amounts
    system: Amounts
    occupants: Iterable[Occupant]
    terminating: tuple[Occupant, ...]
    has_anti_affinity: bool
    budgets: tuple[Budget, ...]
    workloads: tuple[Workload, ...]
    unsettled: tuple[Workload, ...]
    elastic: tuple[Workload, ...]
    limits: Mapping[str, int]
    now: float
