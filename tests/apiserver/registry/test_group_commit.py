"""Group commit: visibility of pending writes, batching, and failures of the journal."""

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from shoal.apiserver.registry.records import Record
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import AlreadyExistsError, ConflictError, NotFoundError, StorageError
from shoal.cluster.resources import CONFIG_MAPS
from tests.apiserver.registry.objects import config_map, opened


class SlowJournal:
    """Stores records, or fails, when the test says so."""

    def __init__(self) -> None:
        self.gate: asyncio.Future[None] | None = None
        self.quick = False
        self.batches: list[int] = []

    def load(self) -> tuple[int, Iterable[Record]]:
        return 0, ()

    def append_now(self, records: Sequence[Record]) -> bool:
        if self.quick:
            self.batches.append(len(records))
        return self.quick

    async def append(self, records: Sequence[Record]) -> None:
        if self.gate is not None:
            await self.gate
        self.batches.append(len(records))

    async def compact(self, version: int, superseded: Sequence[int]) -> None:
        pass

    async def close(self) -> None:
        pass

    def fail_next(self) -> asyncio.Future[None]:
        self.gate = asyncio.get_running_loop().create_future()
        return self.gate


async def settle(*tasks: asyncio.Task[object]) -> None:
    """Run all tasks until they block."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


def writing(registry: Registry, name: str, value: str = "b") -> asyncio.Task[object]:
    work = registry.create(CONFIG_MAPS, config_map(name, {"a": value}))
    return asyncio.get_running_loop().create_task(work)


async def test_uncommitted_writes_are_invisible() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        version = registry.version
        gate = journal.fail_next()
        task = writing(registry, "a")
        await settle(task)
        with pytest.raises(NotFoundError):
            await registry.get(CONFIG_MAPS, "a")
        assert registry.version == version
        async with registry.watch(CONFIG_MAPS, version=version, timeout=0) as events:
            assert [event async for event in events] == []
        gate.set_result(None)
        await task
        assert await registry.get(CONFIG_MAPS, "a")


async def test_a_single_writer_commits_inline_on_a_fast_disk() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        journal.quick = True
        journal.batches.clear()
        for name in "abc":
            await writing(registry, name)
        assert journal.batches == [1, 1, 1]
        journal.batches.clear()
        await asyncio.gather(*(writing(registry, f"d{i}") for i in range(20)))
        assert sum(journal.batches) == 20
        assert max(journal.batches) > 10


async def test_continuous_writes_do_not_starve_other_tasks() -> None:
    journal, turns = SlowJournal(), 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with opened(journal) as registry:
        journal.quick = True
        task = asyncio.create_task(other())
        for i in range(10):
            await registry.create(CONFIG_MAPS, config_map(f"c{i}"))
        task.cancel()
    assert turns >= 10


async def test_a_refused_write_can_read_what_it_was_refused_for() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        gate = journal.fail_next()
        first = writing(registry, "a")
        await settle(first)
        second = writing(registry, "a")
        await settle(first, second)
        gate.set_result(None)
        with pytest.raises(AlreadyExistsError):
            await second
        assert first.done()
        assert await registry.get(CONFIG_MAPS, "a")


async def test_an_unchanged_update_waits_for_the_writes_it_read() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        made = await registry.create(CONFIG_MAPS, config_map())
        gate = journal.fail_next()
        patch = {"data": {"new": "x"}}
        first, second = (
            asyncio.ensure_future(registry.patch(CONFIG_MAPS, "c", patch=patch)) for _ in range(2)
        )
        await settle(first, second)
        gate.set_result(None)
        assert await first == await second != made


async def test_concurrent_read_modify_write_loops_finish() -> None:
    async with opened(SlowJournal()) as registry:
        await registry.create(CONFIG_MAPS, config_map(data={"n": "0"}))

        async def add() -> None:
            while True:
                found = await registry.get(CONFIG_MAPS, "c")
                found["data"]["n"] = str(int(found["data"]["n"]) + 1)
                try:
                    await registry.update(CONFIG_MAPS, found)
                except ConflictError:
                    continue
                return

        await asyncio.gather(*(add() for _ in range(20)))
        assert (await registry.get(CONFIG_MAPS, "c"))["data"]["n"] == "20"


async def test_writes_on_top_of_a_failed_commit_fail_too() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        gate = journal.fail_next()
        tasks = [writing(registry, "a")]
        await settle(*tasks)
        tasks += [writing(registry, "b"), writing(registry, "a", "other")]
        await settle(*tasks)
        gate.set_exception(StorageError("the disk is full"))
        for task in tasks:
            with pytest.raises(StorageError, match="the disk is full"):
                await task
        journal.gate = None
        assert await registry.create(CONFIG_MAPS, config_map("a"))


async def test_a_broken_journal_fails_all_waiting_writes() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        gate = journal.fail_next()
        tasks = [writing(registry, "a"), writing(registry, "b")]
        await settle(*tasks)
        gate.set_exception(MemoryError("nothing left"))
        for task in tasks:
            with pytest.raises(StorageError, match="nothing left"):
                await task
        journal.gate = None
        assert await registry.create(CONFIG_MAPS, config_map("a"))


async def test_a_cancelled_writer_does_not_affect_others() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        gate = journal.fail_next()
        impatient, patient = writing(registry, "a"), writing(registry, "b")
        await settle(impatient, patient)
        impatient.cancel()
        gate.set_result(None)
        await patient
        assert await registry.get(CONFIG_MAPS, "a")
        assert journal.batches[-1] == 2
