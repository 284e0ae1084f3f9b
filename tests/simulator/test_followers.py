"""Whoever follows a collection through faults knows in the end what the store has."""

import asyncio
import random

import pytest

from shoal.apiserver.registry.state import Retention
from shoal.cluster.errors import ClusterError
from shoal.cluster.object_store import Cache
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.reflector import Reflector, ReflectorOptions
from shoal.cluster.resources import CONFIG_MAPS, PODS, Object
from shoal.simulator import (
    ChaosOptions,
    Connection,
    FaultInjector,
    DropEvent,
    Schedule,
    SimulatedCluster,
    Simulation,
    run_with_restarts,
    random_schedule,
    run,
)
from tests.simulator.scenes import config_map, name_of

BUSY, QUIET = 600.0, 1200.0
"""Seconds of writes and faults, and then seconds in which everything can be heard of."""
_NAMES = "abcdefgh"


def followed(seed: int, schedule: Schedule | None = None) -> tuple[dict[str, Object], dict[str, Object]]:
    """What a follower knows after a time with faults, and what is there."""

    async def main(simulation: Simulation) -> tuple[dict[str, Object], dict[str, Object]]:
        drawn = random_schedule(simulation.dice("faults"), ChaosOptions(faults=60, seconds=BUSY, calls=100))
        faults = FaultInjector(schedule or drawn, simulation.clock)
        short = Retention(changes=simulation.dice("store").choice((5, 50, 5000)))
        store = SimulatedCluster(clock=simulation.clock, dice=simulation.dice("names"), retention=short)
        async with store:
            return await _follow_and_write(store, faults, simulation)

    return run(main, seed=seed)


async def _follow_and_write(
    store: SimulatedCluster, faults: FaultInjector, simulation: Simulation
) -> tuple[dict[str, Object], dict[str, Object]]:
    newest: list[Cache[Object]] = []

    async def follow(cluster: Cluster) -> None:
        newest.append(Cache[Object]())
        pace = ReflectorOptions(page_size=3, rng=simulation.dice("pace"))
        await Reflector(cluster, CONFIG_MAPS, newest[-1], options=pace).run()

    async with asyncio.TaskGroup() as group:
        following = group.create_task(run_with_restarts(store, faults, follow))
        people = [
            group.create_task(_write(cluster, simulation.dice(name)))
            for name, cluster in (("on the store", store), ("through faults", Connection(store, faults)))
        ]
        await asyncio.sleep(BUSY)
        for person in people:
            person.cancel()
        await asyncio.sleep(QUIET)
        following.cancel()
    known = {name: thing for (_, name), thing in newest[-1].items.items()}
    return known, {name_of(thing): thing for thing in store.all(CONFIG_MAPS)}


async def _write(cluster: Cluster, dice: random.Random) -> None:
    """Make, change and remove things, whatever comes of it."""
    while True:
        await asyncio.sleep(dice.expovariate(0.2))
        name = dice.choice(_NAMES)
        try:
            match dice.randrange(3):
                case 0:
                    await cluster.create(CONFIG_MAPS, config_map(name, a=str(dice.random())))
                case 1:
                    await cluster.patch(
                        CONFIG_MAPS, name, "default", patch={"data": {"a": str(dice.random())}}
                    )
                case _:
                    await cluster.delete(CONFIG_MAPS, name, "default", Deletion(grace=0))
        except ClusterError:
            continue


@pytest.mark.parametrize("seed", range(40))
def test_a_follower_knows_what_is_there_after_any_faults(seed: int) -> None:
    known, there = followed(seed)
    assert known == there
    assert there, "something is left to compare"


def test_a_follower_who_is_never_told_of_something_does_not_know_it() -> None:
    """What no cluster may do is found out: the comparison can fail."""
    every_other = Schedule(tuple(DropEvent(nth=number) for number in range(1, 1000, 2)))
    agree = [known == there for known, there in (followed(seed, every_other) for seed in range(5))]
    assert not all(agree)


def test_a_quiet_cluster_is_no_trouble() -> None:
    """Watches end when they are to, and are opened again at once: nobody waits for the next thing."""

    async def main(simulation: Simulation) -> list[float]:
        now = asyncio.get_running_loop().time
        async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("store")) as store:
            made, heard = list[float](), list[float]()
            pace = ReflectorOptions(rng=simulation.dice("pace"))
            reflector = Reflector(store, CONFIG_MAPS, lambda _: heard.append(now()), options=pace)
            following = asyncio.create_task(reflector.run())
            for number in range(80):
                await asyncio.sleep(simulation.dice(str(number)).uniform(6_000, 9_000))
                made.append(now())
                await store.create(CONFIG_MAPS, config_map(f"c{number}"))
            await asyncio.sleep(100)
            following.cancel()
        return [told - when for told, when in zip(heard, made, strict=True)]

    assert run(main) == [0.0] * 80


def test_a_pod_can_be_followed_from_the_store_itself() -> None:
    async def main(simulation: Simulation) -> list[str]:
        async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("store")) as store:
            seen: list[str] = []
            store.witnesses.append(lambda changes: seen.extend(change.record.key.name for change in changes))
            store.witnesses.append(lambda _: seen.append(f"{len(store.all(PODS))} there"))
            body = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [_CONTAINER]}}
            await store.create(PODS, body)
            await store.delete(PODS, "p", "default")
            return seen

    assert run(main) == ["p", "1 there", "p", "0 there"]


_CONTAINER = {"name": "main", "image": "busybox"}
