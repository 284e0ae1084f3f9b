"""Pools as a partition of the nodes, who is at home where, and the order of a pool's queue."""

from datetime import datetime
from fractions import Fraction
from typing import Any

from tests.reference.model import Workload, capacity, dominant_share
from tests.reference.objects import Input, labels
from tests.reference.quantities import allocatable, total
from tests.reference.selectors import selects

Object = dict[str, Any]
Key = tuple[int | Fraction | bool | datetime | str, ...]


def members(world: Input) -> dict[str, list[Object]]:
    """The nodes of each pool: a node is in the one named pool that matches it, else in the default pool."""
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


def send_home(world: Input, job: Workload) -> None:
    """Set the workload's home pool, and tell it when that is not the one it wished for."""
    wished = job.wished_pool
    if wished is None or wished == "default" or _may_enter(world, wished, job.namespace):
        job.pool = wished or "default"
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
    """What each pool says of itself; the default pool may say nothing."""
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


def may_make_room(world: Input, job: Workload) -> bool:
    return job.makes_room and not world.config.get("disablePreemption")


def preempts(world: Input, pool: str) -> bool:
    """Whether strangers and lower classes may have to leave it; extra instances may in any case."""
    return not specs(world)[pool].get("disablePreemption")


def borrows_first(world: Input, pool: str) -> bool:
    """The pool's own order, else the scheduler's."""
    return bool((specs(world)[pool].get("order") or world.config.get("order")) == "BorrowFirst")


def share(world: Input, job: Workload) -> Fraction:
    """The dominant share of all its pods, but those that have ended, in the whole cluster."""
    asked = total(task.requests for task in job.tasks if not task.done)
    return dominant_share(asked, capacity(list(world.nodes.values())))


def in_order(world: Input, jobs: list[Workload]) -> list[Workload]:
    """The workloads, of one pool or of all: those by priority first, then those by share."""

    def key(job: Workload) -> Key:
        partly = bool(job.placed)
        last: Key = (not partly, job.created, job.namespace, job.name, job.kind)
        if _policy(world, job.pool, job) == "DRF":
            return (1, share(world, job), 0, *last)
        return (0, -job.priority, -(5 if job.job_priority is None else job.job_priority), *last)

    return sorted(jobs, key=key)


def queue(world: Input, pool: str, jobs: list[Workload]) -> list[Workload]:
    """The workloads at home in the pool."""
    return in_order(world, [job for job in jobs if job.pool == pool])


def _policy(world: Input, pool: str, job: Workload) -> str:
    """The pool's, else the scheduler's, else the job's."""
    own = [
        (one.get("spec") or {}).get("queuePolicy")
        for one in world.of_kind("Pool")
        if one["metadata"]["name"] == pool
    ]
    return (own[0] if own else None) or world.config.get("queuePolicy") or job.queue_policy
