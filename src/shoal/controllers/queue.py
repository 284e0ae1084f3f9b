"""The work queue: which key is reconciled next. A key is never reconciled twice at the same time.

- A queued key is not queued again; one that changes during its reconcile is queued afterwards.
- Keys are served in the order in which they were queued, `max_concurrent` of them at the same time: a key
  that changes often goes to the end like any other.
- A key whose reconcile fails is retried after an exponential back-off; other keys are not affected. A change
  of the object ends the back-off, a success resets it.
- A reconcile may ask to be run again after some seconds (`requeue_after`), or for a `cooldown`: changes
  during it are collected, so that a key with a costly view that changes all the time does not use up the CPU.
- `stop` waits for the running reconciles and starts no new ones.

All waiting is done by the event loop: on a virtual clock nothing sleeps.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from shoal.cluster.backoff import Backoff, KeyedBackoff
from shoal.cluster.errors import ClusterError, ConflictError
from shoal.cluster.object_store import Key
from shoal.controllers.metrics import ControllerMetrics, QueueMetrics


class ReconcileResult(NamedTuple):
    """What follows a reconcile; times in seconds.

    `requeue_after`: when to reconcile the key again, if it does not change before; None: only if it changes.
    `cooldown`: for how long not to reconcile it, even if it changes.
    """

    requeue_after: float | None = None
    cooldown: float = 0.0


Reconcile = Callable[[Key], Awaitable[ReconcileResult]]
"""Reconciles the object of a key."""

DEFAULT_BACKOFF: Final = Backoff(0.05, 60.0, jitter=0.5)

_LOG: Final = logging.getLogger(__name__)
_MIN_DELAY: Final = 0.001
"""Seconds. Two clocks may differ by a rounding error: a timer that fires too early must not loop."""
_MAX_DELAY: Final = 600.0
"""Seconds. Wall clocks may jump and timers do not notice: a waiting key is reconciled at least this often."""


class _Timer(NamedTuple):
    """When a key is queued again; handles of uvloop do not always tell."""

    when: float
    handle: asyncio.Handle

    def cancel(self) -> None:
        self.handle.cancel()


class WorkQueue:
    """Keys that are to be reconciled."""

    def __init__(  # noqa: PLR0913 - all but two have defaults
        self,
        name: str,
        reconcile: Reconcile,
        *,
        max_concurrent: int = 4,
        backoff: Backoff = DEFAULT_BACKOFF,
        rng: random.Random | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """Keys may be added right away; reconciles begin with `start`. `rng` is for the back-off's jitter."""
        self._name: Final = name
        self._reconcile: Final = reconcile
        self._max_concurrent: Final = max_concurrent
        self._backoff: Final = KeyedBackoff[Key](backoff, rng or random.Random())  # noqa: S311 - no secrets
        self._queued: Final[dict[Key, float]] = {}
        """Keys in the order in which they are reconciled, and when each was queued."""
        self._running: Final[dict[Key, asyncio.Task[None]]] = {}
        self._changed: Final[set[Key]] = set()
        """Keys that changed during their reconcile."""
        self._failing: Final[set[Key]] = set()
        """Keys whose failure was logged."""
        self._timers: Final[dict[Key, _Timer]] = {}
        self._cooldowns: Final[dict[Key, float]] = {}
        """Until when keys are not to be reconciled, by the event loop's clock."""
        self._metrics: Final = QueueMetrics(metrics or ControllerMetrics(), name, self._queued.__len__)
        self._open = False

    def __len__(self) -> int:
        """Return how many keys are queued or being reconciled, without those that wait for a timer."""
        return len(self._queued) + len(self._running)

    # --- public -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to reconcile."""
        self._open = True
        self._start_reconciles()

    async def stop(self) -> None:
        """Start no new reconciles, and wait for the running ones."""
        self._open = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._running:
            await asyncio.wait(list(self._running.values()))

    def abort(self) -> None:
        """Cancel everything, as a crash would."""
        self._open = False
        for timer in self._timers.values():
            timer.cancel()
        for task in self._running.values():
            task.cancel()

    def add(self, key: Key) -> None:
        """Queue a key that has changed."""
        now = asyncio.get_running_loop().time()
        if key in self._running:
            self._changed.add(key)
        elif self._cooldowns.get(key, 0.0) > now:
            self._add_at(key, self._cooldowns[key])
        elif key not in self._queued:
            self._cooldowns.pop(key, None)
            self._queued[key] = now
            self._metrics.added()
            self._start_reconciles()

    # --- reconciles ---------------------------------------------------------------------------------------

    def _start_reconciles(self) -> None:
        loop = asyncio.get_running_loop()
        while self._open and self._queued and len(self._running) < self._max_concurrent:
            key = next(iter(self._queued))
            self._metrics.started(loop.time() - self._queued.pop(key))
            timer = self._timers.pop(key, None)
            if timer:
                timer.cancel()
            self._running[key] = loop.create_task(self._run(key))

    async def _run(self, key: Key) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        try:
            result = await self._reconcile(key)
            self._recovered(key)
            self._metrics.succeeded(now() - began, requeued=result.requeue_after is not None)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other keys are to be reconciled
            result = ReconcileResult(self._failed(key, error))
            self._metrics.failed(now() - began)
        finally:
            del self._running[key]
        self._schedule_next(key, result)
        self._start_reconciles()

    def _schedule_next(self, key: Key, result: ReconcileResult) -> None:
        now = asyncio.get_running_loop().time()
        if result.cooldown > _MIN_DELAY:
            self._cooldowns[key] = now + result.cooldown
        if key in self._changed:
            self._changed.discard(key)
            self.add(key)
        elif result.requeue_after is not None:
            self._add_at(key, now + min(max(result.requeue_after, _MIN_DELAY), _MAX_DELAY))

    def _add_at(self, key: Key, when: float) -> None:
        """Queue a key at a time, unless it will be queued before."""
        timer = self._timers.get(key)
        if not self._open or (timer and timer.when <= when):
            return
        if timer:
            timer.cancel()
        self._timers[key] = _Timer(when, asyncio.get_running_loop().call_at(when, self._timer_fired, key))

    def _timer_fired(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    def _recovered(self, key: Key) -> None:
        self._backoff.forget(key)
        if key in self._failing:
            self._failing.discard(key)
            _LOG.info("%s %s: reconciled again", self._name, _name_of(key))

    def _failed(self, key: Key, error: Exception) -> float:
        """Log a failure, and return the back-off in seconds."""
        name = _name_of(key)
        retry_after = None
        if isinstance(error, ConflictError):  # common: the view was stale
            _LOG.debug("%s %s: %s", self._name, name, error.message)
        elif isinstance(error, ClusterError):
            _LOG.warning("%s %s: %s", self._name, name, error.message)
            self._failing.add(key)
            retry_after = error.retry_after
        else:
            _LOG.error("%s %s failed", self._name, name, exc_info=error)
            self._failing.add(key)
        return self._backoff.fail(key, asyncio.get_running_loop().time(), retry_after=retry_after)


def _name_of(key: Key) -> str:
    return "/".join(filter(None, key))
