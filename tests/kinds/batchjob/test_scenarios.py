"""Scenarios of Jobs: with our controller on a registry, and with that of Kubernetes on a real API server."""

import asyncio
from collections.abc import Mapping

import pytest

from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig
from shoal.cluster.resources import Object
from shoal.kinds.batchjob.controller import job_controller
from tests.controllers.harness import registry, run_runtime
from tests.controllers.virtual_time import run_virtual
from tests.k8s.controlplane import ControlPlane
from tests.k8s.fixtures import new_namespace
from tests.kinds.batchjob.scenarios import SCENARIOS, SHOAL_SCENARIOS, Scenario, matches, run_scenario

Outcomes = Mapping[str, list[Object]]


def check(scenario: Scenario, seen: list[Object]) -> None:
    for number, (expected, found) in enumerate(
        zip([scenario.begin, *(expected for _, expected in scenario.steps)], seen, strict=True)
    ):
        assert matches(found, expected), f"step {number}: expected {expected}, found {found}"


@pytest.mark.parametrize("name", [*SCENARIOS, *SHOAL_SCENARIOS])
def test_our_controller(name: str) -> None:
    scenario = (SCENARIOS | SHOAL_SCENARIOS)[name]

    async def main() -> list[Object]:
        async with registry() as store, run_runtime(store, [job_controller]):
            return await run_scenario(store, "default", scenario)

    check(scenario, run_virtual(main))


@pytest.fixture(scope="module")
def on_kubernetes(k8s_controllers: ControlPlane) -> Outcomes:
    """The outcomes of all scenarios, run concurrently: some of them wait for seconds."""

    async def run_all() -> Outcomes:
        cluster = KubernetesCluster(from_kubeconfig(str(k8s_controllers.kubeconfig())))
        places = {name: new_namespace(k8s_controllers) for name in SCENARIOS}
        try:
            seen = await asyncio.gather(
                *(run_scenario(cluster, places[name], SCENARIOS[name]) for name in SCENARIOS)
            )
        finally:
            await cluster.close()
        return dict(zip(SCENARIOS, seen, strict=True))

    return asyncio.run(run_all())


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_controller_of_kubernetes(on_kubernetes: Outcomes, name: str) -> None:
    check(SCENARIOS[name], on_kubernetes[name])
