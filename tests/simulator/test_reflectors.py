"""A reflector that went through faults has the objects of the store in the end."""

import asyncio
import random

import pytest

from shoal.apiserver.registry.state import Retention
from shoal.cluster.errors import ClusterError
from shoal.cluster.object_store import ObjectCache
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.reflector import Reflector, ReflectorOptions
from shoal.cluster.resources import CONFIG_MAPS, PODS, Object
from shoal.simulator import (
    ChaosOptions,
    Connection,
    DropEvent,
    FaultInjector,
    Schedule,
    SimulatedCluster,
    Simulation,
    random_schedule,
    run,
    run_with_restarts,
)
from tests.simulator.harness import config_map, name_of

BUSY, QUIET = 600.0, 1200.0
"""Seconds of writes and faults, and then seconds without, in which the reflector can catch up."""
_NAMES = "abcdefgh"


def reflected(seed: int, schedule: Schedule | None = None) -> tuple[dict[str, Object], dict[str, Object]]:
    """Return the objects of a reflector after a time with faults, and those of the store."""

    async def main(simulation: Simulation) -> tuple[dict[str, Object], dict[str, Object]]:
        random_faults = random_schedule(
            simulation.rng("faults"), ChaosOptions(faults=60, seconds=BUSY, calls=100)
        )
        faults = FaultInjector(schedule or random_faults, simulation.clock)
        retention = Retention(changes=simulation.rng("store").choice((5, 50, 5000)))
        store = SimulatedCluster(clock=simulation.clock, rng=simulation.rng("names"), retention=retention)
        async with store:
            return await _reflect_and_write(store, faults, simulation)

    return run(main, seed=seed)


async def _reflect_and_write(
    store: SimulatedCluster, faults: FaultInjector, simulation: Simulation
) -> tuple[dict[str, Object], dict[str, Object]]:
    caches: list[ObjectCache[Object]] = []

    async def reflect(cluster: Cluster) -> None:
        caches.append(ObjectCache[Object]())
        options = ReflectorOptions(page_size=3, rng=simulation.rng("pace"))
        await Reflector(cluster, CONFIG_MAPS, caches[-1], options=options).run()

    async with asyncio.TaskGroup() as group:
        reflecting = group.create_task(run_with_restarts(store, faults, reflect))
        writers = [
            group.create_task(_write(cluster, simulation.rng(name)))
            for name, cluster in (("on the store", store), ("through faults", Connection(store, faults)))
        ]
        await asyncio.sleep(BUSY)
        for writer in writers:
            writer.cancel()
        await asyncio.sleep(QUIET)
        reflecting.cancel()
    known = {name: thing for (_, name), thing in caches[-1].items.items()}
    return known, {name_of(thing): thing for thing in store.list_now(CONFIG_MAPS)}


async def _write(cluster: Cluster, rng: random.Random) -> None:
    """Create, patch and delete objects, whatever the answers are."""
    while True:
        await asyncio.sleep(rng.expovariate(0.2))
        name = rng.choice(_NAMES)
        try:
            match rng.randrange(3):
                case 0:
                    await cluster.create(CONFIG_MAPS, config_map(name, a=str(rng.random())))
                case 1:
                    await cluster.patch(
                        CONFIG_MAPS, name, "default", patch={"data": {"a": str(rng.random())}}
                    )
                case _:
                    await cluster.delete(CONFIG_MAPS, name, "default", Deletion(grace=0))
        except ClusterError:
            continue


@pytest.mark.parametrize("seed", range(40))
def test_a_reflector_has_the_objects_of_the_store_after_any_faults(seed: int) -> None:
    known, stored = reflected(seed)
    assert known == stored
    assert stored, "there are objects to compare"


def test_dropped_events_are_detected_by_the_comparison() -> None:
    """The test above can fail."""
    every_other = Schedule(tuple(DropEvent(nth=number) for number in range(1, 1000, 2)))
    agree = [known == stored for known, stored in (reflected(seed, every_other) for seed in range(5))]
    assert not all(agree)


def test_a_quiet_cluster_causes_no_delays() -> None:
    """Watches end by their timeout, and are opened again at once: no event is late."""

    async def main(simulation: Simulation) -> list[float]:
        now = asyncio.get_running_loop().time
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            created, received = list[float](), list[float]()
            options = ReflectorOptions(rng=simulation.rng("pace"))
            reflector = Reflector(store, CONFIG_MAPS, lambda _: received.append(now()), options=options)
            reflecting = asyncio.create_task(reflector.run())
            for number in range(80):
                await asyncio.sleep(simulation.rng(str(number)).uniform(6_000, 9_000))
                created.append(now())
                await store.create(CONFIG_MAPS, config_map(f"c{number}"))
            await asyncio.sleep(100)
            reflecting.cancel()
        return [late - early for late, early in zip(received, created, strict=True)]

    assert run(main) == [0.0] * 80


def test_commits_can_be_observed() -> None:
    async def main(simulation: Simulation) -> list[str]:
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            seen: list[str] = []
            store.commit_observers.append(
                lambda changes: seen.extend(change.record.key.name for change in changes)
            )
            store.commit_observers.append(lambda _: seen.append(f"{len(store.list_now(PODS))} there"))
            body = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [_CONTAINER]}}
            await store.create(PODS, body)
            await store.delete(PODS, "p", "default")
            return seen

    assert run(main) == ["p", "1 there", "p", "0 there"]


_CONTAINER = {"name": "main", "image": "busybox"}
