"""Who goes with whom: owners, what they own, and the three ways to go."""

import pytest

from shoal.cluster.port import Cluster, Deletion, Propagation, Selector
from shoal.cluster.resources import CONFIG_MAPS, JOBS, Object, Resource, resource_of
from tests.conformance.objects import config_map, make, name_of, owned_by, uid_of, unique
from tests.conformance.waiting import exists, until, until_gone

NOBODY = "00000000-0000-0000-0000-000000000000"


async def owner_and_owned(
    tended: Cluster, namespace: str, owner: Resource[Object] = resource_of("TYJob"), **more: bool
) -> tuple[Object, Object]:
    """One that owns a config map called `owned`."""
    made = await tended.create(owner, make(owner, "owner", namespace if owner.namespaced else ""))
    body = config_map("owned", namespace, metadata=owned_by(made, **more))
    return made, await tended.create(CONFIG_MAPS, body)


@pytest.mark.parametrize("how", [None, "Background"], ids=["by default", "in the background"])
async def test_what_is_owned_goes_after_its_owner(
    tended: Cluster, tended_namespace: str, how: Propagation | None
) -> None:
    await owner_and_owned(tended, tended_namespace)
    assert (
        await tended.delete(resource_of("TYJob"), "owner", tended_namespace, Deletion(propagation=how))
        is None
    )
    await until_gone(tended, CONFIG_MAPS, "owned", tended_namespace)


async def test_what_is_owned_by_those_who_are_owned_goes_too(tended: Cluster, tended_namespace: str) -> None:
    _, owned = await owner_and_owned(tended, tended_namespace)
    await tended.create(CONFIG_MAPS, config_map("last", tended_namespace, metadata=owned_by(owned)))
    await tended.delete(resource_of("TYJob"), "owner", tended_namespace)
    await until_gone(tended, CONFIG_MAPS, "last", tended_namespace)


async def test_an_owner_without_a_namespace_owns_across_namespaces(
    tended: Cluster, tended_namespace: str
) -> None:
    owner = await tended.create(resource_of("Pool"), make(resource_of("Pool"), unique("pool")))
    await tended.create(CONFIG_MAPS, config_map("owned", tended_namespace, metadata=owned_by(owner)))
    await tended.delete(resource_of("Pool"), name_of(owner))
    await until_gone(tended, CONFIG_MAPS, "owned", tended_namespace)


async def test_an_owner_that_goes_first_of_all_waits_for_those_who_block_it(
    tended: Cluster, tended_namespace: str
) -> None:
    _, owned = await owner_and_owned(tended, tended_namespace, blockOwnerDeletion=True)
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await tended.patch(CONFIG_MAPS, "owned", tended_namespace, patch=hold)
    how = Deletion(propagation="Foreground")
    marked = await tended.delete(resource_of("TYJob"), "owner", tended_namespace, how)
    assert marked is not None
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    await until(
        tended,
        CONFIG_MAPS,
        "owned",
        tended_namespace,
        holds=lambda seen: "deletionTimestamp" in seen["metadata"],
    )
    assert await exists(tended, resource_of("TYJob"), "owner", tended_namespace)
    let_go = {"metadata": {"finalizers": None}}
    await tended.patch(CONFIG_MAPS, name_of(owned), tended_namespace, patch=let_go)
    await until_gone(tended, resource_of("TYJob"), "owner", tended_namespace)
    assert not await exists(tended, CONFIG_MAPS, "owned", tended_namespace)


async def test_an_owner_does_not_wait_for_those_who_do_not_block_it(
    tended: Cluster, tended_namespace: str
) -> None:
    await owner_and_owned(tended, tended_namespace)
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await tended.patch(CONFIG_MAPS, "owned", tended_namespace, patch=hold)
    await tended.delete(resource_of("TYJob"), "owner", tended_namespace, Deletion(propagation="Foreground"))
    await until_gone(tended, resource_of("TYJob"), "owner", tended_namespace)
    going = await until(
        tended,
        CONFIG_MAPS,
        "owned",
        tended_namespace,
        holds=lambda seen: "deletionTimestamp" in seen["metadata"],
    )
    assert going["metadata"]["finalizers"] == ["example.com/hold"]


async def test_an_owner_that_owns_nobody_goes_first_of_all_too(
    tended: Cluster, tended_namespace: str
) -> None:
    await tended.create(resource_of("TYJob"), make(resource_of("TYJob"), "owner", tended_namespace))
    await tended.delete(resource_of("TYJob"), "owner", tended_namespace, Deletion(propagation="Foreground"))
    await until_gone(tended, resource_of("TYJob"), "owner", tended_namespace)


async def test_orphans_stay_and_forget_their_owner(tended: Cluster, tended_namespace: str) -> None:
    await owner_and_owned(tended, tended_namespace)
    await tended.delete(resource_of("TYJob"), "owner", tended_namespace, Deletion(propagation="Orphan"))
    await until_gone(tended, resource_of("TYJob"), "owner", tended_namespace)
    orphan = await tended.get(CONFIG_MAPS, "owned", tended_namespace)
    assert not orphan["metadata"].get("ownerReferences")
    assert "deletionTimestamp" not in orphan["metadata"]


async def test_a_job_leaves_its_own_behind_unless_told_otherwise(
    tended: Cluster, tended_namespace: str
) -> None:
    await owner_and_owned(tended, tended_namespace, JOBS)
    await tended.delete(JOBS, "owner", tended_namespace)
    await until_gone(tended, JOBS, "owner", tended_namespace)
    assert not (await tended.get(CONFIG_MAPS, "owned", tended_namespace))["metadata"].get("ownerReferences")


async def test_one_of_two_owners_is_enough_to_stay(tended: Cluster, tended_namespace: str) -> None:
    one = await tended.create(resource_of("TYJob"), make(resource_of("TYJob"), "one", tended_namespace))
    two = await tended.create(resource_of("TYJob"), make(resource_of("TYJob"), "two", tended_namespace))
    await tended.create(CONFIG_MAPS, config_map("owned", tended_namespace, metadata=owned_by(one, two)))
    await tended.delete(resource_of("TYJob"), "one", tended_namespace)
    kept = await until(
        tended,
        CONFIG_MAPS,
        "owned",
        tended_namespace,
        holds=lambda seen: len(seen["metadata"]["ownerReferences"]) == 1,
    )
    assert kept["metadata"]["ownerReferences"][0]["uid"] == uid_of(two)
    await tended.delete(resource_of("TYJob"), "two", tended_namespace)
    await until_gone(tended, CONFIG_MAPS, "owned", tended_namespace)


async def test_what_is_owned_by_nobody_who_exists_goes(tended: Cluster, tended_namespace: str) -> None:
    nobody = make(resource_of("TYJob"), "nobody", metadata={"uid": NOBODY})
    await tended.create(CONFIG_MAPS, config_map("owned", tended_namespace, metadata=owned_by(nobody)))
    await until_gone(tended, CONFIG_MAPS, "owned", tended_namespace)


async def test_an_owner_of_the_same_name_is_another(tended: Cluster, tended_namespace: str) -> None:
    owner = await tended.create(resource_of("TYJob"), make(resource_of("TYJob"), "owner", tended_namespace))
    other = {**owner, "metadata": {**owner["metadata"], "uid": NOBODY}}
    await tended.create(CONFIG_MAPS, config_map("owned", tended_namespace, metadata=owned_by(other)))
    await until_gone(tended, CONFIG_MAPS, "owned", tended_namespace)
    assert await exists(tended, resource_of("TYJob"), "owner", tended_namespace)


async def test_others_are_left_alone(tended: Cluster, tended_namespace: str) -> None:
    await owner_and_owned(tended, tended_namespace)
    await tended.create(CONFIG_MAPS, config_map("free", tended_namespace))
    await tended.delete(resource_of("TYJob"), "owner", tended_namespace)
    await until_gone(tended, CONFIG_MAPS, "owned", tended_namespace)
    left = await tended.list(
        CONFIG_MAPS, Selector(namespace=tended_namespace, fields="metadata.name!=kube-root-ca.crt")
    )
    assert [name_of(item) for item in left.items] == ["free"]
