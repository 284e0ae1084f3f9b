"""Lives of Jobs: with our controller on a registry, and with that of Kubernetes on a real API server."""

import asyncio
from collections.abc import Mapping

import pytest

from shoal.cluster.kubernetes.home import KubernetesCluster
from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig
from shoal.cluster.resources import Object
from shoal.kinds.batchjob.reconcile import job_controller
from tests.controllers.scenes import at_work, registry
from tests.controllers.virtual import virtually
from tests.k8s.controlplane import ControlPlane
from tests.k8s.fixtures import new_namespace
from tests.kinds.batchjob.scenarios import OURS, SCENARIOS, Scenario, play, shows

Played = Mapping[str, list[Object]]


def check(scenario: Scenario, seen: list[Object]) -> None:
    for number, (expected, found) in enumerate(
        zip([scenario.begin, *(expected for _, expected in scenario.steps)], seen, strict=True)
    ):
        assert shows(found, expected), f"step {number}: expected {expected}, found {found}"


@pytest.mark.parametrize("name", [*SCENARIOS, *OURS])
def test_our_controller_leads_it_to_its_end(name: str) -> None:
    scenario = (SCENARIOS | OURS)[name]

    async def scene() -> list[Object]:
        async with registry() as home, at_work(home, [job_controller]):
            return await play(home, "default", scenario)

    check(scenario, virtually(scene))


@pytest.fixture(scope="module")
def on_kubernetes(k8s_controllers: ControlPlane) -> Played:
    """What came of every scenario, all played side by side: some of them wait for seconds."""

    async def play_all() -> Played:
        cluster = KubernetesCluster(from_kubeconfig(str(k8s_controllers.kubeconfig())))
        places = {name: new_namespace(k8s_controllers) for name in SCENARIOS}
        try:
            seen = await asyncio.gather(*(play(cluster, places[name], SCENARIOS[name]) for name in SCENARIOS))
        finally:
            await cluster.close()
        return dict(zip(SCENARIOS, seen, strict=True))

    return asyncio.run(play_all())


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_controller_of_kubernetes_leads_it_to_the_same_end(on_kubernetes: Played, name: str) -> None:
    check(SCENARIOS[name], on_kubernetes[name])
