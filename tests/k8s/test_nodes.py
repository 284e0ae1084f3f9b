"""The controller of lost nodes beside a real API server: names of our pods on lost nodes become free."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from shoal.api.names import TRACKING_FINALIZER
from shoal.cluster.errors import NotFoundError
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.resources import NODES, PODS, Object
from shoal.controllers.nodes import NodeView, node_controller
from shoal.controllers.runtime import Controller
from shoal.controllers.stores import Stores
from tests.conformance.objects import make, unique
from tests.controllers.harness import run_runtime
from tests.k8s.controlplane import ControlPlane

UNKNOWN = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def nodes(stores: Stores) -> Controller[NodeView]:
    return node_controller(stores, 1.0, native=False)


async def until_disrupted(cluster: KubernetesCluster, name: str, namespace: str) -> Object:
    """Wait until a pod has the DisruptionTarget condition and is deleted without a grace period."""
    while True:
        pod = await cluster.get(PODS, name, namespace)
        if pod["metadata"].get("deletionGracePeriodSeconds") == 0:
            return pod
        await asyncio.sleep(0.1)


@pytest.fixture
async def cluster(k8s: ControlPlane) -> AsyncIterator[KubernetesCluster]:
    connected = KubernetesCluster(find_access(str(k8s.kubeconfig())))
    yield connected
    await connected.close()


@pytest.fixture
async def node(cluster: KubernetesCluster) -> AsyncIterator[str]:
    """A node, which the test may delete."""
    name = unique("node")
    await cluster.create(NODES, make(NODES, name))
    yield name
    with contextlib.suppress(NotFoundError):
        await cluster.delete(NODES, name)


@pytest.mark.parametrize("lost", ["deleted", "silent"])
async def test_the_name_of_a_tracked_pod_becomes_free(
    cluster: KubernetesCluster, namespace: str, node: str, lost: str
) -> None:
    for name, finalizers in (("ours", [TRACKING_FINALIZER]), ("other", [])):
        body = make(PODS, name, namespace)
        body["metadata"]["finalizers"] = finalizers
        await cluster.create(PODS, body)
        await cluster.bind(name, namespace, node)
    async with run_runtime(cluster, [nodes]), asyncio.timeout(30):
        if lost == "deleted":
            await cluster.delete(NODES, node)
        else:
            await cluster.patch_status(NODES, node, patch={"status": {"conditions": [UNKNOWN]}})
        ended = await until_disrupted(cluster, "ours", namespace)
    assert "DisruptionTarget" in [one["type"] for one in ended["status"]["conditions"]]
    other = await cluster.get(PODS, "other", namespace)
    assert "deletionTimestamp" not in other["metadata"]
    await cluster.patch(PODS, "ours", namespace, patch={"metadata": {"finalizers": None}})
    with pytest.raises(NotFoundError):
        await cluster.get(PODS, "ours", namespace)
