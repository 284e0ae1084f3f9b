"""The queue: whose turn it is, and for how long nobody's."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.errors import ConflictError, TooManyRequestsError
from shoal.cluster.object_store import Key
from shoal.controllers.queue import Patience, Turn, Work, WorkQueue
from tests.controllers.virtual import virtually

A, B, C = ("default", "a"), ("default", "b"), ("default", "c")
SURE = Patience(first=1.0, most=60.0, dice=random.Random(1))


class Worker:
    """Works for as long as it is told, and writes down when."""

    def __init__(
        self, takes: float = 0.0, fails: int = 0, again: float | None = None, rest: float = 0.0
    ) -> None:
        self.takes, self.fails, self.again, self.rest = takes, fails, again, rest
        self.turns: list[tuple[Key, float]] = []
        self.at_once = Counter[Key]()
        self.most = 0

    async def __call__(self, key: Key) -> Turn:
        self.turns.append((key, asyncio.get_running_loop().time()))
        self.at_once[key] += 1
        assert self.at_once[key] == 1, "a key is worked on twice at once"
        self.most = max(self.most, self.at_once.total())
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.at_once[key] -= 1
        if self.fails > 0:
            self.fails -= 1
            raise ConflictError("not now")
        return Turn(self.again, self.rest)

    @property
    def keys(self) -> list[Key]:
        return [key for key, _ in self.turns]

    @property
    def times(self) -> list[float]:
        return [time for _, time in self.turns]


def queue_of(work: Work, at_once: int = 4) -> WorkQueue:
    queue = WorkQueue("test", work, at_once=at_once, patience=SURE)
    queue.start()
    return queue


def test_a_key_that_waits_is_not_queued_again() -> None:
    async def scene() -> list[Key]:
        worker = Worker()
        queue = WorkQueue("test", worker)
        for key in (A, B, A, A):
            queue.add(key)
        queue.start()
        await asyncio.sleep(1)
        return worker.keys

    assert virtually(scene) == [A, B]


def test_a_change_during_the_work_is_looked_at_after_it() -> None:
    async def scene() -> list[float]:
        worker = Worker(takes=10)
        queue = queue_of(worker)
        queue.add(A)
        await asyncio.sleep(3)
        queue.add(A)
        queue.add(A)
        await asyncio.sleep(60)
        return worker.times

    assert virtually(scene) == [0, 10]


def test_a_busy_key_lets_the_others_go_first() -> None:
    async def scene() -> list[Key]:
        worker = Worker(takes=1)
        queue = queue_of(worker, at_once=1)
        for key in (A, B, C):
            queue.add(key)
        await asyncio.sleep(0.5)
        queue.add(A)
        await asyncio.sleep(60)
        return worker.keys

    assert virtually(scene) == [A, B, C, A]


def test_only_so_many_are_worked_on_at_once() -> None:
    async def scene() -> tuple[int, int]:
        worker = Worker(takes=1)
        queue = queue_of(worker, at_once=3)
        for number in range(20):
            queue.add(("default", str(number)))
        await asyncio.sleep(60)
        return worker.most, len(worker.turns)

    assert virtually(scene) == (3, 20)


def test_failures_wait_longer_each_time_and_success_forgets_them() -> None:
    async def scene() -> list[float]:
        worker = Worker(fails=5)
        queue = queue_of(worker)
        queue.add(A)
        await asyncio.sleep(600)
        worker.fails = 1
        queue.add(A)
        await asyncio.sleep(600)
        return worker.times

    times = virtually(scene)
    waits = [after - before for before, after in pairwise(times)]
    for number, wait in enumerate(waits[:5]):
        assert 0.5 * 2**number <= wait <= 2**number, waits
    assert 0.5 <= waits[-1] <= 1


def test_a_failing_key_stops_nobody() -> None:
    async def scene() -> int:
        async def work(key: Key) -> Turn:
            if key == A:
                raise RuntimeError("a bug")
            seen.append(key)
            return Turn()

        seen: list[Key] = []
        queue = queue_of(work, at_once=1)
        for number in range(10):
            queue.add(A)
            queue.add(("default", str(number)))
            await asyncio.sleep(0.1)
        return len(seen)

    assert virtually(scene) == 10


def test_a_change_ends_the_waiting_after_a_failure() -> None:
    async def scene() -> list[float]:
        worker = Worker(fails=1)
        queue = queue_of(worker)
        queue.add(A)
        await asyncio.sleep(0.25)
        queue.add(A)
        await asyncio.sleep(60)
        return worker.times

    assert virtually(scene) == [0, 0.25]


@pytest.mark.parametrize("asked, waits", [(20.0, 20.0), (3600.0, 60.0)])
def test_a_server_that_asks_for_time_is_given_it_within_reason(asked: float, waits: float) -> None:
    async def scene() -> list[float]:
        async def work(_: Key) -> Turn:
            times.append(asyncio.get_running_loop().time())
            if len(times) == 1:
                raise TooManyRequestsError("later", retry_after=asked)
            return Turn()

        times: list[float] = []
        queue_of(work).add(A)
        await asyncio.sleep(4000)
        return times

    assert virtually(scene) == [0, waits]


def test_work_is_looked_at_again_when_it_asks_to_be_and_only_once() -> None:
    async def scene() -> list[float]:
        worker = Worker(again=30)
        queue = queue_of(worker)
        queue.add(A)
        await asyncio.sleep(10)
        queue.add(A)
        await asyncio.sleep(55)
        return worker.times

    assert virtually(scene) == [0, 10, 40]


def test_a_far_moment_is_asked_about_before_as_clocks_may_jump() -> None:
    async def scene() -> list[float]:
        worker = Worker(again=86_400)
        queue_of(worker).add(A)
        await asyncio.sleep(1250)
        return worker.times

    assert virtually(scene) == [0, 600, 1200]


def test_what_changes_during_a_rest_is_gathered() -> None:
    async def scene() -> tuple[list[float], list[float]]:
        worker, other = Worker(rest=10), Worker()
        queue = queue_of(worker)
        side = queue_of(other)
        for _ in range(100):
            queue.add(A)
            side.add(A)
            await asyncio.sleep(0.25)
        await asyncio.sleep(60)
        return worker.times, other.times

    resting, other = virtually(scene)
    assert resting == [0, 10, 20, 30]
    assert len(other) == 100


def test_a_rest_makes_nobody_late_who_asked_for_a_later_moment() -> None:
    async def scene() -> list[float]:
        worker = Worker(rest=10, again=25)
        queue_of(worker).add(A)
        await asyncio.sleep(60)
        return worker.times

    assert virtually(scene) == [0, 25, 50]


def test_what_runs_ends_and_nothing_new_begins_when_it_stops() -> None:
    async def scene() -> tuple[list[Key], float, int]:
        worker = Worker(takes=5, again=1)
        queue = queue_of(worker, at_once=1)
        for key in (A, B):
            queue.add(key)
        await asyncio.sleep(1)
        queue.add(A)
        await queue.stop()
        stopped = asyncio.get_running_loop().time()
        await asyncio.sleep(60)
        return worker.keys, stopped, worker.at_once.total()

    assert virtually(scene) == ([A], 5, 0)


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_changes_at_the_end_of_a_rest_are_gathered_on_every_loop(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """A timer that is due at once is another object on each."""

    async def scene() -> int:
        worker = Worker(rest=0.0013)
        queue = queue_of(worker)
        until = asyncio.get_running_loop().time() + 0.05
        while asyncio.get_running_loop().time() < until:
            queue.add(A)
            queue.add(A)
            await asyncio.sleep(0)
        await queue.stop()
        return len(worker.turns)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(scene()) > 1


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 3)), max_size=30), st.integers(1, 3))
def test_no_change_is_missed(changes: list[tuple[str, float]], at_once: int) -> None:
    async def scene() -> None:
        worker = Worker(takes=1, fails=len(changes) // 3)
        queue = queue_of(worker, at_once=at_once)
        last: dict[Key, float] = {}
        for name, pause in changes:
            queue.add(("default", name))
            last["default", name] = asyncio.get_running_loop().time()
            await asyncio.sleep(pause)
        await asyncio.sleep(3600)
        began = dict(worker.turns)
        assert worker.most <= at_once
        assert all(began[key] >= time for key, time in last.items())

    virtually(scene)
