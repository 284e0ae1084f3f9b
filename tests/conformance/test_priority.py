"""Priority classes, and the priority that admission sets on new pods."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from shoal.cluster.errors import ClusterError, ForbiddenError, InvalidError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import PODS, PRIORITY_CLASSES, Object
from tests.conformance.cases import cases
from tests.conformance.conftest import CreateTemporary
from tests.conformance.objects import make, name_of, pod, unique
from tests.conformance.waiting import PATIENCE


async def create_class(create_temporary: CreateTemporary, value: int, **fields: Any) -> str:  # noqa: ANN401 - JSON
    return name_of(
        await create_temporary(
            PRIORITY_CLASSES, make(PRIORITY_CLASSES, unique("class"), value=value, **fields)
        )
    )


async def test_a_class_sets_the_priority(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary
) -> None:
    name = await create_class(create_temporary, value=77)
    made = await cluster.create(PODS, pod("a", namespace, priorityClassName=name))
    assert made["spec"]["priority"] == 77
    assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"


@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
async def test_a_class_sets_the_preemption_policy(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary, policy: str
) -> None:
    name = await create_class(create_temporary, value=-5, preemptionPolicy=policy)
    made = await cluster.create(PODS, pod("a", namespace, priorityClassName=name))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (-5, policy)


async def test_priority_without_a_class_is_zero(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, pod("a", namespace))
    assert made["spec"]["priority"] == 0
    assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    assert "priorityClassName" not in made["spec"]


async def test_a_missing_class_is_refused(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(ForbiddenError, match="no PriorityClass with name missing was found"):
        await cluster.create(PODS, pod("a", namespace, priorityClassName="missing"))


async def test_the_class_is_resolved_before_validation(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(ForbiddenError, match="no PriorityClass with name missing was found"):
        await cluster.create(PODS, pod("a", namespace, priorityClassName="missing", containers=[]))


SYSTEM = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)]


@pytest.mark.parametrize("name, value", SYSTEM, ids=[row[0] for row in SYSTEM])
async def test_system_classes_exist(cluster: Cluster, namespace: str, name: str, value: int) -> None:
    assert (await cluster.get(PRIORITY_CLASSES, name))["value"] == value
    made = await cluster.create(PODS, pod("a", namespace, priorityClassName=name))
    assert made["spec"]["priority"] == value


SPECS: list[tuple[str, Object, bool]] = [
    ("the value of the class", {"priority": 77}, True),
    ("another value", {"priority": 78}, False),
    ("the preemption policy of the class", {"preemptionPolicy": "PreemptLowerPriority"}, True),
    ("another preemption policy", {"preemptionPolicy": "Never"}, False),
]


@cases("spec, good", SPECS)
async def test_a_pod_may_only_repeat_the_priority_of_its_class(
    cluster: Cluster,
    namespace: str,
    create_temporary: CreateTemporary,
    spec: Object,
    good: bool,  # noqa: FBT001 - a case
) -> None:
    name = await create_class(create_temporary, value=77)
    body = pod("a", namespace, priorityClassName=name, **spec)
    if good:
        assert (await cluster.create(PODS, body))["spec"]["priority"] == 77
    else:
        with pytest.raises(ForbiddenError):
            await cluster.create(PODS, body)


async def test_a_priority_without_a_class_is_refused(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(ForbiddenError, match="must not be provided in pod spec"):
        await cluster.create(PODS, pod("a", namespace, priority=5))


async def test_a_recreated_class_does_not_change_pods(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary
) -> None:
    name = await create_class(create_temporary, value=77)
    await cluster.create(PODS, pod("a", namespace, priorityClassName=name))
    await cluster.delete(PRIORITY_CLASSES, name)
    patched = await cluster.patch(PODS, "a", namespace, patch={"metadata": {"labels": {"a": "b"}}})
    assert patched["spec"]["priority"] == 77


CLASSES: list[tuple[str, Object, type[ClusterError] | None]] = [
    ("the highest user value", {"value": 1_000_000_000}, None),
    ("above the highest user value", {"value": 1_000_000_001}, InvalidError),
    ("the lowest value", {"value": -2_147_483_648}, None),
    ("an unknown preemption policy", {"value": 1, "preemptionPolicy": "Sometimes"}, InvalidError),
    ("the name of a system class", {"name": "system-mine", "value": 1}, InvalidError),
]


@cases("fields, error", CLASSES)
async def test_validation_of_classes(
    create_temporary: CreateTemporary, fields: Object, error: type[ClusterError] | None
) -> None:
    more = dict(fields)
    body = make(PRIORITY_CLASSES, more.pop("name", unique("class")), **more)
    if error is None:
        assert (await create_temporary(PRIORITY_CLASSES, body))["value"] == more["value"]
    else:
        with pytest.raises(error):
            await create_temporary(PRIORITY_CLASSES, body)


CHANGES: list[tuple[str, Object, bool]] = [
    ("value", {"value": 78}, False),
    ("preemptionPolicy", {"preemptionPolicy": "Never"}, False),
    ("description", {"description": "good"}, True),
    ("labels", {"metadata": {"labels": {"a": "b"}}}, True),
]


@cases("change, good", CHANGES)
async def test_mutable_fields_of_a_class(
    cluster: Cluster,
    create_temporary: CreateTemporary,
    change: Object,
    good: bool,  # noqa: FBT001 - a case
) -> None:
    name = await create_class(create_temporary, value=77)
    if good:
        await cluster.patch(PRIORITY_CLASSES, name, patch=change)
    else:
        with pytest.raises(InvalidError):
            await cluster.patch(PRIORITY_CLASSES, name, patch=change)


async def admitted(cluster: Cluster, namespace: str, holds: Callable[[Object], bool]) -> Object:
    """Dry-run a create until the result matches: admission may observe a new class late."""
    async with asyncio.timeout(PATIENCE):
        while not holds(made := await cluster.create(PODS, pod("rehearsed", namespace), dry_run=True)):
            pass
    return made


async def test_the_default_class_applies_to_pods_without_one(
    cluster: Cluster, namespace: str, create_temporary: CreateTemporary
) -> None:
    name = await create_class(create_temporary, value=0, globalDefault=True, preemptionPolicy="Never")
    made = await admitted(cluster, namespace, lambda pod: "priorityClassName" in pod["spec"])
    assert (made["spec"]["priorityClassName"], made["spec"]["preemptionPolicy"]) == (name, "Never")
    with pytest.raises(ForbiddenError, match="Only one default can exist"):
        await create_class(create_temporary, value=9, globalDefault=True)
    await cluster.delete(PRIORITY_CLASSES, name)
    await admitted(cluster, namespace, lambda pod: "priorityClassName" not in pod["spec"])
