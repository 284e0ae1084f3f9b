"""The status subresource: status and spec are written separately."""

import pytest

from shoal.cluster.errors import ConflictError, InvalidError, NotFoundError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import BUDGETS, JOBS, NODES, PODS, Object, Resource, resource_of
from tests.conformance.cases import cases
from tests.conformance.conftest import CreateTemporary
from tests.conformance.objects import make, name_of, pod, unique, version_of

STATUSES: list[tuple[Resource[Object], Object]] = [
    (PODS, {"phase": "Running", "podIP": "10.1.2.3"}),
    (NODES, {"capacity": {"cpu": "4"}}),
    (resource_of("TYJob"), {"stage": "Running"}),
    (resource_of("Pool"), {"nodes": 3}),
    (BUDGETS, {"disruptionsAllowed": 3, "currentHealthy": 4, "desiredHealthy": 1, "expectedPods": 4}),
]
by_kind = pytest.mark.parametrize("resource, status", STATUSES, ids=[row[0].plural for row in STATUSES])


async def create_one(
    create_temporary: CreateTemporary, resource: Resource[Object], namespace: str, **more: Object
) -> Object:
    return await create_temporary(
        resource, make(resource, unique(), namespace if resource.namespaced else "", **more)
    )


def has(status: Object, part: Object) -> bool:
    return {**status, **part} == status


@by_kind
async def test_a_status_patch_changes_the_status(
    cluster: Cluster,
    namespace: str,
    create_temporary: CreateTemporary,
    resource: Resource[Object],
    status: Object,
) -> None:
    made = await create_one(create_temporary, resource, namespace)
    there = made["metadata"].get("namespace", "")
    patched = await cluster.patch_status(resource, name_of(made), there, patch={"status": status})
    assert has(patched["status"], status)
    assert version_of(patched) != version_of(made)
    assert patched["metadata"].get("generation") == made["metadata"].get("generation")
    assert await cluster.get(resource, name_of(made), there) == patched


@by_kind
async def test_a_status_patch_does_not_change_the_spec(
    cluster: Cluster,
    namespace: str,
    create_temporary: CreateTemporary,
    resource: Resource[Object],
    status: Object,
) -> None:
    made = await create_one(create_temporary, resource, namespace)
    there = made["metadata"].get("namespace", "")
    patch = {"status": status, "spec": {"priority": 9, "unschedulable": True, "minAvailable": 7}}
    patched = await cluster.patch_status(resource, name_of(made), there, patch=patch)
    assert patched.get("spec") == made.get("spec")
    assert has(patched["status"], status)


@by_kind
async def test_update_and_patch_do_not_change_the_status(
    cluster: Cluster,
    namespace: str,
    create_temporary: CreateTemporary,
    resource: Resource[Object],
    status: Object,
) -> None:
    made = await create_one(create_temporary, resource, namespace)
    there = made["metadata"].get("namespace", "")
    patched = await cluster.patch(
        resource, name_of(made), there, patch={"metadata": {"labels": {"a": "1"}}, "status": status}
    )
    assert patched.get("status") == made.get("status")
    updated = await cluster.update(resource, {**patched, "status": {}})
    assert updated.get("status") == made.get("status")
    assert version_of(updated) == version_of(patched)


@by_kind
async def test_the_status_of_a_new_object_is_dropped(
    namespace: str, create_temporary: CreateTemporary, resource: Resource[Object], status: Object
) -> None:
    made = await create_one(create_temporary, resource, namespace, status=status)
    if resource is NODES:
        assert made["status"]["capacity"] == status["capacity"]
    else:
        assert not has(made.get("status", {}), status)


async def test_a_status_patch_of_an_older_version_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, pod("a", namespace))
    await cluster.patch_status(PODS, "a", namespace, patch={"status": {"phase": "Running"}})
    late = {"metadata": {"resourceVersion": version_of(made)}, "status": {"phase": "Failed"}}
    with pytest.raises(ConflictError):
        await cluster.patch_status(PODS, "a", namespace, patch=late)


async def test_a_status_patch_of_a_missing_object_is_not_found(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(NotFoundError):
        await cluster.patch_status(PODS, "missing", namespace, patch={"status": {"phase": "Running"}})


METADATA: list[tuple[str, Resource[Object], bool]] = [
    ("of a pod", PODS, True),
    ("of a node", NODES, True),
    ("of a job", JOBS, True),
    ("of a custom kind", resource_of("TYJob"), False),
    ("of a pool", resource_of("Pool"), False),
]


@cases("resource, kept", METADATA)
async def test_labels_in_a_status_patch(
    cluster: Cluster,
    namespace: str,
    create_temporary: CreateTemporary,
    resource: Resource[Object],
    kept: bool,  # noqa: FBT001 - a case
) -> None:
    made = await create_one(create_temporary, resource, namespace)
    there = made["metadata"].get("namespace", "")
    patch = {"metadata": {"labels": {"seen": "yes"}}}
    patched = await cluster.patch_status(resource, name_of(made), there, patch=patch)
    assert (patched["metadata"].get("labels", {}).get("seen") == "yes") is kept


async def test_an_invalid_status_is_refused(cluster: Cluster, namespace: str) -> None:
    await cluster.create(resource_of("TYJob"), make(resource_of("TYJob"), "a", namespace))
    with pytest.raises(InvalidError) as refused:
        await cluster.patch_status(resource_of("TYJob"), "a", namespace, patch={"status": {"stage": 5}})
    assert "status.stage" in [cause.path for cause in refused.value.causes]


async def test_null_removes_a_part_of_a_status(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod("a", namespace))
    await cluster.patch_status(PODS, "a", namespace, patch={"status": {"reason": "Why", "message": "so"}})
    patched = await cluster.patch_status(PODS, "a", namespace, patch={"status": {"reason": None}})
    assert "reason" not in patched["status"]
    assert patched["status"]["message"] == "so"


async def test_the_address_of_a_pod_is_the_first_of_its_addresses(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod("a", namespace))
    for address in ("10.0.0.1", "10.0.0.2"):
        patch = {"status": {"podIP": address}}
        summaries = await cluster.patch_status(PODS, "a", namespace, patch=patch)
        assert summaries["status"]["podIPs"] == [{"ip": address}]


async def test_finalizers_in_a_status_patch_are_ignored(cluster: Cluster, namespace: str) -> None:
    await cluster.create(resource_of("TYJob"), make(resource_of("TYJob"), "a", namespace))
    patch = {"metadata": {"finalizers": ["example.com/a"]}, "status": {"stage": "Running"}}
    patched = await cluster.patch_status(resource_of("TYJob"), "a", namespace, patch=patch)
    assert "finalizers" not in patched["metadata"]
