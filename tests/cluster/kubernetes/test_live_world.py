"""A World that follows a real API server, where Shoal's kinds are not installed."""

from collections.abc import AsyncIterator

import pytest

from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import NODES, PODS
from tests.builders import node, pod
from tests.cluster.live_world import follow_world, wait_until
from tests.k8s.controlplane import ControlPlane


@pytest.fixture
async def cluster(k8s: ControlPlane) -> AsyncIterator[KubernetesCluster]:
    found = KubernetesCluster(from_kubeconfig(str(k8s.kubeconfig())))
    yield found
    await found.close()


async def test_a_pod_is_followed_from_binding_to_deletion(cluster: Cluster, namespace: str) -> None:
    host, key = f"{namespace}-host", (namespace, "a")
    await cluster.create(NODES, node(host))
    await cluster.create(PODS, pod("a", cpu=1, namespace=namespace))
    async with follow_world(cluster) as live:
        await live.synced()
        world = live.world
        assert host in world.nodes
        assert not world.pods[key].node
        assert world.assume_bound(key, host)
        assert world.pods[key].node == host
        await cluster.bind("a", namespace, host, uid=world.pods[key].uid)
        await wait_until(lambda: not world.assumed)
        assert world.pods[key].node == host
        assert world.assume_leaving(key)
        await cluster.evict("a", namespace)
        await wait_until(lambda: not world.assumed)
        await cluster.delete(PODS, "a", namespace, Deletion(grace=0))
        await wait_until(lambda: key not in world.pods)
        await cluster.delete(NODES, host)
        await wait_until(lambda: host not in world.nodes)
        assert live.unreadable == {}
