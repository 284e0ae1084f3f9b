"""Garbage collection: owners and dependents, namespaces and their contents."""

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import ForbiddenError
from shoal.cluster.port import Deletion, Propagation
from shoal.cluster.resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS, Object
from tests.apiserver.registry.objects import config_map, job, names, opened, owned_by, pod

FINALIZER = "test.example/hold"


async def make(registry: Registry, *rows: str) -> None:
    """Create config maps: `b: a` is owned by a, `b: a!` blocks its owner's deletion, `b*` has a finalizer."""
    for row in rows:
        name, _, owners = row.partition(":")
        references = [
            owned_by(await registry.get(CONFIG_MAPS, owner.strip("!")), blocks=owner.endswith("!"))
            for owner in owners.split()
        ]
        finalizers = [FINALIZER] if name.endswith("*") else []
        body = config_map(name.strip("*"), ownerReferences=references, finalizers=finalizers)
        await registry.create(CONFIG_MAPS, body)


async def remaining(registry: Registry) -> str:
    """Return the remaining config maps in the same notation; `-` is being deleted."""
    found = []
    for obj in (await registry.list(CONFIG_MAPS)).items:
        metadata = obj["metadata"]
        going = "-" if "deletionTimestamp" in metadata else ""
        owners = " ".join(reference["name"] for reference in metadata.get("ownerReferences", ()))
        found.append(f"{going}{metadata['name']}" + (f":{owners}" if owners else ""))
    return ", ".join(found)


CASES: dict[str, tuple[list[str], Propagation | None, str]] = {
    "a dependent is deleted with its owner": (["a", "b:a", "c"], None, "c"),
    "dependents of a dependent are deleted too": (["a", "b:a", "c:b", "d:b c"], "Background", ""),
    "a dependent with another owner stays, without the reference to the first": (
        ["a", "o", "b:a o"],
        "Background",
        "b:o, o",
    ),
    "orphans stay": (["a", "b:a", "c:b"], "Orphan", "b, c:b"),
    "an orphan keeps its other owner references": (["a", "o", "b:a o"], "Orphan", "b:o, o"),
    "a dependent with a finalizer is terminating after its owner is gone": (
        ["a", "b*:a"],
        "Background",
        "-b:a",
    ),
    "an owner with a finalizer stays, and its dependents stay": (["a*", "b:a"], "Background", "-a, b:a"),
    "foreground deletion deletes owner and dependents": (["a", "b:a!", "c:b!"], "Foreground", ""),
    "in foreground deletion an owner waits for dependents with blockOwnerDeletion": (
        ["a", "b*:a!"],
        "Foreground",
        "-a, -b:a",
    ),
    "in foreground deletion an owner does not wait for other dependents": (
        ["a", "b*:a"],
        "Foreground",
        "-b:a",
    ),
    "foreground deletion is transitive": (
        ["a", "b:a!", "c*:b!", "d:a!"],
        "Foreground",
        "-a, -b:a, -c:b",
    ),
    "in foreground deletion a dependent with another owner stays": (
        ["a", "o", "b:a! o"],
        "Foreground",
        "b:o, o",
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_dependents_are_deleted_with_their_owner(case: str) -> None:
    rows, propagation, expected = CASES[case]
    async with opened() as registry:
        await make(registry, *rows)
        await registry.delete(CONFIG_MAPS, "a", deletion=Deletion(propagation=propagation))
        assert await remaining(registry) == expected


@pytest.mark.parametrize("case", [name for name, row in CASES.items() if "-" in row[2]])
async def test_all_are_deleted_when_the_last_blocker_is_gone(case: str) -> None:
    rows, propagation, _ = CASES[case]
    async with opened() as registry:
        await make(registry, *rows)
        await registry.delete(CONFIG_MAPS, "a", deletion=Deletion(propagation=propagation))
        for obj in (await registry.list(CONFIG_MAPS)).items:
            if FINALIZER in obj["metadata"].get("finalizers", ()):
                kept = [name for name in obj["metadata"]["finalizers"] if name != FINALIZER]
                patch: Object = {"metadata": {"finalizers": kept}}
                await registry.patch(CONFIG_MAPS, obj["metadata"]["name"], patch=patch)
        assert await remaining(registry) == ""


async def test_ownership_cycles_are_deleted() -> None:
    for propagation in ("Background", "Foreground"):
        async with opened() as registry:
            await make(registry, "a", "b:a!")
            back = [owned_by(await registry.get(CONFIG_MAPS, "b"), blocks=True)]
            await registry.patch(CONFIG_MAPS, "a", patch={"metadata": {"ownerReferences": back}})
            await registry.delete(CONFIG_MAPS, "a", deletion=Deletion(propagation=propagation))
            assert await remaining(registry) == ""


async def test_an_owner_may_have_many_dependents() -> None:
    for propagation in ("Background", "Foreground", "Orphan"):
        async with opened() as registry:
            await make(registry, "a", *(f"b{i}:a!" for i in range(1500)))
            await registry.delete(CONFIG_MAPS, "a", deletion=Deletion(propagation=propagation))
            assert len((await registry.list(CONFIG_MAPS)).items) == (1500 if propagation == "Orphan" else 0)


async def test_chains_may_be_long() -> None:
    for propagation in ("Background", "Foreground"):
        async with opened() as registry:
            await make(registry, "c0", *(f"c{i + 1}:c{i}!" for i in range(1500)))
            await registry.delete(CONFIG_MAPS, "c0", deletion=Deletion(propagation=propagation))
            assert await remaining(registry) == ""


OWNERS = {
    "an owner that does not exist": ({"name": "missing"}, False),
    "an owner of the name with another uid": ({"uid": "other"}, False),
    "an owner of an unknown kind": ({"kind": "ReplicaSet", "apiVersion": "apps/v1"}, True),
    "the owner": ({}, True),
}


@pytest.mark.parametrize("case", OWNERS)
async def test_an_object_with_an_absent_owner_is_collected(case: str) -> None:
    change, stays = OWNERS[case]
    async with opened() as registry:
        await make(registry, "a")
        reference = owned_by(await registry.get(CONFIG_MAPS, "a")) | change
        made = await registry.create(CONFIG_MAPS, config_map("b", ownerReferences=[reference]))
        assert made["metadata"]["uid"]
        assert ("b" in await names(registry, CONFIG_MAPS)) is stays


async def test_owners_are_looked_up_in_the_same_namespace() -> None:
    async with opened() as registry:
        await make(registry, "a")
        reference = owned_by(await registry.get(CONFIG_MAPS, "a"))
        await registry.create(
            CONFIG_MAPS, config_map("b", namespace="kube-system", ownerReferences=[reference])
        )
        assert await names(registry, CONFIG_MAPS) == ["a"]


async def test_an_object_whose_owner_references_are_removed_stays() -> None:
    async with opened() as registry:
        await make(registry, "a", "b:a")
        await registry.patch(CONFIG_MAPS, "b", patch={"metadata": {"ownerReferences": None}})
        await registry.delete(CONFIG_MAPS, "a")
        assert await remaining(registry) == "b"


async def test_jobs_orphan_their_pods_by_default() -> None:
    async with opened() as registry:
        made = await registry.create(JOBS, job())
        await registry.create(PODS, pod(ownerReferences=[owned_by(made)]))
        await registry.delete(JOBS, "j")
        assert "ownerReferences" not in (await registry.get(PODS, "a"))["metadata"]


async def test_a_running_dependent_pod_gets_its_grace_period() -> None:
    async with opened() as registry:
        made = await registry.create(JOBS, job())
        await registry.create(PODS, pod(ownerReferences=[owned_by(made, blocks=True)]))
        await registry.bind("a", "default", "n")
        await registry.delete(JOBS, "j", deletion=Deletion(propagation="Foreground"))
        assert (await registry.get(PODS, "a"))["metadata"]["deletionGracePeriodSeconds"] == 30
        assert (await registry.get(JOBS, "j"))["metadata"]["finalizers"] == ["foregroundDeletion"]
        await registry.delete(PODS, "a", deletion=Deletion(grace=0))
        assert await names(registry, JOBS) == []


# --- namespaces --------------------------------------------------------------------------------------------


async def test_a_namespace_is_deleted_with_its_contents() -> None:
    async with opened() as registry:
        await registry.create(NAMESPACES, {"metadata": {"name": "n"}})
        for name in "ab":
            await registry.create(CONFIG_MAPS, config_map(name, namespace="n"))
            await registry.create(PODS, pod(name, namespace="n"))
        await registry.create(CONFIG_MAPS, config_map("other"))
        assert await registry.delete(NAMESPACES, "n") is None
        assert (await names(registry, CONFIG_MAPS), await names(registry, PODS)) == (["other"], [])


async def test_a_namespace_waits_for_its_contents() -> None:
    async with opened() as registry:
        await registry.create(NAMESPACES, {"metadata": {"name": "n"}})
        await registry.create(PODS, pod(namespace="n"))
        await registry.create(CONFIG_MAPS, config_map(namespace="n", finalizers=[FINALIZER]))
        await registry.bind("a", "n", "node")
        going = await registry.delete(NAMESPACES, "n")
        assert going is not None
        assert going["status"] == {"phase": "Terminating"}
        assert "deletionGracePeriodSeconds" not in going["metadata"]
        assert await registry.delete(NAMESPACES, "n") == going
        with pytest.raises(ForbiddenError, match="because it is being terminated"):
            await registry.create(CONFIG_MAPS, config_map("late", namespace="n"))
        await registry.delete(PODS, "a", "n", Deletion(grace=0))
        assert "n" in await names(registry, NAMESPACES)
        await registry.patch(CONFIG_MAPS, "c", "n", patch={"metadata": {"finalizers": None}})
        assert "n" not in await names(registry, NAMESPACES)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_cannot_be_deleted(name: str) -> None:
    async with opened() as registry:
        with pytest.raises(ForbiddenError, match="may not be deleted"):
            await registry.delete(NAMESPACES, name)


async def test_namespace_finalizers_cannot_be_changed_by_clients() -> None:
    async with opened() as registry:
        made = await registry.create(NAMESPACES, {"metadata": {"name": "n"}})
        patch: Object = {"metadata": {"labels": None}, "spec": {"finalizers": []}}
        assert await registry.patch(NAMESPACES, "n", patch=patch) == made


async def test_built_in_namespaces_are_recreated() -> None:
    async with opened() as registry:
        await registry.delete(NAMESPACES, "kube-node-lease")
        await registry.clean_up()
        assert "kube-node-lease" in await names(registry, NAMESPACES)
