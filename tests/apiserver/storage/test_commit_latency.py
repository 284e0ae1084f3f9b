"""Commits run inline or in a thread, by the recent commit latency."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.sqlite import FILE, INLINE_LATENCY, LATENCY_MAX_AGE, CommitLatency, SqliteJournal
from shoal.cluster.resources import CONFIG_MAPS
from tests.apiserver.registry.objects import config_map

Callback = Callable[[], None]

ENOUGH = 64
"""More commits than the running mean needs to settle."""


class Clock:
    """A clock by which every commit takes `step` seconds; records the thread of each commit."""

    def __init__(self, step: float) -> None:
        self.now = 0.0
        self.step = step
        self.commits: list[int] = []

    def __call__(self) -> float:
        return self.now

    def tick(self) -> None:
        self.now += self.step
        self.commits.append(threading.get_ident())


@pytest.mark.parametrize(
    "took, idle, low",
    [
        pytest.param([], 0.0, False, id="no measurements"),
        pytest.param([INLINE_LATENCY / 4] * ENOUGH, 0.0, True, id="fast commits"),
        pytest.param([INLINE_LATENCY / 4] * ENOUGH, LATENCY_MAX_AGE, False, id="fast commits long ago"),
        pytest.param([INLINE_LATENCY * 4] * ENOUGH, 0.0, False, id="slow commits"),
        pytest.param(
            [*[INLINE_LATENCY / 4] * ENOUGH, INLINE_LATENCY * 4],
            0.0,
            True,
            id="one slow commit after fast ones",
        ),
        pytest.param(
            [*[INLINE_LATENCY / 4] * ENOUGH, 60.0], 0.0, False, id="one very slow commit after fast ones"
        ),
        pytest.param(
            [60.0, *[INLINE_LATENCY / 4] * ENOUGH], 0.0, True, id="fast commits after a very slow one"
        ),
    ],
)
def test_latency_is_a_mean_of_recent_commits(took: list[float], idle: float, *, low: bool) -> None:
    clock = Clock(0.0)
    latency = CommitLatency(clock)
    for clock.step in took:
        latency.measure(clock.tick)
    clock.now += idle
    assert latency.is_low is low


def test_a_failed_commit_is_raised_and_measured() -> None:
    clock = Clock(INLINE_LATENCY / 4)
    latency = CommitLatency(clock)
    for _ in range(ENOUGH):
        latency.measure(clock.tick)

    def fail() -> None:
        clock.now += 60.0
        raise sqlite3.OperationalError

    with pytest.raises(sqlite3.OperationalError):
        latency.measure(fail)
    assert not latency.is_low


class TracedJournal(SqliteJournal):
    """Calls back before a statement is executed, in the thread that executes it."""

    def __init__(
        self, directory: Path, clock: Callable[[], float], statement: str, callback: Callback
    ) -> None:
        super().__init__(directory, CommitLatency(clock))
        self._connection.set_trace_callback(lambda text: callback() if text == statement else None)


async def test_fast_commits_run_inline_and_slow_ones_in_a_thread(tmp_path: Path) -> None:
    clock = Clock(INLINE_LATENCY / 4)
    async with Registry(TracedJournal(tmp_path, clock, "COMMIT", clock.tick)) as registry:
        for i in range(ENOUGH):
            await registry.create(CONFIG_MAPS, config_map(f"quick-{i}"))
        assert clock.commits[0] != threading.get_ident() == clock.commits[-1]
        clock.step = 60.0
        for i in range(3):
            await registry.create(CONFIG_MAPS, config_map(f"slow-{i}"))
        ours = [thread == threading.get_ident() for thread in clock.commits[-3:]]
        assert ours == [True, False, False]


async def test_a_hanging_disk_does_not_block_reads(tmp_path: Path) -> None:
    begun = threading.Event()
    async with Registry(TracedJournal(tmp_path, lambda: 0.0, "BEGIN IMMEDIATE", begun.set)) as registry:
        kept = await registry.create(CONFIG_MAPS, config_map("kept"))
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # writers wait for this transaction
            begun.clear()
            writing = asyncio.ensure_future(registry.create(CONFIG_MAPS, config_map("late")))
            await asyncio.to_thread(begun.wait, 60)
            assert (await registry.list(CONFIG_MAPS)).items == [kept]
            async with registry.watch(CONFIG_MAPS, timeout=0) as events:
                assert [event.object async for event in events] == [kept]
            assert not writing.done()
            other.execute("ROLLBACK")
        await writing
