"""The live cases, on virtual time and beside a real API server: the same scenes, the same outcome."""

import time

import pytest

from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.kubernetes.home import KubernetesCluster
from shoal.cluster.simulated import SimulatedCluster, Simulation, run
from tests.k8s.controlplane import ControlPlane
from tests.scheduler.cases import CASES
from tests.scheduler.scenes import Scene, new_stage, play


@pytest.mark.parametrize("scene", CASES.values(), ids=CASES.keys())
def test_simulated(scene: Scene) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("store")) as store:
            stage = await new_stage(store, "scene")
            await play(scene, stage, clock=simulation.clock)

    run(main, seed=1)


@pytest.mark.parametrize("scene", CASES.values(), ids=CASES.keys())
async def test_in_kubernetes(scene: Scene, k8s: ControlPlane) -> None:
    cluster = KubernetesCluster(find_access(str(k8s.kubeconfig())))
    stage = await new_stage(cluster, "scene")
    try:
        await play(scene, stage, clock=time.time)
    finally:
        await stage.clear()
        await cluster.close()
