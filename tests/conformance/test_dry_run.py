"""A dry run returns what the write would, and changes nothing."""

import pytest

from shoal.cluster.errors import AlreadyExistsError, ClusterError, ConflictError, InvalidError, NotFoundError
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import CONFIG_MAPS, PODS, Object, Resource, resource_of
from tests.conformance.cases import kinds
from tests.conformance.objects import config_map, make, pod, uid_of, version_of
from tests.conformance.waiting import exists

some_kinds = kinds(CONFIG_MAPS, PODS, resource_of("TYJob"))


@some_kinds
async def test_a_dry_run_create(cluster: Cluster, namespace: str, resource: Resource[Object]) -> None:
    body = make(resource, "a", namespace)
    rehearsed = await cluster.create(resource, body, dry_run=True)
    assert uid_of(rehearsed)
    assert "resourceVersion" not in rehearsed["metadata"]
    assert not await exists(cluster, resource, "a", namespace)
    made = await cluster.create(resource, body)
    assert made.get("spec") == rehearsed.get("spec")


async def test_a_dry_run_create_with_an_absent_owner(cluster: Cluster, namespace: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "x"}
    body = config_map("a", namespace, metadata={"ownerReferences": [owner]})
    rehearsed = await cluster.create(CONFIG_MAPS, body, dry_run=True)
    assert rehearsed["metadata"]["ownerReferences"] == [owner]


@some_kinds
async def test_a_dry_run_update(cluster: Cluster, namespace: str, resource: Resource[Object]) -> None:
    made = await cluster.create(resource, make(resource, "a", namespace))
    labels = {"metadata": {"labels": {"a": "1"}}}
    changed = {**made, "metadata": {**made["metadata"], **labels["metadata"]}}
    for rehearsed in (
        await cluster.update(resource, changed, dry_run=True),
        await cluster.patch(resource, "a", namespace, patch=labels, dry_run=True),
    ):
        assert rehearsed["metadata"]["labels"] == {"a": "1"}
        assert version_of(rehearsed) == version_of(made)
    assert await cluster.get(resource, "a", namespace) == made


async def test_a_dry_run_status_patch(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, pod("a", namespace))
    patch = {"status": {"phase": "Running"}}
    rehearsed = await cluster.patch_status(PODS, "a", namespace, patch=patch, dry_run=True)
    assert rehearsed["status"]["phase"] == "Running"
    assert await cluster.get(PODS, "a", namespace) == made


@some_kinds
async def test_a_dry_run_deletion(cluster: Cluster, namespace: str, resource: Resource[Object]) -> None:
    made = await cluster.create(resource, make(resource, "a", namespace))
    await cluster.delete(resource, "a", namespace, Deletion(dry_run=True, grace=0))
    assert await cluster.get(resource, "a", namespace) == made


async def test_a_dry_run_deletion_with_finalizers(cluster: Cluster, namespace: str) -> None:
    body = config_map("a", namespace, metadata={"finalizers": ["example.com/a"]})
    made = await cluster.create(CONFIG_MAPS, body)
    marked = await cluster.delete(CONFIG_MAPS, "a", namespace, Deletion(dry_run=True))
    assert marked is not None
    assert marked["metadata"]["deletionTimestamp"]
    assert await cluster.get(CONFIG_MAPS, "a", namespace) == made


async def test_a_dry_run_uses_no_version(cluster: Cluster, namespace: str) -> None:
    before = await cluster.list(CONFIG_MAPS, Selector(namespace=namespace))
    await cluster.create(CONFIG_MAPS, config_map("a", namespace), dry_run=True)
    after = await cluster.create(CONFIG_MAPS, config_map("b", namespace))
    assert before.version != version_of(after)
    found = await cluster.list(CONFIG_MAPS, Selector(namespace=namespace))
    assert found.items == [after]


async def test_a_dry_run_is_validated(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"data": {"a": "2"}})
    with pytest.raises(AlreadyExistsError):
        await cluster.create(CONFIG_MAPS, config_map("a", namespace), dry_run=True)
    with pytest.raises(ConflictError):
        await cluster.update(CONFIG_MAPS, made, dry_run=True)
    with pytest.raises(InvalidError):
        await cluster.patch(
            CONFIG_MAPS, "a", namespace, patch={"metadata": {"labels": {"a b": "c"}}}, dry_run=True
        )
    with pytest.raises(NotFoundError):
        await cluster.delete(CONFIG_MAPS, "missing", namespace, Deletion(dry_run=True))
    with pytest.raises(ConflictError):
        await cluster.delete(CONFIG_MAPS, "a", namespace, Deletion(dry_run=True, version=version_of(made)))
    with pytest.raises(ClusterError):
        await cluster.create(CONFIG_MAPS, config_map("a", "nowhere-at-all"), dry_run=True)
