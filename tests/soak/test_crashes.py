"""Shoal is killed before or after each write of a scenario in turn: the outcome is the same.

In the scenario pods borrow nodes, borrowers are evicted, a gang starts as a whole, and Jobs run to their end.
"""

import asyncio
from dataclasses import dataclass
from itertools import count

import pytest

from shoal.cluster.resources import JOBS, NODES, PODS, Object
from shoal.engine.config import SchedulerConfig
from shoal.simulator import Crash, FaultInjector, Schedule, SimulatedCluster, Simulation, run
from shoal.simulator.kubelet import PodScript, runs_for
from tests.builders import INDEX, POOL, namespace, open_pool, template
from tests.soak.checker import InvariantChecker
from tests.soak.harness import create, gang, nodes
from tests.soak.observed_state import ObservedState
from tests.soak.shoal_process import run_shoal

SPACE = "crashes"
DEADLINE = 7200.0
"""Seconds after which everything has to be finished."""
PARTS = 4
"""The writes are divided into this number of tests, which can run in parallel."""


def job(name: str, pool: str, cpu: int, completions: int) -> Object:
    made = template(cpu=cpu, scheduler="shoal", annotations={POOL: pool})
    made["spec"]["restartPolicy"] = "Never"
    spec = {"completions": completions, "parallelism": completions, "completionMode": "Indexed"}
    metadata = {"name": name, "namespace": SPACE}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {**spec, "template": made}}


SUBMISSIONS: list[tuple[float, list[Object]]] = [
    (0.0, [job("own", "b", 2, 2), job("guest", "b", 4, 2)]),
    (30.0, list(gang("gang", SPACE, "a", 4, 2))),
    (40.0, [job("late", "a", 1, 3)]),
]
"""`guest` borrows the nodes of pool a, until the gang of that pool is submitted."""


def script(pod: Object) -> PodScript:
    """The script of a pod: it runs long enough for others to wait."""
    return runs_for(100.0 if pod["metadata"]["name"].startswith("gang") else 200.0, start_delay=1.0)


@dataclass
class Outcome:
    """The final state of a run, and whether the crash occurred at all."""

    crashed: bool
    state: Object
    violation: str


def run_with(*crashes: Crash) -> Outcome:
    async def main(simulation: Simulation) -> Outcome:
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            return await _run(simulation, store, Schedule(crashes))

    return run(main, seed=1)


async def _run(simulation: Simulation, store: SimulatedCluster, schedule: Schedule) -> Outcome:
    for one in (namespace(SPACE), open_pool("a"), open_pool("b")):
        await create(store, one)
    async with nodes(simulation, store, "a", 2, script) as a, nodes(simulation, store, "b", 1, script) as b:
        faults = FaultInjector(schedule, simulation.clock)
        state = ObservedState(
            asyncio.get_running_loop().time, lambda: {**a.running_pods(), **b.running_pods()}
        )
        checker = InvariantChecker(state, faults)
        store.commit_observers.append(checker)
        config = SchedulerConfig(optimise_period="10m")
        async with run_shoal(simulation, store, faults, config, checker):
            await _submit(store, checker)
        return Outcome(bool(faults.log), _state(store), checker.violation)


async def _submit(store: SimulatedCluster, checker: InvariantChecker) -> None:
    """Create the objects of the scenario, and wait until everything is finished."""
    for at, things in SUBMISSIONS:
        await asyncio.sleep(max(at - checker.state.now(), 0))
        for one in things:
            await create(store, one)
    await checker.expect_finished_within(DEADLINE)


def _state(store: SimulatedCluster) -> Object:
    """The final objects, without times and names that depend on the number of crashes."""
    return {
        "jobs": {one["metadata"]["name"]: _result(one["status"]) for one in store.list_now(JOBS)},
        "pods": sorted((_role(one), one["status"]["phase"]) for one in store.list_now(PODS)),
        "nominated": [one["metadata"]["name"] for one in store.list_now(PODS) if _is_nominated(one)],
        "tainted": [one["metadata"]["name"] for one in store.list_now(NODES) if one["spec"].get("taints")],
    }


def _role(one: Object) -> str:
    """Owner and index of a pod: names of pods of Jobs depend on how often they were created."""
    metadata = one["metadata"]
    index = metadata.get("annotations", {}).get(INDEX)
    return f"{metadata['ownerReferences'][0]['name']} {index}" if index else str(metadata["name"])


def _result(status: Object) -> Object:
    counts = {key: status.get(key, 0) for key in ("succeeded", "failed", "active", "completedIndexes")}
    return counts | {
        "conditions": sorted(one["type"] for one in status["conditions"] if one["status"] == "True")
    }


def _is_nominated(one: Object) -> bool:
    return bool(one["status"].get("nominatedNodeName")) and "nodeName" not in one["spec"]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_write_does_not_change_the_outcome(part: int, after: bool) -> None:  # noqa: FBT001
    expected = run_with()
    assert not expected.violation
    for nth in count(1 + part, PARTS):
        end = run_with(Crash(nth=nth, after=after))
        assert (end.violation, end.state) == ("", expected.state), f"crash at write {nth}"
        if not end.crashed:
            return
