"""Crashes: all tasks of a process end at once, between two writes, and the process can be restarted."""

import asyncio
import contextlib
from dataclasses import dataclass

import pytest

from shoal.cluster.errors import AlreadyExistsError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import CONFIG_MAPS
from shoal.simulator import (
    AnyFault,
    Connection,
    Crash,
    CrashedError,
    FaultInjector,
    Freeze,
    SimulatedCluster,
    Simulation,
    Slow,
    StuckError,
    run_once,
    run_with_restarts,
)
from tests.simulator.harness import config_map, name_of, run_test

DAY = 86_400.0


async def write_all(cluster: Cluster) -> str:
    """Three writes, 10 seconds apart; objects that exist already are left alone."""
    for name in "abc":
        with contextlib.suppress(AlreadyExistsError):
            await cluster.create(CONFIG_MAPS, config_map(name))
        await asyncio.sleep(10)
    return "done"


@dataclass
class Case:
    """A crash of `write_all`; then the objects in the store, and when the process ended."""

    faults: list[AnyFault]
    kept: str
    at: float


CRASHES = {
    "before the first write": Case([Crash(nth=1)], "", 0),
    "after the first write": Case([Crash(nth=1, after=True)], "a", 0),
    "before the third write": Case([Crash(nth=3)], "a b", 20),
    "after the third write": Case([Crash(nth=3, after=True)], "a b c", 20),
    "at a time": Case([Crash(at=12)], "a b", 12),
    "with a delayed write, which still arrives": Case([Slow(nth=2, seconds=5), Crash(at=12)], "a b", 12),
    "after a write whose answer is delayed": Case(
        [Slow(nth=2, seconds=5, answer=True), Crash(nth=2, after=True)], "a b", 10
    ),
}


@pytest.mark.parametrize("case", CRASHES.values(), ids=list(CRASHES))
def test_a_crash_happens_between_two_writes(case: Case) -> None:
    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> tuple[str, float]:
        with pytest.raises(CrashedError):
            await run_once(store, faults, write_all)
        ended = asyncio.get_running_loop().time()
        await asyncio.sleep(DAY)
        return " ".join(name_of(thing) for thing in store.list_now(CONFIG_MAPS)), ended

    assert run_test(main, *case.faults) == (case.kept, case.at)


@pytest.mark.parametrize("case", CRASHES.values(), ids=list(CRASHES))
def test_a_restarted_process_ends_as_without_crashes(case: Case) -> None:
    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> tuple[str, str]:
        result = await run_with_restarts(store, faults, write_all)
        return result, " ".join(name_of(thing) for thing in store.list_now(CONFIG_MAPS))

    assert run_test(main, *case.faults) == ("done", "a b c")


def test_a_crashed_process_is_down_for_the_time_of_the_fault() -> None:
    starts: list[float] = []

    async def program(cluster: Cluster) -> None:
        starts.append(asyncio.get_running_loop().time())
        await write_all(cluster)

    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> None:
        await run_with_restarts(store, faults, program)

    run_test(main, Crash(nth=2, down=7), Crash(at=30, down=0))
    assert starts == [0, 17, 30]


def test_a_crash_ends_all_tasks_of_the_process_and_no_others() -> None:
    ended: list[str] = []

    async def sleeper(name: str) -> None:
        try:
            await asyncio.sleep(DAY)
        finally:
            ended.append(name)

    async def stubborn(name: str) -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(DAY)
        ended.append(name)

    async def program(cluster: Cluster) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleeper("inner"))
            group.create_task(stubborn("stubborn"))
            await asyncio.sleep(2)
            await cluster.create(CONFIG_MAPS, config_map("a"))

    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> tuple[list[str], float]:
        other = asyncio.create_task(sleeper("other"))
        with pytest.raises(CrashedError):
            await run_once(store, faults, program)
        at = asyncio.get_running_loop().time()
        assert not other.done()
        await store.create(CONFIG_MAPS, config_map("b"))  # the store belongs to no process
        return list(ended), at

    assert run_test(main, Crash(nth=1)) == (["inner", "stubborn"], 2)


def test_writes_of_a_process_that_is_being_killed_have_no_effect() -> None:
    async def program(cluster: Cluster) -> None:
        try:
            await cluster.create(CONFIG_MAPS, config_map("a"))
        finally:
            await cluster.create(CONFIG_MAPS, config_map("too-late"))

    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> list[str]:
        with pytest.raises(CrashedError):
            await run_once(store, faults, program)
        return [name_of(thing) for thing in store.list_now(CONFIG_MAPS)]

    assert run_test(main, Crash(nth=1, after=True)) == ["a"]


def test_tasks_of_a_process_end_with_it() -> None:
    async def program(cluster: Cluster) -> str:
        program.task = asyncio.create_task(write_all(cluster))  # type: ignore[attr-defined]
        await asyncio.sleep(15)
        return "done"

    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> tuple[str, list[str]]:
        result = await run_once(store, faults, program)
        await asyncio.sleep(DAY)
        return result, [name_of(thing) for thing in store.list_now(CONFIG_MAPS)]

    assert run_test(main) == ("done", ["a", "b"])


def test_an_exception_of_the_process_is_raised() -> None:
    async def program(_: Cluster) -> None:
        raise ZeroDivisionError

    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> None:
        await run_once(store, faults, program)

    with pytest.raises(ZeroDivisionError):
        run_test(main)


def test_a_process_that_cannot_be_ended_is_named() -> None:
    async def immortal() -> None:
        for _ in range(5000):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(DAY)

    async def program(_: Cluster) -> None:
        program.task = asyncio.create_task(immortal(), name="the immortal")  # type: ignore[attr-defined]
        await asyncio.sleep(1)

    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> None:
        await run_once(store, faults, program)

    with pytest.raises(StuckError, match="after 1000 cancellations: the immortal"):
        run_test(main)


def test_a_crashed_connection_stays_crashed() -> None:
    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> None:
        connection = Connection(store, faults)
        for _try in range(2):
            with pytest.raises(asyncio.CancelledError):
                await connection.create(CONFIG_MAPS, config_map("a"))
        assert store.list_now(CONFIG_MAPS) == []

    run_test(main, Crash(nth=1))


def test_a_frozen_process_runs_nothing_and_then_goes_on_where_it_was() -> None:
    times: list[float] = []

    async def tick() -> None:
        while True:
            times.append(asyncio.get_running_loop().time())
            await asyncio.sleep(10)

    async def program(_: Cluster) -> str:
        task = asyncio.create_task(tick())
        try:
            async with asyncio.timeout(100):
                await asyncio.sleep(DAY)
        except TimeoutError:
            task.cancel()
        return "done"

    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> tuple[str, float]:
        return await run_once(store, faults, program), asyncio.get_running_loop().time()

    assert run_test(main, Freeze(at=25, seconds=30)) == ("done", 100)
    assert times == [0, 10, 20, 55, 65, 75, 85, 95]


def test_a_write_of_a_process_that_is_frozen_takes_effect() -> None:
    async def program(cluster: Cluster) -> None:
        await cluster.create(CONFIG_MAPS, config_map("a"))

    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> list[str]:
        task = asyncio.create_task(run_once(store, faults, program))
        await asyncio.sleep(10)
        found = [name_of(thing) for thing in store.list_now(CONFIG_MAPS)]
        assert not task.done()
        await task
        return found

    assert run_test(main, Slow(nth=1, on="write", seconds=5), Freeze(at=1, seconds=60)) == ["a"]


def test_a_frozen_process_can_be_killed() -> None:
    async def program(_: Cluster) -> None:
        await asyncio.sleep(DAY)

    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> float:
        with pytest.raises(CrashedError):
            await run_once(store, faults, program)
        return asyncio.get_running_loop().time()

    assert run_test(main, Freeze(at=1, seconds=60), Crash(at=30)) == 30
