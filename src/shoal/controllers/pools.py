"""The controller of Pools: writes what each has and how it is used, as it is after a scheduling cycle.

The amounts are computed by the engine. The scheduler passes on each cycle (`PoolStatusSource.publish`); a
Pool with another status is written, but at most every few seconds, however busy the cluster is.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from shoal.api.conditions import with_condition
from shoal.api.managed import ManagedMeta
from shoal.api.meta import Condition, View
from shoal.api.podspec import is_gpu
from shoal.api.pool import PoolStatus
from shoal.cluster.object_store import Key
from shoal.cluster.resources import Resource, resource_of
from shoal.cluster.times import to_datetime
from shoal.controllers.changes import Changes, PatchStatus, reference_to, status_patch
from shoal.controllers.resources import reader
from shoal.controllers.runtime import Controller, Trigger
from shoal.controllers.stores import Stores
from shoal.engine.report import CycleResult, PoolUsage, pool_usages
from shoal.engine.resources import CPU, MEMORY, format_amount, format_short
from shoal.engine.snapshot import Pool, Snapshot

_MIN_INTERVAL: Final = 5.0
"""Seconds between two writes of a pool's status."""
_AMOUNTS: Final = ("capacity", "allocatable", "used", "shared", "system", "borrowed", "pending")


class ManagedPool(View, frozen=True, kw_only=True):
    """A Pool, without the spec, which this controller does not read."""

    metadata: ManagedMeta
    status: PoolStatus | None = None


def _pool_resource() -> Resource[ManagedPool]:
    return resource_of("Pool").read_as(reader(ManagedPool))


# --- status ------------------------------------------------------------------------------------------------


def pool_statuses(cycle: CycleResult) -> dict[str, PoolStatus]:
    """Return the status of each pool after a cycle; its conditions have no transition times yet."""
    pools, usages = cycle.snapshot.pools, pool_usages(cycle.snapshot, cycle.plan)
    return {
        pool.name: _status(cycle.snapshot, pool, usage) for pool, usage in zip(pools, usages, strict=True)
    }


def _status(snapshot: Snapshot, pool: Pool, usage: PoolUsage) -> PoolStatus:
    free = {name: max(amount - usage.used.get(name, 0), 0) for name, amount in usage.allocatable.items()}
    amounts = {name: _format_amounts(getattr(usage, name)) for name in _AMOUNTS}
    gpus = sorted(name for name in usage.used if is_gpu(name))
    return PoolStatus(
        **amounts,
        free=_format_amounts(free),
        nodes=len(snapshot.nodes.names[pool.span.columns]),
        pending_pods=usage.pending_pods,
        cpu=_format_share(usage, CPU),
        gpu=_format_share(usage, *gpus) if gpus else "",
        memory=_format_share(usage, MEMORY),
        preemption=pool.preemption,
        borrowing=pool.borrowing,
        sharing=pool.sharing,
        conditions=(_ready_condition(snapshot, pool),),
    )


def _format_amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: format_amount(name, amount) for name, amount in amounts.items()}


def _format_share(usage: PoolUsage, *names: str) -> str:
    """Return how much of some resources is used, of how much; for people."""
    used, total = (sum(some.get(name, 0) for name in names) for some in (usage.used, usage.allocatable))
    return f"{format_short(names[0], used)}/{format_short(names[0], total)}"


def _ready_condition(snapshot: Snapshot, pool: Pool) -> Condition:
    """A pool is ready if it has a node that can take pods."""
    columns = pool.span.columns
    usable = int(np.count_nonzero((snapshot.nodes.ready & snapshot.nodes.schedulable)[columns]))
    total = len(snapshot.nodes.names[columns])
    message = f"{usable} of {total} nodes can take pods"
    if usable:
        return Condition(type="Ready", status="True", reason="HasNodes", message=message)
    return Condition(
        type="Ready", status="False", reason="NoUsableNode" if total else "NoNodes", message=message
    )


# --- reconcile ---------------------------------------------------------------------------------------------


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """A Pool, the status that it is to have, and when there will be a newer one."""

    pool: ManagedPool
    status: PoolStatus | None
    requeue_at: float | None = None


def reconcile(view: PoolView, now: float) -> Changes:
    """Write the status of a pool."""
    pool, resource = view.pool, resource_of("Pool")
    if view.status is None:
        return Changes(requeue_at=view.requeue_at)
    wanted = _with_transition_times(view.status, pool.status, now)
    patch = msgspec.to_builtins(wanted) if pool.status is None else status_patch(pool.status, wanted)
    write = PatchStatus(resource=resource, name=pool.metadata.name, patch={"status": patch})
    return Changes(
        regarding=reference_to(resource, pool.metadata),
        stages=((write,),) if patch else (),
        requeue_at=view.requeue_at,
    )


def _with_transition_times(wanted: PoolStatus, current: PoolStatus | None, now: float) -> PoolStatus:
    conditions = current.conditions if current else ()
    for condition in wanted.conditions:
        conditions = with_condition(conditions, condition, to_datetime(now))
    return replace(wanted, conditions=conditions)


# --- the controller ----------------------------------------------------------------------------------------


class PoolStatusSource:
    """The status of each pool after the last cycle that the scheduler published.

    Publishing a cycle costs nothing: statuses are computed when they are asked for, at most once in
    `min_interval` seconds, and when a pool is new.
    """

    def __init__(self, clock: Callable[[], float], min_interval: float = _MIN_INTERVAL) -> None:
        self.trigger: Final = Trigger()
        self._clock: Final = clock
        self._min_interval: Final = min_interval
        self._unread: CycleResult | None = None
        """The last cycle, until statuses are computed from it."""
        self._statuses: Mapping[str, PoolStatus] = {}
        self._computed_at = -math.inf

    def publish(self, cycle: CycleResult) -> None:
        """Take a cycle, and trigger the reconcile of its pools."""
        self._unread = cycle
        for pool in cycle.snapshot.pools:
            self.trigger.fire(("", pool.name))

    def status(self, name: str) -> tuple[PoolStatus | None, float | None]:
        """Return the status of a pool, and when there will be a newer one, if a newer cycle is known."""
        now, due = self._clock(), self._computed_at + self._min_interval
        is_recent = self._computed_at <= now < due and name in self._statuses
        if self._unread is not None and not is_recent:
            self._statuses, self._computed_at, self._unread = pool_statuses(self._unread), now, None
        return self._statuses.get(name), None if self._unread is None else due


def pool_controller(stores: Stores, source: PoolStatusSource) -> Controller[PoolView]:
    """Return the controller of the status of Pools."""
    resource = _pool_resource()
    pools = stores.of(resource)

    def get_view(key: Key) -> PoolView | None:
        pool = pools.items.get(key)
        if pool is None:
            return None
        status, requeue_at = source.status(key[1])
        return PoolView(pool=pool, status=status, requeue_at=requeue_at)

    return Controller(
        name="pool-controller",
        resource=resource,
        get_view=get_view,
        reconcile=reconcile,
        trigger=source.trigger,
    )
