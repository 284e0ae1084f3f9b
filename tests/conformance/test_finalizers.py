"""Finalizers block the deletion of an object until they are removed."""

import pytest

from shoal.cluster.errors import AlreadyExistsError, InvalidError
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import CONFIG_MAPS, NODES, PODS, Object, Resource, resource_of
from tests.conformance.cases import cases, kinds
from tests.conformance.conftest import CreateTemporary
from tests.conformance.objects import config_map, make, name_of, unique, version_of
from tests.conformance.waiting import exists

HELD = {"finalizers": ["example.com/a", "example.com/b"]}
held = kinds(CONFIG_MAPS, resource_of("TYJob"), PODS, NODES)


async def made_one(
    create_temporary: CreateTemporary, resource: Resource[Object], namespace: str
) -> tuple[Object, str]:
    there = namespace if resource.namespaced else ""
    return await create_temporary(resource, make(resource, unique(), there, metadata=HELD)), there


async def let_go(cluster: Cluster, resource: Resource[Object], made: Object) -> None:
    metadata = made["metadata"]
    patch = {"metadata": {"finalizers": None}}
    await cluster.patch(resource, metadata["name"], metadata.get("namespace", ""), patch=patch)


@held
async def test_an_object_is_removed_with_its_last_finalizer(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    made, there = await made_one(create_temporary, resource, namespace)
    name = name_of(made)
    marked = await cluster.delete(resource, name, there, Deletion(grace=0))
    assert marked is not None
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert version_of(marked) != version_of(made)
    assert await cluster.get(resource, name, there) == marked
    patch: Object = {"metadata": {"finalizers": ["example.com/b"]}}
    assert (await cluster.patch(resource, name, there, patch=patch))["metadata"]["deletionTimestamp"]
    last = await cluster.patch(resource, name, there, patch={"metadata": {"finalizers": []}})
    assert not last["metadata"].get("finalizers")
    assert not await exists(cluster, resource, name, there)


async def test_deleting_again_changes_nothing(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace, metadata=HELD))
    once = await cluster.delete(CONFIG_MAPS, "a", namespace)
    again = await cluster.delete(CONFIG_MAPS, "a", namespace)
    assert once == again
    await let_go(cluster, CONFIG_MAPS, made)


async def test_the_name_stays_taken_during_deletion(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace, metadata=HELD))
    await cluster.delete(CONFIG_MAPS, "a", namespace)
    with pytest.raises(AlreadyExistsError):
        await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    await let_go(cluster, CONFIG_MAPS, made)
    await cluster.create(CONFIG_MAPS, config_map("a", namespace))


async def test_an_object_can_be_updated_during_deletion(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map("a", namespace, metadata=HELD))
    await cluster.delete(CONFIG_MAPS, "a", namespace)
    patched = await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"data": {"a": "2"}})
    assert patched["data"] == {"a": "2"}


@kinds(CONFIG_MAPS, resource_of("TYJob"))
async def test_no_finalizers_can_be_added_during_deletion(
    cluster: Cluster, namespace: str, resource: Resource[Object]
) -> None:
    await cluster.create(resource, make(resource, "a", namespace, metadata=HELD))
    marked = await cluster.delete(resource, "a", namespace)
    patch = {"metadata": {"finalizers": ["example.com/a", "example.com/c"]}}
    with pytest.raises(InvalidError) as refused:
        await cluster.patch(resource, "a", namespace, patch=patch)
    assert {cause.path for cause in refused.value.causes} == {"metadata.finalizers"}
    assert await cluster.get(resource, "a", namespace) == marked


async def test_the_deletion_timestamp_cannot_be_removed(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map("a", namespace, metadata=HELD))
    marked = await cluster.delete(CONFIG_MAPS, "a", namespace)
    assert marked is not None
    patch = {"metadata": {"deletionTimestamp": None, "deletionGracePeriodSeconds": None}}
    patched = await cluster.patch(CONFIG_MAPS, "a", namespace, patch=patch)
    assert patched == marked


async def test_removing_finalizers_does_not_delete_an_object(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace, metadata=HELD))
    await let_go(cluster, CONFIG_MAPS, made)
    assert await exists(cluster, CONFIG_MAPS, "a", namespace)


async def test_deleting_a_custom_resource_increments_its_generation(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(
        resource_of("TYJob"), make(resource_of("TYJob"), "a", namespace, metadata=HELD)
    )
    marked = await cluster.delete(resource_of("TYJob"), "a", namespace)
    assert marked is not None
    assert (made["metadata"]["generation"], marked["metadata"]["generation"]) == (1, 2)


NAMES: list[tuple[str, str, bool]] = [
    ("with a domain", "example.com/a", True),
    ("with two slashes", "example.com/a/b", False),
    ("empty", "", False),
    ("with a space", "example.com/a b", False),
    ("of Kubernetes", "foregroundDeletion", True),
]


@cases("name, good", NAMES)
async def test_finalizer_names(cluster: Cluster, namespace: str, name: str, good: bool) -> None:  # noqa: FBT001 - a case
    body = config_map("a", namespace, metadata={"finalizers": [name]})
    if good:
        assert (await cluster.create(CONFIG_MAPS, body))["metadata"]["finalizers"] == [name]
    else:
        with pytest.raises(InvalidError) as refused:
            await cluster.create(CONFIG_MAPS, body)
        assert all(cause.path.startswith("metadata.finalizers") for cause in refused.value.causes)
