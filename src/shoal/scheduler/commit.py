"""Committer: decisions become concurrent writes, and count from the moment they are made.

No cycle waits for a write: a decided write is assumed (`cache.assumptions`) until the watch confirms it. A
write that is refused is forgotten, and its workload is in back-off before it is planned again. Writes of
different pools do not wait for each other: each pool has a semaphore of its own.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from shoal.cache.assumptions import Assumption
from shoal.cache.world import World
from shoal.cluster.backoff import KeyedBackoff
from shoal.cluster.errors import ClusterError
from shoal.scheduler.decisions import Bind, Decision, Evict
from shoal.scheduler.metrics import log_event
from shoal.scheduler.status_reporter import DecisionObserver
from shoal.scheduler.writes import Writes

_LOG: Final = logging.getLogger(__name__)


class _Work(msgspec.Struct, eq=False, kw_only=True):
    """A decision in progress. `recorded` tells whether the writes that must come first were made, if any."""

    decision: Decision
    job_status: Assumption | None
    pod_patches: list[Assumption | None]
    binds: list[Assumption | None]
    evictions: list[Assumption | None]
    recorded: asyncio.Future[bool] | None


class Committer:
    """Carries out decisions."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        world: World,
        writes: Writes,
        backoff: KeyedBackoff[str],
        observer: DecisionObserver,
        wake: Callable[[], None],
        *,
        concurrency: int = 32,
    ) -> None:
        """At most `concurrency` writes of each pool are in progress; `wake` is called to plan again."""
        self._world, self._writes, self._backoff = world, writes, backoff
        self._observer, self._wake = observer, wake
        self._pools: Final = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(concurrency))
        self._works: Final[dict[str, asyncio.Task[None]]] = {}
        self._waiting: Final = set[str]()

    @property
    def in_progress(self) -> int:
        """Number of decisions that are being written."""
        return len(self._works)

    def is_busy(self, workload: str) -> bool:
        """Whether writes of a workload are in progress."""
        return workload in self._works

    def in_backoff(self) -> set[str]:
        """Keys of workloads that are in back-off after a refused write."""
        now = asyncio.get_running_loop().time()
        self._backoff.expire(now)
        return self._backoff.active(now)

    def commit(self, decisions: Iterable[Decision]) -> None:
        """Start to write decisions; they count from now on.

        A workload with writes in progress waits for the next cycle, and with it the evictions in its favour.
        """
        blocked = self.in_backoff()
        chosen = {one.workload: one for one in decisions if self._may_begin(one, blocked)}
        unready = (self._works.keys() | blocked) - chosen.keys()
        works = {key: self._assume(_without_evictions_for(one, unready)) for key, one in chosen.items()}
        for key, work in works.items():
            task = asyncio.get_running_loop().create_task(self._carry_out(work, works))
            self._works[key] = task

    async def finish(self) -> None:
        """Wait until all writes in progress have ended."""
        while self._works:
            await asyncio.wait(self._works.values())

    def cancel(self) -> None:
        """Cancel all writes in progress; the next scheduler continues from what is written."""
        for task in self._works.values():
            task.cancel()

    def _may_begin(self, decision: Decision, blocked: set[str]) -> bool:
        if decision.workload in self._works:
            self._waiting.add(decision.workload)
            return False
        return decision.workload not in blocked

    # --- assuming -----------------------------------------------------------------------------------------

    def _assume(self, decision: Decision) -> _Work:
        """Assume all writes of a decision."""
        world, write = self._world, decision.job_status
        return _Work(
            decision=decision,
            job_status=world.assume_status(write.kind, write.key, **write.changes) if write else None,
            pod_patches=[world.assume_marked(patch.key, **patch.changes) for patch in decision.pod_patches],
            binds=[world.assume_bound(bind.key, bind.node) for bind in decision.binds],
            evictions=[world.assume_leaving(one.key) for one in decision.evictions],
            recorded=asyncio.get_running_loop().create_future() if write or decision.pod_patches else None,
        )

    # --- writing ------------------------------------------------------------------------------------------

    async def _carry_out(self, work: _Work, others: dict[str, _Work]) -> None:
        """Carry out a decision; errors end in back-off."""
        key = work.decision.workload
        try:
            await self._write_all(work, others)
        except Exception:  # noqa: BLE001 - an error in one decision must not stop the others
            _LOG.exception("decision for %s", key)
            self._forget(work.job_status, *work.pod_patches, *work.binds, *work.evictions)
            self._fail(key)
        finally:
            if work.recorded is not None and not work.recorded.done():
                work.recorded.set_result(False)
            del self._works[key]
            if key in self._waiting or key in self.in_backoff():
                self._waiting.discard(key)
                self._wake()

    async def _write_all(self, work: _Work, others: dict[str, _Work]) -> None:
        """Make the writes that must come first, then all others concurrently."""
        if work.recorded is not None:
            work.recorded.set_result(await self._record(work))
            if not work.recorded.result():
                self._forget(*work.binds, *work.evictions)
                return
        binds = zip(work.decision.binds, work.binds, strict=True)
        writes = [self._bind(work, bind, assumption) for bind, assumption in binds]
        await _concurrently([*writes, self._evict_all(work, others)] if work.evictions else writes)

    async def _record(self, work: _Work) -> bool:
        """Write the status of the job, or the nominations of its pods; return whether all were written."""
        decision = work.decision
        patches = zip(decision.pod_patches, work.pod_patches, strict=True)
        writes = [
            self._write(work, "mark", partial(self._writes.patch_pod, patch), assumption)
            for patch, assumption in patches
        ]
        if decision.job_status:
            write = partial(self._writes.patch_job_status, decision.job_status)
            writes.append(self._write(work, "status", write, work.job_status))
        return all(await _concurrently(writes))

    async def _bind(self, work: _Work, bind: Bind, assumption: Assumption | None) -> bool:
        done = await self._write(work, "bind", partial(self._writes.bind, bind), assumption)
        if done:
            self._observer.bound(work.decision.pool, bind)
        return done

    async def _evict_all(self, work: _Work, others: dict[str, _Work]) -> bool:
        """Evict pods, once the room is reserved for the workload that gets it.

        The first pod is evicted alone. If all of a workload must go, its record says so: after a crash the
        next scheduler continues with the others.
        """
        first, *rest = zip(work.decision.evictions, work.evictions, strict=True)
        done = await self._evict(work, others, *first)
        return all([done, *await _concurrently([self._evict(work, others, *one) for one in rest])])

    async def _evict(
        self, work: _Work, others: dict[str, _Work], eviction: Evict, assumption: Assumption | None
    ) -> bool:
        beneficiary = others.get(eviction.record.beneficiary)
        if beneficiary and beneficiary.recorded and not await asyncio.shield(beneficiary.recorded):
            self._forget(assumption)
            return False
        done = await self._write(work, "evict", partial(self._writes.evict, eviction), assumption)
        if done:
            self._observer.evicted(work.decision.pool, eviction)
        return done

    async def _write(
        self,
        work: _Work,
        kind: str,
        write: Callable[[], Awaitable[int | None]],
        assumption: Assumption | None,
    ) -> bool:
        """Make a write within the concurrency of its pool; if it is refused, its assumption is forgotten."""
        loop, key = asyncio.get_running_loop(), work.decision.workload
        async with self._pools[work.decision.pool]:
            begun = loop.time()
            try:
                version = await write()
            except ClusterError as error:
                self._observer.refused(kind, error, loop.time() - begun)
                self._refuse(key, kind, assumption, error)
                return False
        self._observer.written(kind, loop.time() - begun)
        self._recovered(key, kind)
        if version and assumption:
            self._world.written(assumption, version)
        return True

    def _recovered(self, key: str, kind: str) -> None:
        if self._backoff.failures(key):
            log_event(_LOG, logging.INFO, "write accepted again", workload=key, write=kind)
        self._backoff.forget(key)

    def _refuse(self, key: str, kind: str, assumption: Assumption | None, error: ClusterError) -> None:
        self._forget(assumption)
        self._fail(key)
        log_event(
            _LOG, logging.WARNING, "write refused", workload=key, write=kind, reason=error.reason, error=error
        )

    def _fail(self, key: str) -> None:
        self._backoff.fail(key, asyncio.get_running_loop().time())

    def _forget(self, *assumptions: Assumption | None) -> None:
        for assumption in assumptions:
            if assumption is not None:
                self._world.forget(assumption)


def _without_evictions_for(decision: Decision, unready: AbstractSet[str]) -> Decision:
    """A decision without evictions in favour of workloads whose room is not being reserved now.

    The job then keeps its status, too: it would describe what does not happen.
    """
    if not decision.evictions:
        return decision
    evictions = tuple(one for one in decision.evictions if one.uid)
    left = tuple(one for one in evictions if one.record.beneficiary not in unready)
    job_status = decision.job_status if len(left) == len(evictions) else None
    return replace(decision, evictions=left, job_status=job_status)


async def _concurrently(writes: list[Coroutine[Any, Any, bool]]) -> list[bool]:
    """Make writes concurrently; a single one without the cost of a task."""
    return [await write for write in writes] if len(writes) <= 1 else await asyncio.gather(*writes)
