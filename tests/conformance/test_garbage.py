"""Garbage collection: owners, dependents, and the three propagation policies."""

import pytest

from shoal.cluster.port import Cluster, Deletion, Propagation, Selector
from shoal.cluster.resources import CONFIG_MAPS, JOBS, SECRETS, SERVICES, Object, Resource, resource_of
from tests.conformance.objects import config_map, make, name_of, owned_by, uid_of, unique
from tests.conformance.waiting import exists, until, until_gone

TYJOBS = resource_of("TYJob")
UNKNOWN_UID = "00000000-0000-0000-0000-000000000000"


async def create_owner_and_dependent(
    managed_cluster: Cluster, namespace: str, owner: Resource[Object] = TYJOBS, **more: bool
) -> tuple[Object, Object]:
    """Create an owner, and a config map `owned` that it owns."""
    made = await managed_cluster.create(owner, make(owner, "owner", namespace if owner.namespaced else ""))
    body = config_map("owned", namespace, metadata=owned_by(made, **more))
    return made, await managed_cluster.create(CONFIG_MAPS, body)


@pytest.mark.parametrize("propagation", [None, "Background"], ids=["by default", "in the background"])
async def test_dependents_are_deleted_after_their_owner(
    managed_cluster: Cluster, managed_namespace: str, propagation: Propagation | None
) -> None:
    await create_owner_and_dependent(managed_cluster, managed_namespace)
    assert (
        await managed_cluster.delete(TYJOBS, "owner", managed_namespace, Deletion(propagation=propagation))
        is None
    )
    await until_gone(managed_cluster, CONFIG_MAPS, "owned", managed_namespace)


HEADLESS = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"shoal.io/job-uid": "1"}}


@pytest.mark.parametrize(
    "resource, more",
    [(SERVICES, {"spec": HEADLESS}), (SECRETS, {"stringData": {"token": "hush"}})],
    ids=["service", "secret"],
)
async def test_the_service_and_the_secret_of_a_job_are_deleted_with_it(
    managed_cluster: Cluster, managed_namespace: str, resource: Resource[Object], more: Object
) -> None:
    owner, _ = await create_owner_and_dependent(managed_cluster, managed_namespace)
    reference = owned_by(owner, controller=True, blockOwnerDeletion=True)
    metadata = {"name": "of-job", "namespace": managed_namespace, **reference}
    await managed_cluster.create(resource, {"metadata": metadata, **more})
    found = await managed_cluster.get(resource, "of-job", managed_namespace)
    if resource == SERVICES:
        assert found["spec"].items() >= HEADLESS.items()
    else:
        assert found["data"] == {"token": "aHVzaA=="}
    await managed_cluster.delete(TYJOBS, "owner", managed_namespace)
    await until_gone(managed_cluster, resource, "of-job", managed_namespace)


async def test_a_headless_service_is_deleted(cluster: Cluster, namespace: str) -> None:
    await cluster.create(SERVICES, make(SERVICES, "a", namespace, spec=HEADLESS))
    await cluster.delete(SERVICES, "a", namespace)
    assert not await exists(cluster, SERVICES, "a", namespace)


async def test_dependents_of_dependents_are_deleted(managed_cluster: Cluster, managed_namespace: str) -> None:
    _, owned = await create_owner_and_dependent(managed_cluster, managed_namespace)
    await managed_cluster.create(CONFIG_MAPS, config_map("last", managed_namespace, metadata=owned_by(owned)))
    await managed_cluster.delete(TYJOBS, "owner", managed_namespace)
    await until_gone(managed_cluster, CONFIG_MAPS, "last", managed_namespace)


async def test_a_cluster_scoped_owner_owns_across_namespaces(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    owner = await managed_cluster.create(resource_of("Pool"), make(resource_of("Pool"), unique("pool")))
    await managed_cluster.create(
        CONFIG_MAPS, config_map("owned", managed_namespace, metadata=owned_by(owner))
    )
    await managed_cluster.delete(resource_of("Pool"), name_of(owner))
    await until_gone(managed_cluster, CONFIG_MAPS, "owned", managed_namespace)


async def test_foreground_deletion_waits_for_blocking_dependents(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    _, owned = await create_owner_and_dependent(managed_cluster, managed_namespace, blockOwnerDeletion=True)
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await managed_cluster.patch(CONFIG_MAPS, "owned", managed_namespace, patch=hold)
    how = Deletion(propagation="Foreground")
    marked = await managed_cluster.delete(TYJOBS, "owner", managed_namespace, how)
    assert marked is not None
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    await until(
        managed_cluster,
        CONFIG_MAPS,
        "owned",
        managed_namespace,
        holds=lambda seen: "deletionTimestamp" in seen["metadata"],
    )
    assert await exists(managed_cluster, TYJOBS, "owner", managed_namespace)
    let_go = {"metadata": {"finalizers": None}}
    await managed_cluster.patch(CONFIG_MAPS, name_of(owned), managed_namespace, patch=let_go)
    await until_gone(managed_cluster, TYJOBS, "owner", managed_namespace)
    assert not await exists(managed_cluster, CONFIG_MAPS, "owned", managed_namespace)


async def test_foreground_deletion_does_not_wait_for_other_dependents(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    await create_owner_and_dependent(managed_cluster, managed_namespace)
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await managed_cluster.patch(CONFIG_MAPS, "owned", managed_namespace, patch=hold)
    await managed_cluster.delete(TYJOBS, "owner", managed_namespace, Deletion(propagation="Foreground"))
    await until_gone(managed_cluster, TYJOBS, "owner", managed_namespace)
    going = await until(
        managed_cluster,
        CONFIG_MAPS,
        "owned",
        managed_namespace,
        holds=lambda seen: "deletionTimestamp" in seen["metadata"],
    )
    assert going["metadata"]["finalizers"] == ["example.com/hold"]


async def test_foreground_deletion_without_dependents(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    await managed_cluster.create(TYJOBS, make(TYJOBS, "owner", managed_namespace))
    await managed_cluster.delete(TYJOBS, "owner", managed_namespace, Deletion(propagation="Foreground"))
    await until_gone(managed_cluster, TYJOBS, "owner", managed_namespace)


async def test_orphans_stay_and_lose_their_owner_reference(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    await create_owner_and_dependent(managed_cluster, managed_namespace)
    await managed_cluster.delete(TYJOBS, "owner", managed_namespace, Deletion(propagation="Orphan"))
    await until_gone(managed_cluster, TYJOBS, "owner", managed_namespace)
    orphan = await managed_cluster.get(CONFIG_MAPS, "owned", managed_namespace)
    assert not orphan["metadata"].get("ownerReferences")
    assert "deletionTimestamp" not in orphan["metadata"]


async def test_a_job_orphans_its_dependents_by_default(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    await create_owner_and_dependent(managed_cluster, managed_namespace, JOBS)
    await managed_cluster.delete(JOBS, "owner", managed_namespace)
    await until_gone(managed_cluster, JOBS, "owner", managed_namespace)
    assert not (await managed_cluster.get(CONFIG_MAPS, "owned", managed_namespace))["metadata"].get(
        "ownerReferences"
    )


async def test_a_dependent_stays_while_one_owner_exists(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    one = await managed_cluster.create(TYJOBS, make(TYJOBS, "one", managed_namespace))
    two = await managed_cluster.create(TYJOBS, make(TYJOBS, "two", managed_namespace))
    await managed_cluster.create(
        CONFIG_MAPS, config_map("owned", managed_namespace, metadata=owned_by(one, two))
    )
    await managed_cluster.delete(TYJOBS, "one", managed_namespace)
    kept = await until(
        managed_cluster,
        CONFIG_MAPS,
        "owned",
        managed_namespace,
        holds=lambda seen: len(seen["metadata"]["ownerReferences"]) == 1,
    )
    assert kept["metadata"]["ownerReferences"][0]["uid"] == uid_of(two)
    await managed_cluster.delete(TYJOBS, "two", managed_namespace)
    await until_gone(managed_cluster, CONFIG_MAPS, "owned", managed_namespace)


async def test_dependents_of_absent_owners_are_deleted(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    absent = make(TYJOBS, "absent", metadata={"uid": UNKNOWN_UID})
    await managed_cluster.create(
        CONFIG_MAPS, config_map("owned", managed_namespace, metadata=owned_by(absent))
    )
    await until_gone(managed_cluster, CONFIG_MAPS, "owned", managed_namespace)


async def test_an_owner_with_another_uid_does_not_count(
    managed_cluster: Cluster, managed_namespace: str
) -> None:
    owner = await managed_cluster.create(TYJOBS, make(TYJOBS, "owner", managed_namespace))
    other = {**owner, "metadata": {**owner["metadata"], "uid": UNKNOWN_UID}}
    await managed_cluster.create(
        CONFIG_MAPS, config_map("owned", managed_namespace, metadata=owned_by(other))
    )
    await until_gone(managed_cluster, CONFIG_MAPS, "owned", managed_namespace)
    assert await exists(managed_cluster, TYJOBS, "owner", managed_namespace)


async def test_unrelated_objects_stay(managed_cluster: Cluster, managed_namespace: str) -> None:
    await create_owner_and_dependent(managed_cluster, managed_namespace)
    await managed_cluster.create(CONFIG_MAPS, config_map("free", managed_namespace))
    await managed_cluster.delete(TYJOBS, "owner", managed_namespace)
    await until_gone(managed_cluster, CONFIG_MAPS, "owned", managed_namespace)
    left = await managed_cluster.list(
        CONFIG_MAPS, Selector(namespace=managed_namespace, fields="metadata.name!=kube-root-ca.crt")
    )
    assert [name_of(item) for item in left.items] == ["free"]
