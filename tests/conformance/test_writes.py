"""Resource versions, conflicts, metadata and generation of writes."""

import pytest

from shoal.cluster.errors import BadRequestError, ClusterError, ConflictError, InvalidError, NotFoundError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import (
    BUDGETS,
    CONFIG_MAPS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    Object,
    Resource,
    resource_of,
)
from tests.conformance.cases import cases, kinds
from tests.conformance.conftest import CreateTemporary
from tests.conformance.objects import config_map, make, name_of, pod, uid_of, unique, version_of


async def test_every_write_gives_a_new_version(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    seen = {version_of(made)}
    for value in "234":
        made = await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"data": {"a": value}})
        seen.add(version_of(made))
    assert len(seen) == 4


async def test_an_update_of_the_current_version_succeeds(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    updated = await cluster.update(CONFIG_MAPS, {**made, "data": {"b": "2"}})
    assert updated["data"] == {"b": "2"}


async def test_an_update_of_an_older_version_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    now = await cluster.update(CONFIG_MAPS, {**made, "data": {"b": "2"}})
    with pytest.raises(ConflictError):
        await cluster.update(CONFIG_MAPS, {**made, "data": {"c": "3"}})
    assert await cluster.get(CONFIG_MAPS, "a", namespace) == now


async def test_an_update_of_an_older_version_is_a_conflict_even_if_it_changes_nothing(
    cluster: Cluster, namespace: str
) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    now = await cluster.update(CONFIG_MAPS, {**made, "data": {"b": "2"}})
    with pytest.raises(ConflictError):
        await cluster.update(CONFIG_MAPS, {**now, "metadata": made["metadata"]})


UNCONDITIONAL: list[tuple[Resource[Object], Object]] = [
    (CONFIG_MAPS, {"data": {"z": "9"}}),
    (SERVICES, {"metadata": {"labels": {"z": "9"}}}),
    (PODS, {"metadata": {"labels": {"z": "9"}}}),
    (NODES, {"metadata": {"labels": {"z": "9"}}}),
    (PRIORITY_CLASSES, {"metadata": {"labels": {"z": "9"}}}),
    (JOBS, {"metadata": {"labels": {"z": "9"}}}),
]
CONDITIONAL = (resource_of("TYJob"), resource_of("Pool"), LEASES, BUDGETS)


def without_version(made: Object) -> Object:
    kept = {key: value for key, value in made["metadata"].items() if key != "resourceVersion"}
    return {**made, "metadata": kept}


@pytest.mark.parametrize("resource, change", UNCONDITIONAL, ids=[row[0].plural for row in UNCONDITIONAL])
async def test_an_unconditional_update_succeeds(
    cluster: Cluster,
    namespace: str,
    create_temporary: CreateTemporary,
    resource: Resource[Object],
    change: Object,
) -> None:
    there = namespace if resource.namespaced else ""
    made = await create_temporary(resource, make(resource, unique(), there))
    metadata = {**without_version(made)["metadata"], **change.get("metadata", {})}
    updated = await cluster.update(resource, {**made, **change, "metadata": metadata})
    assert version_of(updated) != version_of(made)
    assert {**updated["metadata"], **change.get("metadata", {})} == updated["metadata"]


@kinds(*CONDITIONAL)
async def test_some_kinds_require_a_version_in_updates(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    there = namespace if resource.namespaced else ""
    made = await create_temporary(resource, make(resource, unique(), there))
    with pytest.raises(InvalidError) as refused:
        await cluster.update(resource, without_version(made))
    assert [cause.path for cause in refused.value.causes] == ["metadata.resourceVersion"]


async def test_an_update_of_a_missing_object_is_not_found(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(NotFoundError):
        await cluster.update(CONFIG_MAPS, config_map("missing", namespace))


async def test_an_update_of_a_recreated_object_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    await cluster.delete(CONFIG_MAPS, "a", namespace)
    await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    with pytest.raises(ConflictError):
        await cluster.update(CONFIG_MAPS, without_version(made))


async def test_an_update_replaces_everything(cluster: Cluster, namespace: str) -> None:
    body = config_map("a", namespace, metadata={"labels": {"a": "1"}, "annotations": {"b": "2"}})
    made = await cluster.create(CONFIG_MAPS, body)
    bare = {**made, "metadata": {"name": "a", "namespace": namespace}, "data": {}}
    updated = await cluster.update(CONFIG_MAPS, bare)
    assert not {"labels", "annotations"} & updated["metadata"].keys()
    assert not updated.get("data")
    assert (uid_of(updated), updated["metadata"]["creationTimestamp"]) == (
        uid_of(made),
        made["metadata"]["creationTimestamp"],
    )


# --- writes that change nothing ------------------------------------------------------------------------


@kinds(CONFIG_MAPS, resource_of("TYJob"), PODS, NODES)
async def test_an_unchanged_write_keeps_the_version(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, resource: Resource[Object]
) -> None:
    there = namespace if resource.namespaced else ""
    made = await create_temporary(resource, make(resource, unique(), there, metadata={"labels": {"a": "1"}}))
    name = name_of(made)
    assert version_of(await cluster.update(resource, made)) == version_of(made)
    for patch in ({}, {"metadata": {"labels": {"a": "1", "b": None}}}):
        assert version_of(await cluster.patch(resource, name, there, patch=patch)) == version_of(made)


async def test_an_unchanged_status_keeps_the_version(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod("a", namespace))
    patch = {"status": {"phase": "Running", "podIP": "10.1.2.3"}}
    once = await cluster.patch_status(PODS, "a", namespace, patch=patch)
    again = await cluster.patch_status(PODS, "a", namespace, patch=patch)
    assert version_of(once) == version_of(again)


# --- generation ----------------------------------------------------------------------------------------

GENERATIONS: list[tuple[str, Resource[Object], Object, int]] = [
    ("the spec of a custom kind", resource_of("TYJob"), {"spec": {"priority": 7}}, 2),
    ("the same spec", resource_of("TYJob"), {"spec": {}}, 1),
    (
        "the spec of a pool",
        resource_of("Pool"),
        {"spec": {"nodeSelector": {"matchLabels": {"pool": "b"}}}},
        2,
    ),
    ("a status in a patch of the object", resource_of("TYJob"), {"status": {"stage": "Running"}}, 1),
    (
        "labels and annotations",
        resource_of("TYJob"),
        {"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}},
        1,
    ),
    ("metadata.generation", resource_of("TYJob"), {"metadata": {"generation": 9}}, 1),
    ("the spec of a budget", BUDGETS, {"spec": {"minAvailable": 2}}, 2),
    ("the spec of a job", JOBS, {"spec": {"parallelism": 3}}, 2),
    ("the image of a pod", PODS, {"spec": {"containers": [{"name": "main", "image": "other"}]}}, 2),
    ("the description of a class", PRIORITY_CLASSES, {"description": "as good as any"}, 1),
]


@cases("resource, change, generation", GENERATIONS)
async def test_the_generation_counts_changes_of_the_spec(  # noqa: PLR0917 - its case and its fixtures
    cluster: Cluster,
    namespace: str,
    create_temporary: CreateTemporary,
    resource: Resource[Object],
    change: Object,
    generation: int,
) -> None:
    there = namespace if resource.namespaced else ""
    made = await create_temporary(resource, make(resource, unique(), there))
    patched = await cluster.patch(resource, name_of(made), there, patch=change)
    assert patched["metadata"]["generation"] == generation


# --- metadata that is not the writer's -----------------------------------------------------------------

NOT_YOURS: list[tuple[str, Object, type[ClusterError]]] = [
    ("another uid", {"uid": "00000000-0000-0000-0000-000000000000"}, InvalidError),
    ("another name", {"name": "b"}, BadRequestError),
    ("another namespace", {"namespace": "default"}, BadRequestError),
    ("an older resourceVersion", {"resourceVersion": "1"}, ConflictError),
    ("deletionTimestamp", {"deletionTimestamp": "2001-01-01T00:00:00Z"}, InvalidError),
    ("deletionGracePeriodSeconds", {"deletionGracePeriodSeconds": 7}, InvalidError),
    ("no name", {"name": None}, BadRequestError),
]
IGNORED: list[tuple[str, Object]] = [
    ("another creationTimestamp", {"creationTimestamp": "2001-01-01T00:00:00Z"}),
    ("no creationTimestamp", {"creationTimestamp": None}),
    ("selfLink", {"selfLink": "/a/b"}),
    ("no uid", {"uid": None}),
]
"""Changes of metadata in a patch."""


@cases("change, error", NOT_YOURS)
@kinds(CONFIG_MAPS, resource_of("TYJob"))
async def test_a_patch_cannot_change_the_identity(
    cluster: Cluster, namespace: str, resource: Resource[Object], change: Object, error: type[ClusterError]
) -> None:
    made = await cluster.create(resource, make(resource, "a", namespace))
    with pytest.raises(error):
        await cluster.patch(resource, "a", namespace, patch={"metadata": {**change, "labels": {"z": "9"}}})
    assert await cluster.get(resource, "a", namespace) == made


@cases("change", IGNORED)
@kinds(CONFIG_MAPS, resource_of("TYJob"))
async def test_server_set_metadata_cannot_change(
    cluster: Cluster, namespace: str, resource: Resource[Object], change: Object
) -> None:
    made = await cluster.create(resource, make(resource, "a", namespace))
    patched = await cluster.patch(resource, "a", namespace, patch={"metadata": change})
    assert patched["metadata"] == made["metadata"]


async def test_the_version_in_a_patch_is_a_precondition(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    condition = {"metadata": {"resourceVersion": version_of(made)}}
    await cluster.patch(CONFIG_MAPS, "a", namespace, patch={**condition, "data": {"a": "2"}})
    with pytest.raises(ConflictError):
        await cluster.patch(CONFIG_MAPS, "a", namespace, patch={**condition, "data": {"a": "3"}})


GIVEN: list[tuple[str, Object]] = [
    ("a uid", {"uid": "00000000-0000-0000-0000-000000000000"}),
    ("a time of creation", {"creationTimestamp": "2001-01-01T00:00:00Z"}),
    ("deletionTimestamp", {"deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3}),
    ("selfLink", {"selfLink": "/a/b"}),
]


@cases("given", GIVEN)
@kinds(CONFIG_MAPS, resource_of("TYJob"))
async def test_a_new_object_gets_server_set_metadata(
    cluster: Cluster, namespace: str, resource: Resource[Object], given: Object
) -> None:
    made = await cluster.create(resource, make(resource, "a", namespace, metadata=given))
    for key, value in given.items():
        assert made["metadata"].get(key) != value


async def test_a_new_object_may_not_have_a_version(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(ClusterError, match="resourceVersion should not be set"):
        await cluster.create(CONFIG_MAPS, config_map("a", namespace, metadata={"resourceVersion": "1"}))
