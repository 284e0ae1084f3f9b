"""The live cases on virtual time, beside a real API server, and with processes: one outcome of each scene."""

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
from tests.scheduler.embedded import embedded_stage
from tests.scheduler.scenes import Scene, new_stage, play

ALL = CASES | JOBS


@pytest.mark.parametrize("scene", ALL.values(), ids=ALL.keys())
def test_simulated(scene: Scene) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as store:
            stage = await new_stage(store, simulation.clock)
            await play(scene, stage, partial(running, clock=simulation.clock))

    run(main, seed=1)


@pytest.mark.parametrize("scene", ALL.values(), ids=ALL.keys())
async def test_in_kubernetes(scene: Scene, k8s_alone: ControlPlane) -> None:
    cluster = KubernetesCluster(find_access(str(k8s_alone.kubeconfig())))
    stage = await new_stage(cluster, time.time)
    try:
        await play(scene, stage, running)
    finally:
        await stage.clear()
        await cluster.close()


@pytest.mark.parametrize("program", ["kubectl", "shoal"])
@pytest.mark.parametrize("scene", ALL.values(), ids=ALL.keys())
async def test_with_processes(scene: Scene, program: str, tmp_path: Path) -> None:
    async with embedded_stage(tmp_path / "home", program) as stage:
        await play(scene, stage, partial(running, native=True))
