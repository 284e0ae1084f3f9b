"""The live cases on virtual time, with a real API server, and with processes: the same results."""

import time
from functools import partial
from pathlib import Path

import pytest

from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.manager import running
from shoal.simulator import SimulatedCluster, Simulation, run
from tests.k8s.controlplane import ControlPlane
from tests.scheduler.cases import CASES, JOBS
from tests.scheduler.embedded import embedded_testbed
from tests.scheduler.scenarios import Scenario, new_testbed, run_scenario

ALL = CASES | JOBS


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL.keys())
def test_simulated(scenario: Scenario) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            testbed = await new_testbed(store, simulation.clock)
            await run_scenario(scenario, testbed, partial(running, clock=simulation.clock))

    run(main, seed=1)


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL.keys())
async def test_in_kubernetes(scenario: Scenario, k8s_alone: ControlPlane) -> None:
    cluster = KubernetesCluster(find_access(str(k8s_alone.kubeconfig())))
    testbed = await new_testbed(cluster, time.time)
    try:
        await run_scenario(scenario, testbed, running)
    finally:
        await testbed.clear()
        await cluster.close()


@pytest.mark.parametrize("program", ["kubectl", "shoal"])
@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL.keys())
async def test_with_processes(scenario: Scenario, program: str, tmp_path: Path) -> None:
    async with embedded_testbed(tmp_path / "home", program) as testbed:
        await run_scenario(scenario, testbed, partial(running, native=True))
