"""Bindings that are held up, and what happens meanwhile: it is put right afterwards."""

import asyncio

import pytest

from shoal.cluster.resources import PODS
from shoal.engine.config import SchedulerConfig
from shoal.simulator import Faults, Schedule, SimulatedCluster, Simulation, Slow, run
from shoal.simulator.kubelet import runs_for
from tests.builders import namespace, open_pool
from tests.soak.enduring import enduring
from tests.soak.scenes import create, gang, nodes
from tests.soak.sight import Sight
from tests.soak.witness import Witness

SPACE = "late"
RECOVERED = 1200.0
"""Seconds after which a gang is whole again, or gone."""


@pytest.mark.parametrize("bindings", [(1,), (2,), (1, 2)], ids=["the first", "the second", "both"])
@pytest.mark.parametrize("taken", ["gang-0", "gang-1"])
def test_a_user_takes_one_of_a_gang_whose_binding_is_held_up(taken: str, bindings: tuple[int, ...]) -> None:
    schedule = Schedule(tuple(Slow(nth=nth, on="bind pods", seconds=60.0) for nth in bindings))

    async def main(simulation: Simulation) -> tuple[str, list[str]]:
        async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("store")) as store:
            return await _scene(simulation, store, schedule, taken)

    assert run(main) == ("", [])


async def _scene(
    simulation: Simulation, store: SimulatedCluster, schedule: Schedule, taken: str
) -> tuple[str, list[str]]:
    """What was broken, and which pods are left in the end."""
    for one in (namespace(SPACE), open_pool("a")):
        await create(store, one)
    async with nodes(simulation, store, "a", 2, lambda _: runs_for(10 * RECOVERED)) as machines:
        faults = Faults(schedule, simulation.clock)
        witness = Witness(Sight(asyncio.get_running_loop().time, machines.running), faults)
        store.witnesses.append(witness)
        async with enduring(simulation, store, faults, SchedulerConfig(), witness):
            for one in gang("gang", SPACE, "a", 4, 2):
                await create(store, one)
            await asyncio.sleep(30)
            assert len(faults.story) == len(schedule.faults)
            await _take(store, witness.sight, taken)
            await asyncio.sleep(RECOVERED)
        return witness.broken, [one["metadata"]["name"] for one in store.all(PODS)]


async def _take(store: SimulatedCluster, sight: Sight, name: str) -> None:
    """A user deletes a pod."""
    thing = await store.get(PODS, name, SPACE)
    sight.deleted_by_users.add(thing["metadata"]["uid"])
    await store.delete(PODS, name, SPACE)
