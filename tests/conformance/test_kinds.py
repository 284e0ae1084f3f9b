"""Behaviour common to objects of every kind, namespaced and cluster-scoped, core and custom."""

import re

import pytest

from shoal.cluster.errors import AlreadyExistsError, NotFoundError
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import JOBS, Object, Resource, resources
from tests.conformance.cases import cases, kinds
from tests.conformance.conftest import CreateTemporary
from tests.conformance.objects import make, name_of, uid_of, unique, version_of
from tests.conformance.waiting import exists

AT_ONCE = Deletion(grace=0, propagation="Background")
OTHERS = tuple(resource for resource in resources() if resource.kind != "Namespace")
"""Namespaces are left out: their deletion needs a controller, and has its own tests."""

every_kind = kinds(*resources())
every_kind_that_goes = kinds(*OTHERS)


def new(resource: Resource[Object], namespace: str) -> Object:
    return make(resource, unique("kind"), namespace if resource.namespaced else "")


def at(resource: Resource[Object], namespace: str) -> str:
    return namespace if resource.namespaced else ""


@every_kind
async def test_what_is_created_is_read_back(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    body = new(resource, namespace)
    made = await create_temporary(resource, body)
    assert (made["apiVersion"], made["kind"]) == (resource.api_version, resource.kind)
    assert made["metadata"]["name"] == name_of(body)
    assert made["metadata"].get("namespace", "") == at(resource, namespace)
    assert uid_of(made)
    assert version_of(made)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["metadata"]["creationTimestamp"])
    assert await cluster.get(resource, name_of(made), at(resource, namespace)) == made


@every_kind
async def test_names_are_unique(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    made = await create_temporary(resource, new(resource, namespace))
    with pytest.raises(AlreadyExistsError):
        await cluster.create(resource, make(resource, name_of(made), at(resource, namespace)))
    assert await cluster.get(resource, name_of(made), at(resource, namespace)) == made


@every_kind
async def test_a_list_has_the_object_as_get_returns_it(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    made = await create_temporary(resource, new(resource, namespace))
    where = Selector(namespace=at(resource, namespace), fields=f"metadata.name={name_of(made)}")
    assert (await cluster.list(resource, where)).items == [made]


@every_kind
async def test_labels_can_be_updated_and_patched(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    made = await create_temporary(resource, new(resource, namespace))
    labels = {**made["metadata"].get("labels", {}), "a": "1"}
    updated = await cluster.update(resource, {**made, "metadata": {**made["metadata"], "labels": labels}})
    assert updated["metadata"]["labels"] == labels
    assert version_of(updated) != version_of(made)
    patch = {"metadata": {"labels": {"a": None, "b": "2"}}}
    patched = await cluster.patch(resource, name_of(made), at(resource, namespace), patch=patch)
    assert "a" not in patched["metadata"]["labels"]
    assert patched["metadata"]["labels"]["b"] == "2"
    assert uid_of(patched) == uid_of(made)


@every_kind
async def test_labels_do_not_change_the_generation(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    made = await create_temporary(resource, new(resource, namespace))
    assert made["metadata"].get("generation") == (1 if resource.generation else None)
    patch = {"metadata": {"labels": {"b": "2"}, "annotations": {"c": "3"}}}
    patched = await cluster.patch(resource, name_of(made), at(resource, namespace), patch=patch)
    assert patched["metadata"].get("generation") == made["metadata"].get("generation")


@every_kind
async def test_status_subresource(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    made = await create_temporary(resource, new(resource, namespace))
    there = at(resource, namespace)
    patch = {"metadata": {"annotations": {"seen": "yes"}}}
    if resource.status:
        await cluster.patch_status(resource, name_of(made), there, patch=patch)
    else:
        with pytest.raises(NotFoundError):
            await cluster.patch_status(resource, name_of(made), there, patch=patch)


@every_kind_that_goes
async def test_a_deleted_object_is_gone(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    made = await create_temporary(resource, new(resource, namespace))
    there = at(resource, namespace)
    assert await cluster.delete(resource, name_of(made), there, AT_ONCE) is None
    assert not await exists(cluster, resource, name_of(made), there)
    with pytest.raises(NotFoundError):
        await cluster.delete(resource, name_of(made), there, AT_ONCE)


@every_kind_that_goes
async def test_a_recreated_object_has_another_uid(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    made = await create_temporary(resource, new(resource, namespace))
    await cluster.delete(resource, name_of(made), at(resource, namespace), AT_ONCE)
    again = await create_temporary(resource, make(resource, name_of(made), at(resource, namespace)))
    assert uid_of(again) != uid_of(made)


@every_kind
async def test_a_missing_object_is_not_found(
    cluster: Cluster, namespace: str, resource: Resource[Object]
) -> None:
    there = at(resource, namespace)
    missing = new(resource, namespace)
    with pytest.raises(NotFoundError):
        await cluster.get(resource, name_of(missing), there)
    with pytest.raises(NotFoundError):
        await cluster.patch(resource, name_of(missing), there, patch={"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(NotFoundError):
        await cluster.delete(resource, name_of(missing), there)


JOB_LABELS: list[tuple[str, Object, set[str]]] = [
    ("those of its pods, if it has none", {}, {"team", "job-name"}),
    ("its own", {"a": "b"}, {"a"}),
]


@cases("own, expected", JOB_LABELS)
async def test_a_job_has_labels(cluster: Cluster, namespace: str, own: Object, expected: set[str]) -> None:
    body = make(JOBS, "a", namespace, metadata={"labels": own})
    body["spec"]["template"] = {**body["spec"]["template"], "metadata": {"labels": {"team": "a"}}}
    made = await cluster.create(JOBS, body)
    bare = await cluster.patch(JOBS, "a", namespace, patch={"metadata": {"labels": None}})
    assert {name for name in made["metadata"]["labels"] if "/" not in name and "uid" not in name} == expected
    assert bare["metadata"]["labels"] == bare["spec"]["template"]["metadata"]["labels"]
