"""Exponential back-off: a table of delays, and properties that hold for any settings and any failures."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.backoff import Backoff, KeyedBackoff

ONE_TO_EIGHT = Backoff(1.0, 8.0)
CASES: dict[str, tuple[Backoff, dict[str, Any], list[float]]] = {
    "doubles up to the maximum": (ONE_TO_EIGHT, {}, [0.0, 1.0, 2.0, 4.0, 8.0, 8.0]),
    "another factor": (Backoff(1.0, 100.0, factor=3.0), {}, [0.0, 1.0, 3.0, 9.0, 27.0, 81.0, 100.0]),
    "an initial delay above the maximum": (Backoff(10.0, 8.0), {}, [0.0, 8.0, 8.0]),
    "a server that asks for more": (ONE_TO_EIGHT, {"retry_after": 3.0}, [0.0, 3.0, 3.0, 4.0, 8.0]),
    "a server that asks for too much": (ONE_TO_EIGHT, {"retry_after": 3600.0}, [0.0, 8.0, 8.0, 8.0]),
    "jitter without a random number generator": (Backoff(1.0, 8.0, jitter=0.5), {}, [0.0, 1.0, 2.0]),
}


@pytest.mark.parametrize("backoff, options, delays", CASES.values(), ids=CASES)
def test_delays(backoff: Backoff, options: dict[str, Any], delays: list[float]) -> None:
    assert [backoff.delay(failures, **options) for failures in range(len(delays))] == delays


def test_delays_with_jitter_are_spread() -> None:
    backoff, rng = Backoff(1.0, 8.0, jitter=0.5), random.Random(1)
    delays = [backoff.delay(failures, rng) for failures in range(1, 2000)]
    assert all(full / 2 <= delay <= full for full, delay in zip((1, 2, 4, 8), delays, strict=False))
    assert all(4.0 <= delay <= 8.0 for delay in delays[3:])
    assert len(set(delays)) > 100


seconds = st.floats(0.001, 1e4)
backoffs = st.builds(Backoff, seconds, seconds, factor=st.floats(1.0, 10.0), jitter=st.floats(0.0, 1.0))


@given(backoffs, st.integers(0, 10**6), st.integers(), st.none() | seconds)
def test_a_delay_is_bounded_and_reproducible(
    backoff: Backoff, failures: int, seed: int, retry_after: float | None
) -> None:
    full = backoff.delay(failures)
    assert full <= backoff.delay(failures + 1) <= backoff.maximum
    drawn = backoff.delay(failures, random.Random(seed), retry_after=retry_after)
    assert drawn == backoff.delay(failures, random.Random(seed), retry_after=retry_after)
    assert 0.0 <= drawn <= backoff.maximum
    if retry_after is None:
        assert (1.0 - backoff.jitter) * full <= drawn <= full
    elif failures:
        assert drawn >= min(retry_after, backoff.maximum)


def test_keys_back_off_separately() -> None:
    keyed = KeyedBackoff[str](ONE_TO_EIGHT)
    assert [keyed.fail("a", 0.0), keyed.fail("a", 1.0), keyed.fail("b", 1.0)] == [1.0, 2.0, 1.0]
    assert (keyed.active(1.5), keyed.next_expiry(1.5)) == ({"a", "b"}, 2.0)
    assert (keyed.active(2.0), keyed.next_expiry(2.0)) == ({"a"}, 3.0)
    assert (keyed.active(3.0), keyed.next_expiry(3.0)) == (set(), None)
    assert (keyed.failures("a"), keyed.failures("b"), keyed.failures("c")) == (2, 1, 0)


def test_a_key_that_is_forgotten_starts_from_the_initial_delay() -> None:
    keyed = KeyedBackoff[str](ONE_TO_EIGHT)
    keyed.fail("a", 0.0)
    keyed.forget("a")
    keyed.forget("unknown")
    assert keyed.active(0.0) == set()
    assert keyed.fail("a", 0.0) == 1.0


def test_a_key_expires_when_its_back_off_ended_more_than_the_maximum_ago() -> None:
    keyed = KeyedBackoff[str](ONE_TO_EIGHT)
    keyed.fail("a", 0.0)
    keyed.expire(9.0)  # the back-off ended at 1.0, the maximum is 8.0
    assert len(keyed) == 1
    keyed.expire(9.1)
    assert len(keyed) == 0


class Model:
    """Back-off per key, in the most obvious way."""

    def __init__(self) -> None:
        self.failed: dict[str, tuple[int, float]] = {}

    def fail(self, key: str, now: float) -> float:
        failures = self.failed.get(key, (0, 0.0))[0]
        delay = min(1.0 * 2.0**failures, 8.0)
        self.failed[key] = (failures + 1, now + delay)
        return delay


steps = st.tuples(st.sampled_from(["fail", "forget", "expire"]), st.sampled_from("abc"), st.integers(0, 12))


@given(st.lists(steps))
def test_keyed_back_off_agrees_with_a_model(script: list[tuple[str, str, int]]) -> None:
    keyed, model, now = KeyedBackoff[str](ONE_TO_EIGHT), Model(), 0.0
    for action, key, passed in script:
        now += passed
        if action == "fail":
            assert keyed.fail(key, now) == model.fail(key, now)
        elif action == "forget":
            keyed.forget(key)
            model.failed.pop(key, None)
        else:
            keyed.expire(now)
            model.failed = {k: state for k, state in model.failed.items() if now - state[1] <= 8.0}
        active = {k: until for k, (_, until) in model.failed.items() if until > now}
        assert (keyed.active(now), len(keyed)) == (set(active), len(model.failed))
        assert keyed.next_expiry(now) == min(active.values(), default=None)
