"""Snapshot: one consistent, immutable view of nodes, pools, pods and workloads, for one cycle."""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from shoal.engine.affinity import Occupant
from shoal.engine.layout import Amounts
from shoal.engine.nodes import Nodes, NodeSpan
from shoal.engine.workload import AffinityTerm, QueuePolicy, Workload


class Pool(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A pool of nodes: a span of columns, and how it shares them with other pools.

    `preemption`: its workloads may evict lower priorities and borrowers from it; without it they reclaim only
    surplus instances of elastic workloads. `borrowing`: its workloads may use nodes of other pools, those in
    `lenders` (by number). `sharing`: it lends its own nodes. `queue_policy` and `order` override the
    scheduler's.
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
    """A PodDisruptionBudget: the pods of a term, and how many of them may be evicted now."""

    pods: AffinityTerm
    allowed: int


class Snapshot(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The input of a cycle; nothing in it changes while the cycle runs.

    `pools` are ordered by name, and workloads refer to them by number. `occupants` are all pods on nodes,
    `used` is what they request, and `system` the part of it that pods of other schedulers request.
    `terminating` are the occupants that are being deleted; `has_anti_affinity` tells whether any occupant has
    required pod anti-affinity. `unsettled` are the workloads for which the cycle may have something to do,
    and `elastic` those whose size it decides on: a cycle looks at no others unless it preempts or borrows, so
    that its cost grows with the activity and not with the size of the cluster. `limits` is the sum of the
    limits of all pods on ready nodes. `now` is in seconds since the epoch.
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
