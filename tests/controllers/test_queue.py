"""The work queue: the order of keys, back-off, cool-down, stopping."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.backoff import Backoff
from shoal.cluster.errors import ConflictError, TooManyRequestsError
from shoal.cluster.object_store import Key
from shoal.controllers.queue import Reconcile, ReconcileResult, WorkQueue
from tests.controllers.virtual_time import run_virtual

A, B, C = ("default", "a"), ("default", "b"), ("default", "c")
BACKOFF = Backoff(1.0, 60.0, jitter=0.5)


class Worker:
    """A reconcile that takes some time, fails a number of times, and records when it was called."""

    def __init__(
        self, takes: float = 0.0, fails: int = 0, requeue_after: float | None = None, cooldown: float = 0.0
    ) -> None:
        self.takes, self.fails, self.requeue_after, self.cooldown = takes, fails, requeue_after, cooldown
        self.reconciles: list[tuple[Key, float]] = []
        self.max_concurrent = Counter[Key]()
        self.most_concurrent = 0

    async def __call__(self, key: Key) -> ReconcileResult:
        self.reconciles.append((key, asyncio.get_running_loop().time()))
        self.max_concurrent[key] += 1
        assert self.max_concurrent[key] == 1, "a key is reconciled twice at the same time"
        self.most_concurrent = max(self.most_concurrent, self.max_concurrent.total())
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.max_concurrent[key] -= 1
        if self.fails > 0:
            self.fails -= 1
            raise ConflictError("not now")
        return ReconcileResult(self.requeue_after, self.cooldown)

    @property
    def keys(self) -> list[Key]:
        return [key for key, _ in self.reconciles]

    @property
    def times(self) -> list[float]:
        return [time for _, time in self.reconciles]


def queue_of(work: Reconcile, max_concurrent: int = 4) -> WorkQueue:
    queue = WorkQueue("test", work, max_concurrent=max_concurrent, backoff=BACKOFF, rng=random.Random(1))
    queue.start()
    return queue


def test_a_queued_key_is_not_queued_again() -> None:
    async def scenario() -> list[Key]:
        worker = Worker()
        queue = WorkQueue("test", worker)
        for key in (A, B, A, A):
            queue.add(key)
        queue.start()
        await asyncio.sleep(1)
        return worker.keys

    assert run_virtual(scenario) == [A, B]


def test_a_change_during_a_reconcile_is_reconciled_after_it() -> None:
    async def scenario() -> list[float]:
        worker = Worker(takes=10)
        queue = queue_of(worker)
        queue.add(A)
        await asyncio.sleep(3)
        queue.add(A)
        queue.add(A)
        await asyncio.sleep(60)
        return worker.times

    assert run_virtual(scenario) == [0, 10]


def test_a_key_that_changes_often_goes_to_the_end_of_the_queue() -> None:
    async def scenario() -> list[Key]:
        worker = Worker(takes=1)
        queue = queue_of(worker, max_concurrent=1)
        for key in (A, B, C):
            queue.add(key)
        await asyncio.sleep(0.5)
        queue.add(A)
        await asyncio.sleep(60)
        return worker.keys

    assert run_virtual(scenario) == [A, B, C, A]


def test_concurrency_is_limited() -> None:
    async def scenario() -> tuple[int, int]:
        worker = Worker(takes=1)
        queue = queue_of(worker, max_concurrent=3)
        for number in range(20):
            queue.add(("default", str(number)))
        await asyncio.sleep(60)
        return worker.most_concurrent, len(worker.reconciles)

    assert run_virtual(scenario) == (3, 20)


def test_backoff_grows_with_each_failure_and_is_reset_by_success() -> None:
    async def scenario() -> list[float]:
        worker = Worker(fails=5)
        queue = queue_of(worker)
        queue.add(A)
        await asyncio.sleep(600)
        worker.fails = 1
        queue.add(A)
        await asyncio.sleep(600)
        return worker.times

    times = run_virtual(scenario)
    waits = [after - before for before, after in pairwise(times)]
    for number, wait in enumerate(waits[:5]):
        assert 0.5 * 2**number <= wait <= 2**number, waits
    assert 0.5 <= waits[-1] <= 1


def test_a_failing_key_does_not_affect_other_keys() -> None:
    async def scenario() -> int:
        async def work(key: Key) -> ReconcileResult:
            if key == A:
                raise RuntimeError("a bug")
            seen.append(key)
            return ReconcileResult()

        seen: list[Key] = []
        queue = queue_of(work, max_concurrent=1)
        for number in range(10):
            queue.add(A)
            queue.add(("default", str(number)))
            await asyncio.sleep(0.1)
        return len(seen)

    assert run_virtual(scenario) == 10


def test_a_change_ends_the_backoff() -> None:
    async def scenario() -> list[float]:
        worker = Worker(fails=1)
        queue = queue_of(worker)
        queue.add(A)
        await asyncio.sleep(0.25)
        queue.add(A)
        await asyncio.sleep(60)
        return worker.times

    assert run_virtual(scenario) == [0, 0.25]


@pytest.mark.parametrize("asked, waits", [(20.0, 20.0), (3600.0, 60.0)])
def test_retry_after_is_respected_up_to_the_maximum(asked: float, waits: float) -> None:
    async def scenario() -> list[float]:
        async def work(_: Key) -> ReconcileResult:
            times.append(asyncio.get_running_loop().time())
            if len(times) == 1:
                raise TooManyRequestsError("later", retry_after=asked)
            return ReconcileResult()

        times: list[float] = []
        queue_of(work).add(A)
        await asyncio.sleep(4000)
        return times

    assert run_virtual(scenario) == [0, waits]


def test_a_failure_and_its_end_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async def work(_: Key) -> ReconcileResult:
            calls.append(1)
            if len(calls) == 1:
                raise TooManyRequestsError("later")
            return ReconcileResult()

        calls: list[int] = []
        queue = queue_of(work)
        for _ in range(3):
            queue.add(A)
            await asyncio.sleep(60)

    caplog.set_level(logging.INFO)
    run_virtual(scenario)
    assert caplog.messages == ["test default/a: later", "test default/a: reconciled again"]


def test_a_key_is_requeued_after_the_requested_time_once() -> None:
    async def scenario() -> list[float]:
        worker = Worker(requeue_after=30)
        queue = queue_of(worker)
        queue.add(A)
        await asyncio.sleep(10)
        queue.add(A)
        await asyncio.sleep(55)
        return worker.times

    assert run_virtual(scenario) == [0, 10, 40]


def test_long_requeue_delays_are_capped_as_clocks_may_jump() -> None:
    async def scenario() -> list[float]:
        worker = Worker(requeue_after=86_400)
        queue_of(worker).add(A)
        await asyncio.sleep(1250)
        return worker.times

    assert run_virtual(scenario) == [0, 600, 1200]


def test_changes_during_a_cooldown_are_collected() -> None:
    async def scenario() -> tuple[list[float], list[float]]:
        worker, other = Worker(cooldown=10), Worker()
        queue = queue_of(worker)
        side = queue_of(other)
        for _ in range(100):
            queue.add(A)
            side.add(A)
            await asyncio.sleep(0.25)
        await asyncio.sleep(60)
        return worker.times, other.times

    cooling, other = run_virtual(scenario)
    assert cooling == [0, 10, 20, 30]
    assert len(other) == 100


def test_a_cooldown_does_not_delay_a_later_requeue() -> None:
    async def scenario() -> list[float]:
        worker = Worker(cooldown=10, requeue_after=25)
        queue_of(worker).add(A)
        await asyncio.sleep(60)
        return worker.times

    assert run_virtual(scenario) == [0, 25, 50]


def test_stop_waits_for_running_reconciles_and_starts_no_new_ones() -> None:
    async def scenario() -> tuple[list[Key], float, int]:
        worker = Worker(takes=5, requeue_after=1)
        queue = queue_of(worker, max_concurrent=1)
        for key in (A, B):
            queue.add(key)
        await asyncio.sleep(1)
        queue.add(A)
        await queue.stop()
        stopped = asyncio.get_running_loop().time()
        await asyncio.sleep(60)
        return worker.keys, stopped, worker.max_concurrent.total()

    assert run_virtual(scenario) == ([A], 5, 0)


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_changes_at_the_end_of_a_cooldown_are_collected_on_every_loop(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The handle of a timer that is due at once is of another type on each loop."""

    async def scenario() -> int:
        worker = Worker(cooldown=0.0013)
        queue = queue_of(worker)
        until = asyncio.get_running_loop().time() + 0.05
        while asyncio.get_running_loop().time() < until:
            queue.add(A)
            queue.add(A)
            await asyncio.sleep(0)
        await queue.stop()
        return len(worker.reconciles)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(scenario()) > 1


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 3)), max_size=30), st.integers(1, 3))
def test_no_change_is_missed(changes: list[tuple[str, float]], max_concurrent: int) -> None:
    async def scenario() -> None:
        worker = Worker(takes=1, fails=len(changes) // 3)
        queue = queue_of(worker, max_concurrent=max_concurrent)
        last: dict[Key, float] = {}
        for name, pause in changes:
            queue.add(("default", name))
            last["default", name] = asyncio.get_running_loop().time()
            await asyncio.sleep(pause)
        await asyncio.sleep(3600)
        began = dict(worker.reconciles)
        assert worker.most_concurrent <= max_concurrent
        assert all(began[key] >= time for key, time in last.items())

    run_virtual(scenario)
