"""Bindings that a fault delays while a pod of the gang is deleted: the gang recovers."""

import asyncio

import pytest

from shoal.cluster.resources import PODS
from shoal.engine.config import SchedulerConfig
from shoal.simulator import FaultInjector, Schedule, SimulatedCluster, Simulation, Slow, run
from shoal.simulator.kubelet import runs_for
from tests.builders import namespace, open_pool
from tests.soak.checker import InvariantChecker
from tests.soak.harness import create, gang, nodes
from tests.soak.observed_state import ObservedState
from tests.soak.shoal_process import run_shoal

SPACE = "late"
RECOVERY_TIME = 1200.0
"""Seconds after which a gang is whole again, or deleted."""


@pytest.mark.parametrize("bindings", [(1,), (2,), (1, 2)], ids=["the first", "the second", "both"])
@pytest.mark.parametrize("deleted", ["gang-0", "gang-1"])
def test_a_pod_of_a_gang_is_deleted_while_bindings_are_delayed(
    deleted: str, bindings: tuple[int, ...]
) -> None:
    schedule = Schedule(tuple(Slow(nth=nth, on="bind pods", seconds=60.0) for nth in bindings))

    async def main(simulation: Simulation) -> tuple[str, list[str]]:
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            return await _run(simulation, store, schedule, deleted)

    assert run(main) == ("", [])


async def _run(
    simulation: Simulation, store: SimulatedCluster, schedule: Schedule, deleted: str
) -> tuple[str, list[str]]:
    """Return the violation, if any, and the pods that are left in the end."""
    for one in (namespace(SPACE), open_pool("a")):
        await create(store, one)
    async with nodes(simulation, store, "a", 2, lambda _: runs_for(10 * RECOVERY_TIME)) as kubelet:
        faults = FaultInjector(schedule, simulation.clock)
        checker = InvariantChecker(
            ObservedState(asyncio.get_running_loop().time, kubelet.running_pods), faults
        )
        store.commit_observers.append(checker)
        async with run_shoal(simulation, store, faults, SchedulerConfig(), checker):
            for one in gang("gang", SPACE, "a", 4, 2):
                await create(store, one)
            await asyncio.sleep(30)
            assert len(faults.log) == len(schedule.faults)
            await _delete_pod(store, checker.state, deleted)
            await asyncio.sleep(RECOVERY_TIME)
        return checker.violation, [one["metadata"]["name"] for one in store.list_now(PODS)]


async def _delete_pod(store: SimulatedCluster, state: ObservedState, name: str) -> None:
    """Delete a pod, as a user."""
    thing = await store.get(PODS, name, SPACE)
    state.deleted_by_users.add(thing["metadata"]["uid"])
    await store.delete(PODS, name, SPACE)
