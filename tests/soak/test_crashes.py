"""Shoal is killed before or after any write of a scene, each in turn: it ends as if nothing had happened.

Somebody borrows, somebody is sent home, a gang starts whole, and Jobs are run to their ends meanwhile.
"""

import asyncio
from dataclasses import dataclass
from itertools import count

import pytest

from shoal.cluster.resources import JOBS, NODES, PODS, Object
from shoal.engine.config import SchedulerConfig
from shoal.simulator import Crash, Faults, Schedule, SimulatedCluster, Simulation, run
from shoal.simulator.kubelet import Life, runs_for
from tests.builders import INDEX, POOL, namespace, open_pool, template
from tests.soak.enduring import enduring
from tests.soak.scenes import create, gang, nodes
from tests.soak.sight import Sight
from tests.soak.witness import Witness

SPACE = "crashes"
LATEST = 7200.0
"""Seconds after which what has not ended never will."""
PARTS = 4
"""The writes of the scene are gone through in so many parts, side by side."""


def job(name: str, home: str, cpu: int, completions: int) -> Object:
    made = template(cpu=cpu, scheduler="shoal", annotations={POOL: home})
    made["spec"]["restartPolicy"] = "Never"
    spec = {"completions": completions, "parallelism": completions, "completionMode": "Indexed"}
    metadata = {"name": name, "namespace": SPACE}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {**spec, "template": made}}


SCENE: list[tuple[float, list[Object]]] = [
    (0.0, [job("own", "b", 2, 2), job("guest", "b", 4, 2)]),
    (30.0, list(gang("gang", SPACE, "a", 4, 2))),
    (40.0, [job("late", "a", 1, 3)]),
]
"""`guest` borrows the nodes of pool a, until the gang comes, which is at home there."""


def life(thing: Object) -> Life:
    """Everybody runs for a while, as long as others have to wait for them."""
    return runs_for(100.0 if thing["metadata"]["name"].startswith("gang") else 200.0, creating=1.0)


@dataclass
class End:
    """How a run ended, and whether the crash came at all."""

    came: bool
    state: Object
    broken: str


def played(*crashes: Crash) -> End:
    async def main(simulation: Simulation) -> End:
        async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("store")) as store:
            return await _scene(simulation, store, Schedule(crashes))

    return run(main, seed=1)


async def _scene(simulation: Simulation, store: SimulatedCluster, schedule: Schedule) -> End:
    for one in (namespace(SPACE), open_pool("a"), open_pool("b")):
        await create(store, one)
    async with nodes(simulation, store, "a", 2, life) as a, nodes(simulation, store, "b", 1, life) as b:
        faults = Faults(schedule, simulation.clock)
        sight = Sight(asyncio.get_running_loop().time, lambda: {**a.running(), **b.running()})
        witness = Witness(sight, faults)
        store.witnesses.append(witness)
        config = SchedulerConfig(optimise_period="10m")
        async with enduring(simulation, store, faults, config, witness):
            await _perform(store, witness)
        return End(bool(faults.story), _state(store), witness.broken)


async def _perform(store: SimulatedCluster, witness: Witness) -> None:
    """Do what is done in the scene, and wait until all has ended, or never will."""
    for at, things in SCENE:
        await asyncio.sleep(max(at - witness.sight.now(), 0))
        for one in things:
            await create(store, one)
    await witness.must_rest_within(LATEST)


def _state(store: SimulatedCluster) -> Object:
    """What is left, but for times and names that depend on how often somebody was killed."""
    return {
        "jobs": {one["metadata"]["name"]: _result(one["status"]) for one in store.all(JOBS)},
        "pods": sorted((_role(one), one["status"]["phase"]) for one in store.all(PODS)),
        "kept": [one["metadata"]["name"] for one in store.all(PODS) if _waits_for_room(one)],
        "tainted": [one["metadata"]["name"] for one in store.all(NODES) if one["spec"].get("taints")],
    }


def _role(one: Object) -> str:
    """Whose pod it is, and which: the names of pods of Jobs tell how often they were made."""
    metadata = one["metadata"]
    index = metadata.get("annotations", {}).get(INDEX)
    return f"{metadata['ownerReferences'][0]['name']} {index}" if index else str(metadata["name"])


def _result(status: Object) -> Object:
    counts = {key: status.get(key, 0) for key in ("succeeded", "failed", "active", "completedIndexes")}
    return counts | {"ends": sorted(one["type"] for one in status["conditions"] if one["status"] == "True")}


def _waits_for_room(one: Object) -> bool:
    return bool(one["status"].get("nominatedNodeName")) and "nodeName" not in one["spec"]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_write_changes_nothing_about_the_end(part: int, after: bool) -> None:  # noqa: FBT001
    expected = played()
    assert not expected.broken
    for nth in count(1 + part, PARTS):
        end = played(Crash(nth=nth, after=after))
        assert (end.broken, end.state) == ("", expected.state), f"killed at write {nth}"
        if not end.came:
            return
