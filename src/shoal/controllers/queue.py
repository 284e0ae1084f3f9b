"""Whose turn it is: a queue of keys, each of which is worked on by itself, and never twice at once.

- A key that waits already is not queued again; one that changes while it is worked on is queued afterwards.
- First come, first served, `at_once` of them side by side: a busy key goes to the end like any other.
- A key whose work fails waits, longer from one failure to the next; others do not notice. A change that
  somebody makes meanwhile ends the waiting, success makes the next failure the first.
- Work may ask for its key to be looked at again after some seconds, or for a rest: what changes meanwhile is
  gathered, so that a key that is costly to look at and changes all the time does not eat up everything.
- `stop`: what is being worked on ends, and nothing new begins.

All waiting is the event loop's: on a virtual clock nothing sleeps.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import msgspec

from shoal.cluster.errors import ClusterError, ConflictError
from shoal.cluster.object_store import Key
from shoal.controllers.metrics import Measures, QueueMeasures


class Turn(NamedTuple):
    """What comes after the work on a key: in how many seconds to look again, and for how many not to."""

    again: float | None = None
    rest: float = 0.0


Work = Callable[[Key], Awaitable[Turn]]
"""Works on a key."""

_LOG: Final = logging.getLogger(__name__)
_SHORTEST: Final = 0.001
"""Two clocks may differ by a rounding: whoever is woken that much too early must not be woken for ever."""
_LONGEST: Final = 600.0
"""Clocks may jump, timers do not know: in so many seconds at the latest a key that waits is looked at."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a key waits after failures: about `first` seconds, then twice as long, `most` at most."""

    first: float = 0.05
    most: float = 60.0
    dice: random.Random = msgspec.field(default_factory=random.Random)

    def after(self, failures: int) -> float:
        """The wait after so many failures in a row; keys that failed together do not come back together."""
        longest = min(self.first * 2.0 ** min(failures - 1, 30), self.most)
        return longest * self.dice.uniform(0.5, 1.0)


class _Timer(NamedTuple):
    """When a key is looked at again; handles of uvloop do not always tell."""

    when: float
    handle: asyncio.Handle

    def cancel(self) -> None:
        self.handle.cancel()


class WorkQueue:
    """Keys that want to be worked on."""

    def __init__(
        self,
        name: str,
        work: Work,
        *,
        at_once: int = 4,
        patience: Patience | None = None,
        measures: Measures | None = None,
    ) -> None:
        """Keys may be added at once; work begins with `start`."""
        self._name: Final = name
        self._work: Final = work
        self._at_once: Final = at_once
        self._patience: Final = patience or Patience()
        self._waiting: Final[dict[Key, float]] = {}
        """Keys whose turn it will be, and since when they wait."""
        self._running: Final[dict[Key, asyncio.Task[None]]] = {}
        self._changed: Final[set[Key]] = set()
        """Keys that changed while they were worked on."""
        self._timers: Final[dict[Key, _Timer]] = {}
        self._rests: Final[dict[Key, float]] = {}
        """Until when keys are not to be worked on, by the event loop's clock."""
        self._failures: Final = Counter[Key]()
        self._measures: Final = QueueMeasures(measures or Measures(), name, self._waiting.__len__)
        self._open = False

    def __len__(self) -> int:
        """How many keys wait for their turn or are at it; those that wait for a time do not count."""
        return len(self._waiting) + len(self._running)

    # --- from outside -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to work."""
        self._open = True
        self._pump()

    async def stop(self) -> None:
        """Begin nothing new, and wait for what is being worked on."""
        self._open = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._running:
            await asyncio.wait(list(self._running.values()))

    def abort(self) -> None:
        """Drop everything where it is, as a crash would."""
        self._open = False
        for timer in self._timers.values():
            timer.cancel()
        for task in self._running.values():
            task.cancel()

    def add(self, key: Key) -> None:
        """Something happened to a key."""
        now = asyncio.get_running_loop().time()
        if key in self._running:
            self._changed.add(key)
        elif self._rests.get(key, 0.0) > now:
            self._look_at(key, self._rests[key])
        elif key not in self._waiting:
            self._rests.pop(key, None)
            self._waiting[key] = now
            self._measures.added()
            self._pump()

    # --- turns --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        while self._open and self._waiting and len(self._running) < self._at_once:
            key = next(iter(self._waiting))
            self._measures.begun(loop.time() - self._waiting.pop(key))
            timer = self._timers.pop(key, None)
            if timer:
                timer.cancel()
            self._running[key] = loop.create_task(self._turn(key))

    async def _turn(self, key: Key) -> None:
        now = asyncio.get_running_loop().time
        begun = now()
        try:
            turn = await self._work(key)
            self._failures.pop(key, None)
            self._measures.done(now() - begun, again=turn.again is not None)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other keys are to have their turns
            turn = Turn(self._failed(key, error))
            self._measures.failed(now() - begun)
        finally:
            del self._running[key]
        self._leave(key, turn)
        self._pump()

    def _leave(self, key: Key, turn: Turn) -> None:
        now = asyncio.get_running_loop().time()
        if turn.rest > _SHORTEST:
            self._rests[key] = now + turn.rest
        if key in self._changed:
            self._changed.discard(key)
            self.add(key)
        elif turn.again is not None:
            self._look_at(key, now + min(max(turn.again, _SHORTEST), _LONGEST))

    def _look_at(self, key: Key, when: float) -> None:
        """Add a key at a time, unless it will be before."""
        timer = self._timers.get(key)
        if not self._open or (timer and timer.when <= when):
            return
        if timer:
            timer.cancel()
        self._timers[key] = _Timer(when, asyncio.get_running_loop().call_at(when, self._due, key))

    def _due(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    def _failed(self, key: Key, error: Exception) -> float:
        """Say what went wrong, and for how long the key waits."""
        self._failures[key] += 1
        wait = self._patience.after(self._failures[key])
        name = "/".join(filter(None, key))
        if isinstance(error, ConflictError):  # everyday: somebody else wrote first
            _LOG.debug("%s %s: %s", self._name, name, error.message)
        elif isinstance(error, ClusterError):
            _LOG.warning("%s %s: %s", self._name, name, error.message)
            wait = max(wait, min(error.retry_after or 0.0, self._patience.most))
        else:
            _LOG.error("%s %s failed", self._name, name, exc_info=error)
        return wait
