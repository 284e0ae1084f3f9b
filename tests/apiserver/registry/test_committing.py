"""What happens between a decision and its commit: who may know of it, and who must wait."""

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from shoal.apiserver.registry.records import Record
from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import AlreadyExistsError, ConflictError, NotFoundError, StorageError
from shoal.cluster.resources import CONFIG_MAPS
from tests.apiserver.registry.objects import config_map, opened


class SlowJournal:
    """Keeps records when it is told to, or fails to."""

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

    def shut(self) -> asyncio.Future[None]:
        self.gate = asyncio.get_running_loop().create_future()
        return self.gate


async def begun(*tasks: asyncio.Task[object]) -> None:
    """Let tasks come as far as they can."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


def writing(registry: Registry, name: str, value: str = "b") -> asyncio.Task[object]:
    work = registry.create(CONFIG_MAPS, config_map(name, {"a": value}))
    return asyncio.get_running_loop().create_task(work)


async def test_nobody_sees_what_is_not_yet_safe() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        version = registry.version
        gate = journal.shut()
        task = writing(registry, "a")
        await begun(task)
        with pytest.raises(NotFoundError):
            await registry.get(CONFIG_MAPS, "a")
        assert registry.version == version
        async with registry.watch(CONFIG_MAPS, version=version, timeout=0) as events:
            assert [event async for event in events] == []
        gate.set_result(None)
        await task
        assert await registry.get(CONFIG_MAPS, "a")


async def test_on_a_quick_disk_only_who_is_alone_does_not_share() -> None:
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


async def test_who_writes_without_a_pause_lets_others_have_their_turns() -> None:
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


async def test_who_is_refused_because_of_another_write_can_see_that_write() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        gate = journal.shut()
        first = writing(registry, "a")
        await begun(first)
        second = writing(registry, "a")
        await begun(first, second)
        gate.set_result(None)
        with pytest.raises(AlreadyExistsError):
            await second
        assert first.done()
        assert await registry.get(CONFIG_MAPS, "a")


async def test_who_changes_nothing_waits_for_what_it_saw() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        made = await registry.create(CONFIG_MAPS, config_map())
        gate = journal.shut()
        patch = {"data": {"new": "x"}}
        first, second = (
            asyncio.ensure_future(registry.patch(CONFIG_MAPS, "c", patch=patch)) for _ in range(2)
        )
        await begun(first, second)
        gate.set_result(None)
        assert await first == await second != made


async def test_those_who_read_and_write_again_and_again_come_to_an_end() -> None:
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


async def test_what_was_decided_on_top_of_what_failed_fails_too() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        gate = journal.shut()
        tasks = [writing(registry, "a")]
        await begun(*tasks)
        tasks += [writing(registry, "b"), writing(registry, "a", "other")]
        await begun(*tasks)
        gate.set_exception(StorageError("the disk is full"))
        for task in tasks:
            with pytest.raises(StorageError, match="the disk is full"):
                await task
        journal.gate = None
        assert await registry.create(CONFIG_MAPS, config_map("a"))


async def test_nobody_waits_for_ever_for_a_journal_that_breaks() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        gate = journal.shut()
        tasks = [writing(registry, "a"), writing(registry, "b")]
        await begun(*tasks)
        gate.set_exception(MemoryError("nothing left"))
        for task in tasks:
            with pytest.raises(StorageError, match="nothing left"):
                await task
        journal.gate = None
        assert await registry.create(CONFIG_MAPS, config_map("a"))


async def test_a_writer_that_gives_up_waiting_disturbs_nobody() -> None:
    journal = SlowJournal()
    async with opened(journal) as registry:
        gate = journal.shut()
        impatient, patient = writing(registry, "a"), writing(registry, "b")
        await begun(impatient, patient)
        impatient.cancel()
        gate.set_result(None)
        await patient
        assert await registry.get(CONFIG_MAPS, "a")
        assert journal.batches[-1] == 2
