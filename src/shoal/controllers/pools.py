"""The status of Pools: what each has and how it is used, as the scheduler left it after a cycle.

The figures are the engine's. The scheduler hands them over (`Board.publish`) after each cycle; a Pool that
says something else is written, but not more often than every few seconds, however busy the cluster is.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from shoal.api.meta import Condition, View
from shoal.api.podspec import is_gpu
from shoal.api.pool import PoolStatus
from shoal.cluster.object_store import Key
from shoal.cluster.resources import POOLS
from shoal.cluster.times import moment
from shoal.controllers.changes import Changes, PatchStatus, status_patch
from shoal.controllers.runtime import Bell, Controller
from shoal.controllers.stores import Stores
from shoal.controllers.views import Meta, reader, reference
from shoal.engine.pools import Figures, figures
from shoal.engine.report import Step
from shoal.engine.resources import CPU, MEMORY, brief, shown
from shoal.engine.snapshot import Pool as Span
from shoal.engine.snapshot import Snapshot

_EVERY: Final = 5.0
"""Seconds between two writes of a pool's status."""
_AMOUNTS: Final = ("capacity", "allocatable", "used", "shared", "system", "borrowed", "pending")


class Pool(View, frozen=True, kw_only=True):
    """A Pool, as far as its status goes."""

    metadata: Meta
    status: PoolStatus | None = None


POOL: Final = POOLS.read_as(reader(Pool))


# --- figures -----------------------------------------------------------------------------------------------


def statuses(step: Step) -> dict[str, PoolStatus]:
    """What each pool is to say after a cycle; since when its conditions hold is not said here."""
    pools, sums = step.snapshot.pools, figures(step.snapshot, step.plan)
    return {pool.name: _status(step.snapshot, pool, one) for pool, one in zip(pools, sums, strict=True)}


def _status(snapshot: Snapshot, pool: Span, sums: Figures) -> PoolStatus:
    free = {name: max(amount - sums.used.get(name, 0), 0) for name, amount in sums.allocatable.items()}
    amounts = {name: _written(getattr(sums, name)) for name in _AMOUNTS}
    gpus = sorted(name for name in sums.used if is_gpu(name))
    return PoolStatus(
        **amounts,
        free=_written(free),
        nodes=len(snapshot.nodes.names[pool.span.columns]),
        pending_pods=sums.pending_pods,
        cpu=_share(sums, CPU),
        gpu=_share(sums, *gpus) if gpus else "",
        memory=_share(sums, MEMORY),
        preemption=pool.preemption,
        borrowing=pool.borrowing,
        sharing=pool.sharing,
        conditions=(_readiness(snapshot, pool),),
    )


def _written(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: shown(name, amount) for name, amount in amounts.items()}


def _share(sums: Figures, *names: str) -> str:
    """How much of some resources is used, of how much; for people."""
    used, there = (sum(some.get(name, 0) for name in names) for some in (sums.used, sums.allocatable))
    return f"{brief(names[0], used)}/{brief(names[0], there)}"


def _readiness(snapshot: Snapshot, pool: Span) -> Condition:
    """Whether a pool has a node that can take pods."""
    columns = pool.span.columns
    usable = int(np.count_nonzero((snapshot.nodes.ready & snapshot.nodes.open)[columns]))
    all_of_them = len(snapshot.nodes.names[columns])
    message = f"{usable} of {all_of_them} nodes can take pods"
    if usable:
        return Condition(type="Ready", status="True", reason="HasNodes", message=message)
    return Condition(
        type="Ready", status="False", reason="NoUsableNode" if all_of_them else "NoNodes", message=message
    )


# --- reconcile ---------------------------------------------------------------------------------------------


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """A Pool, what it is to say, and when there will be something newer to say."""

    pool: Pool
    status: PoolStatus | None
    again: float | None = None


def reconcile(view: PoolView, now: float) -> Changes:
    """What is to be written of a pool."""
    pool = view.pool
    if view.status is None:
        return Changes(again=view.again)
    wanted = _dated(view.status, pool.status, now)
    patch = msgspec.to_builtins(wanted) if pool.status is None else status_patch(pool.status, wanted)
    write = PatchStatus(resource=POOLS, name=pool.metadata.name, patch={"status": patch})
    return Changes(
        about=reference(POOLS, pool.metadata), stages=((write,),) if patch else (), again=view.again
    )


def _dated(wanted: PoolStatus, said: PoolStatus | None, now: float) -> PoolStatus:
    """The status with the times since when its conditions hold."""
    before = {one.type: one for one in said.conditions} if said else {}

    def since(one: Condition) -> Condition:
        old = before.get(one.type)
        time = old.last_transition_time if old and old.status == one.status else None
        return replace(one, last_transition_time=time or moment(now))

    return replace(wanted, conditions=tuple(map(since, wanted.conditions)))


# --- the controller ----------------------------------------------------------------------------------------


class Board:
    """Where the scheduler leaves its last cycle, and how the pools stood after it.

    To take a cycle costs nothing; the figures are worked out when somebody asks, every few seconds at most.
    """

    def __init__(self, clock: Callable[[], float], every: float = _EVERY) -> None:
        self.bell: Final = Bell()
        self._clock: Final = clock
        self._every: Final = every
        self._step: Step | None = None
        self._shown: Mapping[str, PoolStatus] = {}
        self._shown_at = -math.inf

    def publish(self, step: Step) -> None:
        """Take a cycle, and have the pools looked at."""
        self._step = step
        for pool in step.snapshot.pools:
            self.bell.ring(("", pool.name))

    def status(self, name: str) -> tuple[PoolStatus | None, float | None]:
        """How a pool stands, and when there will be something newer, if a newer cycle is there already."""
        now, due = self._clock(), self._shown_at + self._every
        if self._step is not None and not self._shown_at <= now < due:
            self._shown, self._shown_at, self._step = statuses(self._step), now, None
        return self._shown.get(name), None if self._step is None else due


def pool_controller(stores: Stores, board: Board) -> Controller[PoolView]:
    """The controller of Pools' status."""
    pools = stores.of(POOL)

    def look(key: Key) -> PoolView | None:
        pool = pools.items.get(key)
        if pool is None:
            return None
        status, again = board.status(key[1])
        return PoolView(pool=pool, status=status, again=again)

    return Controller(name="pool-controller", resource=POOL, look=look, reconcile=reconcile, bell=board.bell)
