"""Deletion: immediate, after a grace period, or with the last finalizer."""

from collections.abc import Sequence

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import ConflictError, ForbiddenError, NotFoundError
from shoal.cluster.port import Deletion, Selector
from shoal.cluster.resources import CONFIG_MAPS, PODS, PRIORITY_CLASSES, Object
from tests.apiserver.registry.objects import config_map, names, opened, pod

HOLD = "test.example/hold"


async def running(registry: Registry, finalizers: Sequence[str] = ()) -> Object:
    await registry.create(PODS, pod(finalizers=finalizers))
    await registry.bind("a", "default", "n")
    return await registry.get(PODS, "a")


PODS_THAT_GO_AT_ONCE: dict[str, tuple[str | None, str, Deletion]] = {
    "an unbound pod": (None, "Pending", Deletion()),
    "a succeeded pod": ("n", "Succeeded", Deletion()),
    "a failed pod": ("n", "Failed", Deletion(grace=30)),
    "a grace period of 0": ("n", "Running", Deletion(grace=0)),
}


@pytest.mark.parametrize("case", PODS_THAT_GO_AT_ONCE)
async def test_some_pods_are_removed_immediately(case: str) -> None:
    node, phase, deletion = PODS_THAT_GO_AT_ONCE[case]
    async with opened() as registry:
        await registry.create(PODS, pod())
        if node:
            await registry.bind("a", "default", node)
        await registry.patch_status(PODS, "a", patch={"status": {"phase": phase}})
        assert await registry.delete(PODS, "a", deletion=deletion) is None
        with pytest.raises(NotFoundError):
            await registry.get(PODS, "a")


GRACES: dict[str, tuple[list[int | None], int, str]] = {
    "the pod's own grace period": ([None], 30, "08:00:30"),
    "the grace period of the deletion": ([10], 10, "08:00:10"),
    "at least one second": ([-5], 1, "08:00:01"),
    "a second deletion shortens it": ([None, 5], 5, "08:00:05"),
    "a second deletion does not extend it": ([5, 40], 5, "08:00:05"),
    "a second deletion without a grace period keeps it": ([5, None], 5, "08:00:05"),
    "a second deletion shortens a grace period beyond any calendar": ([10**30, 5], 5, "08:00:05"),
}


@pytest.mark.parametrize("case", GRACES)
async def test_a_running_pod_gets_a_grace_period(case: str) -> None:
    graces, seconds, end = GRACES[case]
    async with opened() as registry:
        await running(registry)
        for grace in graces:
            await registry.delete(PODS, "a", deletion=Deletion(grace=grace))
        metadata = (await registry.get(PODS, "a"))["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == seconds
        assert metadata["deletionTimestamp"] == f"2027-01-15T{end}Z"
        assert metadata["generation"] == 2


async def test_a_huge_grace_period_is_capped() -> None:
    async with opened() as registry:
        await registry.create(PODS, pod(spec={"terminationGracePeriodSeconds": 2**63 - 1}))
        await registry.bind("a", "default", "n")
        going = await registry.delete(PODS, "a")
        assert going is not None
        assert going["metadata"]["deletionTimestamp"].startswith("21")


async def test_an_object_is_removed_with_its_last_finalizer() -> None:
    async with opened() as registry:
        await registry.create(CONFIG_MAPS, config_map(finalizers=[HOLD, f"{HOLD}-too"]))
        going = await registry.delete(CONFIG_MAPS, "c")
        assert going is not None
        assert going["metadata"]["deletionTimestamp"]
        assert await registry.delete(CONFIG_MAPS, "c") == going
        await registry.patch(CONFIG_MAPS, "c", patch={"metadata": {"finalizers": [HOLD]}})
        await registry.patch(CONFIG_MAPS, "c", patch={"metadata": {"finalizers": []}})
        assert await names(registry, CONFIG_MAPS) == []


async def test_a_pod_waits_for_grace_period_and_finalizers() -> None:
    async with opened() as registry:
        await running(registry, finalizers=[HOLD])
        await registry.delete(PODS, "a")
        await registry.patch(PODS, "a", patch={"metadata": {"finalizers": None}})
        assert await names(registry, PODS) == ["a"]
        await registry.delete(PODS, "a", deletion=Deletion(grace=0))
        assert await names(registry, PODS) == []
        await running(registry, finalizers=[HOLD])
        await registry.delete(PODS, "a", deletion=Deletion(grace=0))
        assert await names(registry, PODS) == ["a"]
        await registry.patch(PODS, "a", patch={"metadata": {"finalizers": None}})
        assert await names(registry, PODS) == []


async def test_the_propagation_policy_can_change_during_deletion() -> None:
    async with opened() as registry:
        await registry.create(CONFIG_MAPS, config_map(finalizers=[HOLD]))
        await registry.create(CONFIG_MAPS, config_map("d"))
        await registry.delete(CONFIG_MAPS, "c")
        again = await registry.delete(CONFIG_MAPS, "c", deletion=Deletion(propagation="Foreground"))
        assert again is not None
        assert again["metadata"]["finalizers"] == [HOLD]


async def test_preconditions_of_a_deletion() -> None:
    async with opened() as registry:
        made = await registry.create(CONFIG_MAPS, config_map())
        for deletion in (Deletion(uid="other"), Deletion(version="1")):
            with pytest.raises(ConflictError, match="in the precondition"):
                await registry.delete(CONFIG_MAPS, "c", deletion=deletion)
        metadata = made["metadata"]
        deletion = Deletion(uid=metadata["uid"], version=metadata["resourceVersion"])
        assert await registry.delete(CONFIG_MAPS, "c", deletion=deletion) is None


async def test_the_deleted_object_has_the_version_of_its_deletion() -> None:
    async with opened() as registry:
        made = await registry.create(CONFIG_MAPS, config_map())
        await registry.delete(CONFIG_MAPS, "c")
        async with registry.watch(
            CONFIG_MAPS, version=made["metadata"]["resourceVersion"], timeout=0
        ) as events:
            (event,) = [event async for event in events]
        assert event.object is not None
        assert (event.type, event.version) == ("DELETED", registry.version)
        assert event.object["metadata"] == made["metadata"] | {"resourceVersion": registry.version}


async def test_delete_collection() -> None:
    async with opened() as registry:
        for name, team in (("a", "x"), ("b", "y"), ("c", "x")):
            await registry.create(CONFIG_MAPS, config_map(name, labels={"team": team}))
        gone = await registry.delete_all(CONFIG_MAPS, Selector(namespace="default", labels="team=x"))
        assert [obj["metadata"]["name"] for obj in gone] == ["a", "c"]
        assert await names(registry, CONFIG_MAPS) == ["b"]


async def test_system_priority_classes_cannot_be_deleted() -> None:
    async with opened() as registry:
        with pytest.raises(ForbiddenError, match="cannot be deleted"):
            await registry.delete(PRIORITY_CLASSES, "system-node-critical")
