"""Commit: decisions become writes, side by side, and each counts from the moment it is made.

No cycle waits for a write: what was decided is assumed (`world.assumptions`) until the cluster tells of it. A
write that is refused is forgotten, and its workload rests before it is planned again. Writes of one pool wait
for those of no other: each pool has a lane of its own.
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
from shoal.cluster.errors import ClusterError
from shoal.scheduler.backoff import Rests
from shoal.scheduler.decisions import Bind, Decision, Evict
from shoal.scheduler.metrics import tell
from shoal.scheduler.observer import Observer
from shoal.scheduler.writes import Writes

_LOG: Final = logging.getLogger(__name__)


class _Work(msgspec.Struct, eq=False, kw_only=True):
    """A decision under way. `noted` tells whether what had to be written down first has been, if anything."""

    decision: Decision
    restated: Assumption | None
    marked: list[Assumption | None]
    bound: list[Assumption | None]
    leaving: list[Assumption | None]
    noted: asyncio.Future[bool] | None


class Committer:
    """Makes decisions come true."""

    def __init__(  # noqa: PLR0913 - who it works for and with
        self,
        world: World,
        writes: Writes,
        rests: Rests,
        observer: Observer,
        wake: Callable[[], None],
        *,
        at_once: int = 32,
    ) -> None:
        """Of the writes of each pool, `at_once` are made at once; `wake` is told when to plan again."""
        self._world, self._writes, self._rests = world, writes, rests
        self._observer, self._wake = observer, wake
        self._lanes: Final = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(at_once))
        self._works: Final[dict[str, asyncio.Task[None]]] = {}
        self._waiting: Final = set[str]()

    @property
    def under_way(self) -> int:
        """How many decisions are being written."""
        return len(self._works)

    def is_busy(self, workload: str) -> bool:
        """Whether something is being written for a workload."""
        return workload in self._works

    def commit(self, decisions: Iterable[Decision]) -> None:
        """Begin to write decisions down; they count from now on.

        A workload for which a write is under way waits for the next cycle, and with it whoever was to leave
        for it.
        """
        resting = self._rests.resting()
        chosen = {one.workload: one for one in decisions if self._may_begin(one, resting)}
        unready = (self._works.keys() | resting) - chosen.keys()
        works = {key: self._assumed(_without_some(one, unready)) for key, one in chosen.items()}
        for key, work in works.items():
            task = asyncio.get_running_loop().create_task(self._carry_out(work, works))
            self._works[key] = task

    async def finish(self) -> None:
        """Wait until all that was begun has been done."""
        while self._works:
            await asyncio.wait(self._works.values())

    def cancel(self) -> None:
        """Begin and finish nothing any more: what is half done is gone on with by whoever comes next."""
        for task in self._works.values():
            task.cancel()

    def _may_begin(self, decision: Decision, resting: set[str]) -> bool:
        if decision.workload in self._works:
            self._waiting.add(decision.workload)
            return False
        return decision.workload not in resting

    # --- assuming -----------------------------------------------------------------------------------------

    def _assumed(self, decision: Decision) -> _Work:
        """Let a decision count."""
        world, write = self._world, decision.restate
        return _Work(
            decision=decision,
            restated=world.assume_status(write.kind, write.key, **write.changes) if write else None,
            marked=[world.assume_marked(mark.key, **mark.changes) for mark in decision.marks],
            bound=[world.assume_bound(bind.key, bind.node) for bind in decision.binds],
            leaving=[world.assume_leaving(one.key) for one in decision.evictions],
            noted=asyncio.get_running_loop().create_future() if write or decision.marks else None,
        )

    # --- writing ------------------------------------------------------------------------------------------

    async def _carry_out(self, work: _Work, others: dict[str, _Work]) -> None:
        """Carry a decision out, whatever comes of it."""
        key = work.decision.workload
        try:
            await self._write_all(work, others)
        except Exception:  # noqa: BLE001 - whatever went wrong with one, the others go on
            _LOG.exception("decision for %s", key)
            self._forget(work.restated, *work.marked, *work.bound, *work.leaving)
            self._rests.refuse(key)
        finally:
            if work.noted is not None and not work.noted.done():
                work.noted.set_result(False)
            del self._works[key]
            if key in self._waiting or key in self._rests.resting():
                self._waiting.discard(key)
                self._wake()

    async def _write_all(self, work: _Work, others: dict[str, _Work]) -> None:
        """Write what must be known first, then all the rest side by side."""
        if work.noted is not None:
            work.noted.set_result(await self._note(work))
            if not work.noted.result():
                self._forget(*work.bound, *work.leaving)
                return
        binds = zip(work.decision.binds, work.bound, strict=True)
        writes = [self._bind(work, bind, guess) for bind, guess in binds]
        await _side_by_side([*writes, self._send_away(work, others)] if work.leaving else writes)

    async def _note(self, work: _Work) -> bool:
        """Write the job's status, or what its pods say of themselves; whether all of it was written."""
        decision = work.decision
        marks = zip(decision.marks, work.marked, strict=True)
        writes = [self._write(work, "mark", partial(self._writes.mark, mark), guess) for mark, guess in marks]
        if decision.restate:
            restate = partial(self._writes.restate, decision.restate)
            writes.append(self._write(work, "status", restate, work.restated))
        return all(await _side_by_side(writes))

    async def _bind(self, work: _Work, bind: Bind, guess: Assumption | None) -> bool:
        done = await self._write(work, "bind", partial(self._writes.bind, bind), guess)
        if done:
            self._observer.bound(work.decision.pool, bind)
        return done

    async def _send_away(self, work: _Work, others: dict[str, _Work]) -> bool:
        """Tell pods that they must go, once the room is written down for whom it is, and delete them.

        The first is told alone. If all of a workload must go it is told so: should it end there, whoever
        comes next goes on with the others.
        """
        first, *rest = zip(work.decision.evictions, work.leaving, strict=True)
        done = await self._evict(work, others, *first)
        return all([done, *await _side_by_side([self._evict(work, others, *one) for one in rest])])

    async def _evict(
        self, work: _Work, others: dict[str, _Work], eviction: Evict, guess: Assumption | None
    ) -> bool:
        beneficiary = others.get(eviction.doom.beneficiary)
        if beneficiary and beneficiary.noted and not await asyncio.shield(beneficiary.noted):
            self._forget(guess)
            return False
        done = await self._write(work, "evict", partial(self._writes.evict, eviction), guess)
        if done:
            self._observer.evicted(work.decision.pool, eviction)
        return done

    async def _write(
        self,
        work: _Work,
        kind: str,
        write: Callable[[], Awaitable[int | None]],
        guess: Assumption | None,
    ) -> bool:
        """Make a write in the lane of its pool; whether it was made. If not, it never counted."""
        loop, key = asyncio.get_running_loop(), work.decision.workload
        async with self._lanes[work.decision.pool]:
            begun = loop.time()
            try:
                version = await write()
            except ClusterError as error:
                self._observer.refused(kind, error, loop.time() - begun)
                self._refuse(key, kind, guess, error)
                return False
        self._observer.written(kind, loop.time() - begun)
        self._rests.succeed(key)
        if version and guess:
            self._world.written(guess, version)
        return True

    def _refuse(self, key: str, kind: str, guess: Assumption | None, error: ClusterError) -> None:
        self._forget(guess)
        self._rests.refuse(key)
        tell(
            _LOG, logging.WARNING, "write refused", workload=key, write=kind, reason=error.reason, error=error
        )

    def _forget(self, *guesses: Assumption | None) -> None:
        for guess in guesses:
            if guess is not None:
                self._world.forget(guess)


def _without_some(decision: Decision, unready: AbstractSet[str]) -> Decision:
    """A decision that sends nobody away for those whose room is not being written down now.

    The job then keeps its status, too: it would tell of what does not happen.
    """
    if not decision.evictions:
        return decision
    evictions = tuple(one for one in decision.evictions if one.uid)
    left = tuple(one for one in evictions if one.doom.beneficiary not in unready)
    restate = decision.restate if len(left) == len(evictions) else None
    return replace(decision, evictions=left, restate=restate)


async def _side_by_side(writes: list[Coroutine[Any, Any, bool]]) -> list[bool]:
    """Make writes at once, without the cost of a task where there is one alone."""
    return [await write for write in writes] if len(writes) <= 1 else await asyncio.gather(*writes)
