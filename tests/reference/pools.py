"""Pools as a partition of the nodes, home pools of workloads, and the queue order of a pool."""

from datetime import datetime
from fractions import Fraction
from typing import Any

from tests.reference.model import Workload, capacity, dominant_share
from tests.reference.objects import Input, labels
from tests.reference.quantities import allocatable, total
from tests.reference.selectors import selects

Object = dict[str, Any]
Key = tuple[int | Fraction | bool | datetime | str, ...]


def nodes_by_pool(world: Input) -> dict[str, list[Object]]:
    """The nodes of each pool; a node that not exactly one pool selects is in the default pool."""
    pools: dict[str, list[Object]] = {one["metadata"]["name"]: [] for one in world.of_kind("Pool")}
    pools.setdefault("default", [])
    for _, node in sorted(world.nodes.items()):
        matching = [pool["metadata"]["name"] for pool in world.of_kind("Pool") if _matches(pool, node)]
        pools[matching[0] if len(matching) == 1 else "default"].append(node)
    return pools


def _matches(pool: Object, node: Object) -> bool:
    spec = pool.get("spec") or {}
    selector, wanted = spec.get("nodeSelector"), spec.get("nodeResources")
    if selector is None and not wanted:
        return False
    has = allocatable(node)
    return (selector is None or selects(selector, labels(node))) and all(has.get(r) for r in wanted or ())


def assign_pool(world: Input, job: Workload) -> None:
    """Set the home pool, and the reason WaitingForPool if it is not the requested one."""
    requested = job.requested_pool
    if requested is None or requested == "default" or _may_enter(world, requested, job.namespace):
        job.pool = requested or "default"
    else:
        job.reasons.append("WaitingForPool")


def _may_enter(world: Input, pool: str, namespace: str) -> bool:
    found = [one for one in world.of_kind("Pool") if one["metadata"]["name"] == pool]
    spaces = [labels(one) for one in world.of_kind("Namespace") if one["metadata"]["name"] == namespace]
    if not found:
        return False
    selector = (found[0].get("spec") or {}).get("namespaceSelector")
    return selector is None or selects(selector, spaces[0] if spaces else {})


def specs(world: Input) -> dict[str, Object]:
    """The spec of each pool; the default pool may have none."""
    written = {one["metadata"]["name"]: one.get("spec") or {} for one in world.of_kind("Pool")}
    return {"default": {}} | written


def lenders(world: Input, job: Workload) -> list[str]:
    """The pools from which the workload may borrow."""
    pools = specs(world)
    home = pools[job.pool]
    if home.get("disableBorrowing") or not job.preemptible:
        return []
    allowed = home.get("borrowingPools") or list(pools)
    return [name for name in pools if name in allowed and name != job.pool and shares(world, name)]


def shares(world: Input, pool: str) -> bool:
    return not specs(world)[pool].get("disableSharing")


def preemption_allowed(world: Input, job: Workload) -> bool:
    return job.may_preempt and not world.config.get("disablePreemption")


def preempts(world: Input, pool: str) -> bool:
    """Whether borrowers and lower priorities may be evicted from it; surplus instances always may."""
    return not specs(world)[pool].get("disablePreemption")


def borrows_first(world: Input, pool: str) -> bool:
    """The pool's own order, else the scheduler's."""
    return bool((specs(world)[pool].get("order") or world.config.get("order")) == "BorrowFirst")


def share(world: Input, job: Workload) -> Fraction:
    """The dominant share in the cluster of all its pods that have not finished."""
    requests = total(task.requests for task in job.tasks if not task.done)
    return dominant_share(requests, capacity(list(world.nodes.values())))


def in_order(world: Input, jobs: list[Workload]) -> list[Workload]:
    """Workloads in queue order, of one pool or of all: by priority first, then by share."""

    def key(job: Workload) -> Key:
        partly = bool(job.placed)
        last: Key = (not partly, job.created, job.namespace, job.name, job.kind)
        if _policy(world, job.pool, job) == "DRF":
            return (1, share(world, job), 0, *last)
        return (0, -job.priority, -(5 if job.job_priority is None else job.job_priority), *last)

    return sorted(jobs, key=key)


def queue(world: Input, pool: str, jobs: list[Workload]) -> list[Workload]:
    """The workloads whose home is the pool, in queue order."""
    return in_order(world, [job for job in jobs if job.pool == pool])


def _policy(world: Input, pool: str, job: Workload) -> str:
    """The queue policy of the pool, else the scheduler's, else the job's."""
    own = [
        (one.get("spec") or {}).get("queuePolicy")
        for one in world.of_kind("Pool")
        if one["metadata"]["name"] == pool
    ]
    return (own[0] if own else None) or world.config.get("queuePolicy") or job.queue_policy
