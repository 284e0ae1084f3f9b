"""Preconditions of a deletion, and the grace period of pods."""

import pytest

from shoal.cluster.errors import ConflictError
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import CONFIG_MAPS, PODS, Object, Resource, resource_of
from tests.conformance.cases import cases, kinds
from tests.conformance.objects import config_map, make, pod, uid_of, version_of
from tests.conformance.waiting import exists, until_observed

OTHER = "00000000-0000-0000-0000-000000000000"


@kinds(CONFIG_MAPS, resource_of("TYJob"), PODS)
async def test_the_uid_is_a_precondition(
    cluster: Cluster, namespace: str, resource: Resource[Object]
) -> None:
    made = await cluster.create(resource, make(resource, "a", namespace))
    for other in (Deletion(uid=OTHER), Deletion(version="1"), Deletion(uid=uid_of(made), version="1")):
        with pytest.raises(ConflictError):
            await cluster.delete(resource, "a", namespace, other)
    assert await cluster.get(resource, "a", namespace) == made
    meant = Deletion(uid=uid_of(made), version=version_of(made), grace=0)
    assert await cluster.delete(resource, "a", namespace, meant) is None
    assert not await exists(cluster, resource, "a", namespace)


async def test_the_version_is_a_precondition(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"data": {"a": "2"}})
    with pytest.raises(ConflictError):
        await cluster.delete(CONFIG_MAPS, "a", namespace, Deletion(version=version_of(made)))


# --- the grace of pods ---------------------------------------------------------------------------------


async def bound(cluster: Cluster, namespace: str, grace: int = 30) -> Object:
    await cluster.create(PODS, pod("a", namespace, terminationGracePeriodSeconds=grace))
    await cluster.bind("a", namespace, "no-such-node")
    return await until_observed(cluster, PODS, await cluster.get(PODS, "a", namespace))


GRACES: list[tuple[str, int, Deletion, int]] = [
    ("the pod's own", 30, Deletion(), 30),
    ("the one of the deletion", 30, Deletion(grace=5), 5),
    ("a longer one of the deletion", 30, Deletion(grace=500), 500),
    ("one second for a negative one", 30, Deletion(grace=-5), 1),
]


@cases("own, deletion, grace", GRACES)
async def test_a_bound_pod_gets_a_grace_period(
    cluster: Cluster, namespace: str, own: int, deletion: Deletion, grace: int
) -> None:
    made = await bound(cluster, namespace, own)
    marked = await cluster.delete(PODS, "a", namespace, deletion)
    assert marked is not None
    assert marked["metadata"]["deletionGracePeriodSeconds"] == grace
    assert marked["metadata"]["deletionTimestamp"] > made["metadata"]["creationTimestamp"]
    assert await cluster.get(PODS, "a", namespace) == marked


GO_AT_ONCE: list[tuple[str, str, str, Deletion]] = [
    ("a pod without a node", "", "", Deletion()),
    ("a pod without a node, with a grace period", "", "", Deletion(grace=100)),
    ("a bound pod, with grace period 0", "n", "", Deletion(grace=0)),
    ("a running pod, with grace period 0", "n", "Running", Deletion(grace=0)),
    ("a pod that succeeded", "n", "Succeeded", Deletion()),
    ("a pod that failed", "n", "Failed", Deletion()),
    ("a pod that failed, with a grace period", "n", "Failed", Deletion(grace=100)),
]


@cases("node, phase, deletion", GO_AT_ONCE)
async def test_some_pods_are_removed_immediately(
    cluster: Cluster, namespace: str, node: str, phase: str, deletion: Deletion
) -> None:
    await cluster.create(PODS, pod("a", namespace))
    if node:
        await cluster.bind("a", namespace, node)
    if phase:
        ended = await cluster.patch_status(PODS, "a", namespace, patch={"status": {"phase": phase}})
        await until_observed(cluster, PODS, ended)
    assert await cluster.delete(PODS, "a", namespace, deletion) is None
    assert not await exists(cluster, PODS, "a", namespace)


SECOND: list[tuple[str, int | None, int]] = [
    ("a shorter time shortens it", 5, 5),
    ("a longer time changes nothing", 500, 30),
    ("the same time changes nothing", 30, 30),
    ("no grace period changes nothing", None, 30),
    ("a negative one is one second", -5, 1),
]


@cases("second, left", SECOND)
async def test_a_second_deletion_can_only_shorten_the_grace_period(
    cluster: Cluster, namespace: str, second: int | None, left: int
) -> None:
    await bound(cluster, namespace)
    first = await cluster.delete(PODS, "a", namespace)
    again = await cluster.delete(PODS, "a", namespace, Deletion(grace=second))
    assert first is not None
    assert again is not None
    assert again["metadata"]["deletionGracePeriodSeconds"] == left
    assert (again == first) is (left == 30)


async def test_a_second_deletion_with_zero_grace_removes_it(cluster: Cluster, namespace: str) -> None:
    await bound(cluster, namespace)
    assert await cluster.delete(PODS, "a", namespace) is not None
    assert await cluster.delete(PODS, "a", namespace, Deletion(grace=0)) is None
    assert not await exists(cluster, PODS, "a", namespace)


async def test_a_second_deletion_moves_the_deletion_timestamp(cluster: Cluster, namespace: str) -> None:
    await bound(cluster, namespace)
    first = await cluster.delete(PODS, "a", namespace, Deletion(grace=1000))
    again = await cluster.delete(PODS, "a", namespace, Deletion(grace=10))
    assert first is not None
    assert again is not None
    assert again["metadata"]["deletionTimestamp"] < first["metadata"]["deletionTimestamp"]


async def test_deletion_increments_the_generation_of_a_pod(cluster: Cluster, namespace: str) -> None:
    await bound(cluster, namespace)
    marked = await cluster.delete(PODS, "a", namespace)
    assert marked is not None
    assert marked["metadata"]["generation"] == 2


async def test_a_pod_with_zero_grace_is_removed_immediately(cluster: Cluster, namespace: str) -> None:
    await bound(cluster, namespace, 0)
    assert await cluster.delete(PODS, "a", namespace) is None


async def test_other_kinds_have_no_grace_period(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    assert await cluster.delete(CONFIG_MAPS, "a", namespace, Deletion(grace=100)) is None
