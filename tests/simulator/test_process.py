"""Crashes: everything that a process does ends at once, between two writes, and it can begin anew."""

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
    Faults,
    SimulatedCluster,
    Simulation,
    Slow,
    StuckError,
    lasting,
    once,
)
from tests.simulator.scenes import config_map, name_of, play

DAY = 86_400.0


async def write_all(cluster: Cluster) -> str:
    """Three writes, each 10 seconds after the one before; what is there already is left alone."""
    for name in "abc":
        with contextlib.suppress(AlreadyExistsError):
            await cluster.create(CONFIG_MAPS, config_map(name))
        await asyncio.sleep(10)
    return "done"


@dataclass
class Case:
    """A crash of `write_all`; then what is kept, and when it ended."""

    faults: list[AnyFault]
    kept: str
    at: float


CRASHES = {
    "before the first write": Case([Crash(nth=1)], "", 0),
    "after the first write": Case([Crash(nth=1, after=True)], "a", 0),
    "before the third write": Case([Crash(nth=3)], "a b", 20),
    "after the third write": Case([Crash(nth=3, after=True)], "a b c", 20),
    "at a time": Case([Crash(at=12)], "a b", 12),
    "with a write that is under way, and arrives later": Case(
        [Slow(nth=2, seconds=5), Crash(at=12)], "a b", 12
    ),
    "after a write that is answered late": Case(
        [Slow(nth=2, seconds=5, answer=True), Crash(nth=2, after=True)], "a b", 10
    ),
}


@pytest.mark.parametrize("case", CRASHES.values(), ids=list(CRASHES))
def test_a_crash_comes_between_two_writes(case: Case) -> None:
    async def main(store: SimulatedCluster, faults: Faults, _: Simulation) -> tuple[str, float]:
        with pytest.raises(CrashedError):
            await once(store, faults, write_all)
        ended = asyncio.get_running_loop().time()
        await asyncio.sleep(DAY)
        return " ".join(name_of(thing) for thing in store.all(CONFIG_MAPS)), ended

    assert play(main, *case.faults) == (case.kept, case.at)


@pytest.mark.parametrize("case", CRASHES.values(), ids=list(CRASHES))
def test_a_lasting_process_ends_as_without_crashes(case: Case) -> None:
    async def main(store: SimulatedCluster, faults: Faults, _: Simulation) -> tuple[str, str]:
        said = await lasting(store, faults, write_all)
        return said, " ".join(name_of(thing) for thing in store.all(CONFIG_MAPS))

    assert play(main, *case.faults) == ("done", "a b c")


def test_a_process_is_down_for_as_long_as_the_crash_says() -> None:
    begun: list[float] = []

    async def program(cluster: Cluster) -> None:
        begun.append(asyncio.get_running_loop().time())
        await write_all(cluster)

    async def main(store: SimulatedCluster, faults: Faults, _: Simulation) -> None:
        await lasting(store, faults, program)

    play(main, Crash(nth=2, down=7), Crash(at=30, down=0))
    assert begun == [0, 17, 30]


def test_a_crash_ends_all_tasks_of_the_process_and_no_others() -> None:
    ended: list[str] = []

    async def works(name: str) -> None:
        try:
            await asyncio.sleep(DAY)
        finally:
            ended.append(name)

    async def resists(name: str) -> None:
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(DAY)
        ended.append(name)

    async def program(cluster: Cluster) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(works("inner"))
            group.create_task(resists("stubborn"))
            await asyncio.sleep(2)
            await cluster.create(CONFIG_MAPS, config_map("a"))

    async def main(store: SimulatedCluster, faults: Faults, _: Simulation) -> tuple[list[str], float]:
        other = asyncio.create_task(works("other"))
        with pytest.raises(CrashedError):
            await once(store, faults, program)
        at = asyncio.get_running_loop().time()
        assert not other.done()
        await store.create(CONFIG_MAPS, config_map("b"))  # the store is nobody's process
        return list(ended), at

    assert play(main, Crash(nth=1)) == (["inner", "stubborn"], 2)


def test_nothing_that_a_process_does_while_it_ends_comes_through() -> None:
    async def program(cluster: Cluster) -> None:
        try:
            await cluster.create(CONFIG_MAPS, config_map("a"))
        finally:
            await cluster.create(CONFIG_MAPS, config_map("too-late"))

    async def main(store: SimulatedCluster, faults: Faults, _: Simulation) -> list[str]:
        with pytest.raises(CrashedError):
            await once(store, faults, program)
        return [name_of(thing) for thing in store.all(CONFIG_MAPS)]

    assert play(main, Crash(nth=1, after=True)) == ["a"]


def test_a_process_takes_with_it_what_it_began() -> None:
    async def program(cluster: Cluster) -> str:
        program.task = asyncio.create_task(write_all(cluster))  # type: ignore[attr-defined]
        await asyncio.sleep(15)
        return "done"

    async def main(store: SimulatedCluster, faults: Faults, _: Simulation) -> tuple[str, list[str]]:
        said = await once(store, faults, program)
        await asyncio.sleep(DAY)
        return said, [name_of(thing) for thing in store.all(CONFIG_MAPS)]

    assert play(main) == ("done", ["a", "b"])


def test_an_error_of_the_process_comes_out() -> None:
    async def program(_: Cluster) -> None:
        raise ZeroDivisionError

    async def main(store: SimulatedCluster, faults: Faults, _: Simulation) -> None:
        await once(store, faults, program)

    with pytest.raises(ZeroDivisionError):
        play(main)


def test_a_process_that_cannot_be_ended_is_named() -> None:
    async def immortal() -> None:
        for _ in range(5000):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(DAY)

    async def program(_: Cluster) -> None:
        program.task = asyncio.create_task(immortal(), name="the immortal")  # type: ignore[attr-defined]
        await asyncio.sleep(1)

    async def main(store: SimulatedCluster, faults: Faults, _: Simulation) -> None:
        await once(store, faults, program)

    with pytest.raises(StuckError, match="still at work: the immortal"):
        play(main)


def test_a_connection_that_crashed_is_dead() -> None:
    async def main(store: SimulatedCluster, faults: Faults, _: Simulation) -> None:
        connection = Connection(store, faults)
        for _try in range(2):
            with pytest.raises(asyncio.CancelledError):
                await connection.create(CONFIG_MAPS, config_map("a"))
        assert store.all(CONFIG_MAPS) == []

    play(main, Crash(nth=1))
