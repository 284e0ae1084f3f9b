"""Queues: in which order the workloads of a pool are served.

Those ordered by priority go before those ordered by dominant share. The pool's policy counts, else the
scheduler's, else the workload's own.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from shoal.engine.resources import PODS, exact_sums
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import QueuePolicy, Workload

Key = tuple[Any, ...]


def queue_key(snapshot: Snapshot, policy: QueuePolicy | None) -> Callable[[Workload], Key]:
    """What workloads are sorted by, across pools too; `policy` is the scheduler's."""
    totals = cluster_totals(snapshot)

    def key(workload: Workload) -> Key:
        chosen = snapshot.pools[workload.pool].queue_policy or policy or workload.queue_policy
        if chosen == "DRF":
            return (1, dominant_share(workload, totals), *workload.seniority)
        return workload.precedence

    return key


def cluster_totals(snapshot: Snapshot) -> Mapping[str, int]:
    """What all nodes have together; the number of pods is no resource to be fair about."""
    totals = dict(zip(snapshot.nodes.layout.names, exact_sums(snapshot.nodes.alloc), strict=True))
    totals[PODS] = 0
    return totals


def dominant_share(workload: Workload, totals: Mapping[str, int]) -> Fraction:
    """The largest part of any resource of the cluster that its tasks ask for; growth counts once there."""
    asked: dict[str, int] = {}
    for task in (*workload.placed, *workload.minimum_tasks) if workload.elastic else workload.tasks:
        for name, amount in task.shape.requests.items():
            asked[name] = asked.get(name, 0) + amount
    return max((Fraction(n, totals[name]) for name, n in asked.items() if totals[name]), default=Fraction(0))


def by_pool(workloads: Iterable[Workload]) -> dict[int, list[Workload]]:
    """Workloads by their home pool."""
    homes: dict[int, list[Workload]] = {}
    for workload in workloads:
        homes.setdefault(workload.pool, []).append(workload)
    return homes
