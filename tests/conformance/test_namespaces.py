"""Namespaces: objects need an existing one, and are deleted with it."""

import pytest

from shoal.cluster.errors import AlreadyExistsError, ForbiddenError, InvalidError, NotFoundError
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import CONFIG_MAPS, NAMESPACES, PODS, Object, Resource, resource_of
from tests.conformance.cases import kinds
from tests.conformance.objects import config_map, make, pod, unique
from tests.conformance.waiting import exists, summaries, take, until, until_gone

namespaced = kinds(CONFIG_MAPS, resource_of("TYJob"))


async def test_a_new_namespace_is_active(cluster: Cluster, namespace: str) -> None:
    made = await cluster.get(NAMESPACES, namespace)
    assert made["status"] == {"phase": "Active"}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}


async def test_the_default_namespace_exists(cluster: Cluster) -> None:
    assert (await cluster.get(NAMESPACES, "default"))["status"]["phase"] == "Active"


@namespaced
async def test_creating_in_a_missing_namespace_is_refused(
    cluster: Cluster, resource: Resource[Object]
) -> None:
    nowhere = unique("nowhere")
    with pytest.raises(NotFoundError, match=nowhere):
        await cluster.create(resource, make(resource, "a", nowhere))


async def test_a_list_of_a_missing_namespace_is_empty(cluster: Cluster) -> None:
    assert (await cluster.list(CONFIG_MAPS, Selector(namespace=unique("nowhere")))).items == []


async def test_names_are_unique_per_namespace(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, namespace))
    await cluster.create(CONFIG_MAPS, config_map(namespace, "default"))
    everywhere = await cluster.list(CONFIG_MAPS, Selector(fields=f"metadata.name={namespace}"))
    assert {item["metadata"]["namespace"] for item in everywhere.items} == {namespace, "default"}
    await cluster.delete(CONFIG_MAPS, namespace, "default")
    assert await exists(cluster, CONFIG_MAPS, namespace, namespace)


async def test_an_empty_namespace_means_the_default_one(cluster: Cluster) -> None:
    name = unique()
    made = await cluster.create(CONFIG_MAPS, config_map(name, ""))
    assert made["metadata"]["namespace"] == "default"
    assert await cluster.get(CONFIG_MAPS, name) == made
    await cluster.update(CONFIG_MAPS, config_map(name, "", data={"a": "2"}))
    await cluster.patch(CONFIG_MAPS, name, patch={"data": {"b": "3"}})
    assert (await cluster.get(CONFIG_MAPS, name, "default"))["data"] == {"a": "2", "b": "3"}
    assert await cluster.delete(CONFIG_MAPS, name) is None


async def test_bind_and_evict_default_to_the_default_namespace(cluster: Cluster) -> None:
    name = unique()
    await cluster.create(PODS, pod(name, ""))
    await cluster.bind(name, "", "no-such-node")
    assert (await cluster.get(PODS, name))["spec"]["nodeName"] == "no-such-node"
    await cluster.evict(name, "", Deletion(grace=0))
    assert not await exists(cluster, PODS, name, "default")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_cannot_be_deleted(cluster: Cluster, name: str) -> None:
    with pytest.raises(ForbiddenError):
        await cluster.delete(NAMESPACES, name)


@pytest.mark.parametrize("name", ["Capitals", "with.dots", "a" * 64, "-first", "last-"])
async def test_the_name_of_a_namespace_is_a_dns_label(cluster: Cluster, name: str) -> None:
    with pytest.raises(InvalidError) as refused:
        await cluster.create(NAMESPACES, make(NAMESPACES, name))
    assert "metadata.name" in [cause.path for cause in refused.value.causes]


async def test_a_namespace_is_deleted_with_its_contents(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    await managed_cluster.create(CONFIG_MAPS, config_map("a", managed_namespace))
    await managed_cluster.create(resource_of("TYJob"), make(resource_of("TYJob"), "a", managed_namespace))
    async with managed_cluster.watch(resource_of("TYJob"), Selector(namespace=managed_namespace)) as events:
        marked = await managed_cluster.delete(NAMESPACES, managed_namespace)
        assert marked is None or marked["status"]["phase"] == "Terminating"
        assert summaries(await take(events, 2)) == [("ADDED", "a"), ("DELETED", "a")]
    await until_gone(managed_cluster, NAMESPACES, managed_namespace)
    again = await managed_cluster.create(NAMESPACES, make(NAMESPACES, managed_namespace))
    assert again["status"]["phase"] == "Active"
    for resource in (CONFIG_MAPS, resource_of("TYJob")):
        found = await managed_cluster.list(
            resource, Selector(namespace=managed_namespace, fields="metadata.name=a")
        )
        assert found.items == []


async def test_a_namespace_waits_for_finalizers_of_its_contents(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    held = config_map("held", managed_namespace, metadata={"finalizers": ["example.com/hold"]})
    await managed_cluster.create(CONFIG_MAPS, held)
    await managed_cluster.delete(NAMESPACES, managed_namespace)
    await until(
        managed_cluster,
        CONFIG_MAPS,
        "held",
        managed_namespace,
        holds=lambda seen: "deletionTimestamp" in seen["metadata"],
    )
    assert (await managed_cluster.get(NAMESPACES, managed_namespace))["status"]["phase"] == "Terminating"
    await managed_cluster.patch(
        CONFIG_MAPS, "held", managed_namespace, patch={"metadata": {"finalizers": None}}
    )
    await until_gone(managed_cluster, NAMESPACES, managed_namespace)


@namespaced
async def test_creating_in_a_terminating_namespace_is_refused(
    managed_cluster: Cluster, managed_namespace: str, resource: Resource[Object]
) -> None:
    held = config_map("held", managed_namespace, metadata={"finalizers": ["example.com/hold"]})
    await managed_cluster.create(CONFIG_MAPS, held)
    await managed_cluster.delete(NAMESPACES, managed_namespace)
    with pytest.raises(ForbiddenError, match="because it is being terminated"):
        await managed_cluster.create(resource, make(resource, "late", managed_namespace))
    with pytest.raises(AlreadyExistsError):
        await managed_cluster.create(NAMESPACES, make(NAMESPACES, managed_namespace))
