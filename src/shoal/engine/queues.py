"""Queue order: in which order workloads are served.

Workloads ordered by priority precede those ordered by dominant share (DRF). Which of the two applies is
decided by the pool's queue policy, else the scheduler's, else the workload's own.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from shoal.engine.layout import exact_sums
from shoal.engine.resources import PODS
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import QueuePolicy, Workload

Key = tuple[Any, ...]


def queue_key(snapshot: Snapshot, policy: QueuePolicy | None) -> Callable[[Workload], Key]:
    """The sort key of workloads, comparable across pools; `policy` is the scheduler's queue policy."""
    totals = cluster_totals(snapshot)

    def key(workload: Workload) -> Key:
        chosen = snapshot.pools[workload.pool].queue_policy or policy or workload.queue_policy
        if chosen == "DRF":
            return (1, dominant_share(workload, totals), *workload.seniority)
        return workload.precedence

    return key


def cluster_totals(snapshot: Snapshot) -> Mapping[str, int]:
    """What all nodes have together. Pods count as 0: fairness does not extend to the number of pods."""
    totals = dict(zip(snapshot.nodes.layout.names, exact_sums(snapshot.nodes.alloc), strict=True))
    totals[PODS] = 0
    return totals


def dominant_share(workload: Workload, totals: Mapping[str, int]) -> Fraction:
    """The largest fraction of any resource of the cluster that its tasks request.

    Of an elastic workload only placed tasks and the minimum count, not the growth that it may get.
    """
    asked: dict[str, int] = {}
    for task in (*workload.placed, *workload.minimum_tasks) if workload.elastic else workload.tasks:
        for name, amount in task.shape.requests.items():
            asked[name] = asked.get(name, 0) + amount
    return max((Fraction(n, totals[name]) for name, n in asked.items() if totals[name]), default=Fraction(0))


def by_pool(workloads: Iterable[Workload]) -> dict[int, list[Workload]]:
    """Workloads by the number of their home pool."""
    homes: dict[int, list[Workload]] = {}
    for workload in workloads:
        homes.setdefault(workload.pool, []).append(workload)
    return homes
