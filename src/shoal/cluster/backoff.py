"""Exponential back-off: how long to wait after failures in a row.

`Backoff` is the rule, a value without state; `KeyedBackoff` counts failures per key and applies the rule.
Both are pure: the current time and the random number generator are passed in, and nothing here sleeps. All
times are seconds.

    backoff = Backoff(0.2, 30.0, jitter=0.5)
    backoff.delay(1, rng)                # 0.1 to 0.2
    backoff.delay(3, rng, retry_after=7)  # at least 7: the server asked for it

    blocked = KeyedBackoff[str](Backoff(1.0, 60.0))
    blocked.fail("job-a", now)   # 1.0; the next failure 2.0, then 4.0
    blocked.active(now + 0.5)    # {"job-a"}
    blocked.forget("job-a")      # success: the next failure is the first again
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    import random  # annotations only: commands import this module, and should start quickly

K = TypeVar("K", bound=Hashable)

_MAX_EXPONENT: Final = 30
"""Limit of the exponent: larger ones add nothing below any sensible maximum, and could overflow."""


class Backoff(msgspec.Struct, frozen=True):
    """Exponential back-off: `initial` seconds after the first failure, each next one `factor` times as long.

    With a random number generator a delay is drawn from `[(1 - jitter) * full, full]`, so that callers which
    failed together do not retry together.
    """

    initial: float
    maximum: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay(
        self, failures: int, rng: "random.Random | None" = None, *, retry_after: float | None = None
    ) -> float:
        """Return the delay after `failures` failures in a row; 0.0 after none.

        `retry_after` is the delay that a server asked for: the result is at least that long, but a server
        cannot ask for more than `maximum`.
        """
        if failures <= 0:
            return 0.0
        full = min(self.initial * self.factor ** min(failures - 1, _MAX_EXPONENT), self.maximum)
        if rng is not None and self.jitter:
            full *= rng.uniform(1.0 - self.jitter, 1.0)
        return max(full, min(retry_after or 0.0, self.maximum))


class _KeyState(msgspec.Struct):
    """Failures in a row of one key, and the time at which its back-off ends."""

    failures: int
    until: float


class KeyedBackoff(Generic[K]):
    """Failures in a row per key, and until when each key is in back-off.

    Times are those of one clock, the caller's; it must not run backwards.
    """

    def __init__(self, backoff: Backoff, rng: "random.Random | None" = None) -> None:
        self.backoff: Final = backoff
        self._rng: Final = rng
        self._keys: Final[dict[K, _KeyState]] = {}

    def __len__(self) -> int:
        """Return the number of keys with failures."""
        return len(self._keys)

    def fail(self, key: K, now: float, *, retry_after: float | None = None) -> float:
        """Count a failure of a key; return the delay until it may be tried again."""
        failures = self.failures(key) + 1
        delay = self.backoff.delay(failures, self._rng, retry_after=retry_after)
        self._keys[key] = _KeyState(failures, now + delay)
        return delay

    def forget(self, key: K) -> None:
        """Forget the failures of a key: it succeeded, or is gone."""
        self._keys.pop(key, None)

    def failures(self, key: K) -> int:
        """Return the number of failures in a row of a key."""
        state = self._keys.get(key)
        return 0 if state is None else state.failures

    def active(self, now: float) -> set[K]:
        """Return the keys that are in back-off."""
        return {key for key, state in self._keys.items() if state.until > now}

    def next_expiry(self, now: float) -> float | None:
        """Return the time at which the next back-off ends; None if no key is in back-off."""
        return min((state.until for state in self._keys.values() if state.until > now), default=None)

    def expire(self, now: float) -> None:
        """Forget keys whose back-off ended more than `maximum` ago: they start again from `initial`."""
        expired = [key for key, state in self._keys.items() if now - state.until > self.backoff.maximum]
        for key in expired:
            del self._keys[key]
