"""Binding a pod to its node, once."""

import pytest

from shoal.cluster.errors import ConflictError, NotFoundError
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import NODES, PODS
from tests.conformance.conftest import CreateTemporary
from tests.conformance.objects import make, pod, uid_of, unique, version_of

OTHER = "00000000-0000-0000-0000-000000000000"


async def test_binding_sets_the_node(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary
) -> None:
    node = await create_temporary(NODES, make(NODES, unique("node")))
    made = await cluster.create(PODS, pod("a", namespace))
    await cluster.bind("a", namespace, node["metadata"]["name"])
    bound = await cluster.get(PODS, "a", namespace)
    assert bound["spec"]["nodeName"] == node["metadata"]["name"]
    assert version_of(bound) != version_of(made)
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["lastTransitionTime"]
    assert bound["status"]["phase"] == "Pending"


async def test_binding_clears_the_nomination(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod("a", namespace))
    await cluster.patch_status(PODS, "a", namespace, patch={"status": {"nominatedNodeName": "n1"}})
    await cluster.bind("a", namespace, "n2")
    bound = await cluster.get(PODS, "a", namespace)
    assert (bound["spec"]["nodeName"], bound["status"].get("nominatedNodeName")) == ("n2", None)


async def test_the_node_need_not_exist(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod("a", namespace))
    await cluster.bind("a", namespace, "no-such-node")
    assert (await cluster.get(PODS, "a", namespace))["spec"]["nodeName"] == "no-such-node"


@pytest.mark.parametrize("node", ["n1", "n2"], ids=["to the same node", "to another node"])
async def test_a_pod_is_bound_once(cluster: Cluster, namespace: str, node: str) -> None:
    await cluster.create(PODS, pod("a", namespace))
    await cluster.bind("a", namespace, "n1")
    before = await cluster.get(PODS, "a", namespace)
    with pytest.raises(ConflictError, match="already assigned to node"):
        await cluster.bind("a", namespace, node)
    assert await cluster.get(PODS, "a", namespace) == before


async def test_a_missing_pod_is_not_found(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(NotFoundError):
        await cluster.bind("missing", namespace, "n1")


async def test_the_uid_of_a_binding_is_a_precondition(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, pod("a", namespace))
    with pytest.raises(ConflictError):
        await cluster.bind("a", namespace, "n1", uid=OTHER)
    assert await cluster.get(PODS, "a", namespace) == made
    await cluster.bind("a", namespace, "n1", uid=uid_of(made))


async def test_a_gated_pod_is_not_bound(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, pod("a", namespace, schedulingGates=[{"name": "example.com/wait"}]))
    with pytest.raises(ConflictError, match="schedulingGates"):
        await cluster.bind("a", namespace, "n1")
    assert await cluster.get(PODS, "a", namespace) == made
    await cluster.patch(PODS, "a", namespace, patch={"spec": {"schedulingGates": []}})
    await cluster.bind("a", namespace, "n1")


async def test_a_gated_pod_has_the_reason_scheduling_gated(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, pod("a", namespace, schedulingGates=[{"name": "example.com/wait"}]))
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


async def test_a_terminating_pod_is_not_bound(cluster: Cluster, namespace: str) -> None:
    body = pod("a", namespace)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await cluster.create(PODS, body)
    await cluster.delete(PODS, "a", namespace, Deletion(grace=30))
    with pytest.raises(ConflictError, match="is being deleted"):
        await cluster.bind("a", namespace, "n1")


async def test_a_binding_does_not_change_the_generation(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod("a", namespace))
    await cluster.bind("a", namespace, "n1")
    assert (await cluster.get(PODS, "a", namespace))["metadata"]["generation"] == 1


async def test_an_unscheduled_condition_is_replaced(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod("a", namespace))
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    other = {"type": "example.com/Other", "status": "True"}
    await cluster.patch_status(PODS, "a", namespace, patch={"status": {"conditions": [waits, other]}})
    await cluster.bind("a", namespace, "n1")
    conditions = (await cluster.get(PODS, "a", namespace))["status"]["conditions"]
    assert [(each["type"], each["status"]) for each in conditions] == [
        ("PodScheduled", "True"),
        ("example.com/Other", "True"),
    ]
