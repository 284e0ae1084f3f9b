"""Binding and eviction."""

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.cluster.errors import (
    BadRequestError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    InternalError,
    NotFoundError,
    TooManyRequestsError,
)
from shoal.cluster.port import Deletion
from shoal.cluster.resources import BUDGETS, PODS, PRIORITY_CLASSES, Object
from tests.apiserver.registry.objects import names, opened, pod


async def test_binding_sets_the_node_and_the_condition() -> None:
    async with opened() as registry:
        made = await registry.create(PODS, pod())
        await registry.bind("a", "default", "n", uid=made["metadata"]["uid"])
        bound = await registry.get(PODS, "a")
        assert bound["spec"]["nodeName"] == "n"
        (condition,) = bound["status"]["conditions"]
        assert condition == {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }
        assert bound["metadata"]["generation"] == 1


BINDINGS: dict[str, tuple[str, str, str, type[ClusterError], str]] = {
    "a bound pod": ("bound", "n", "", ConflictError, 'already assigned to node "n"'),
    "a terminating pod": ("going", "n", "", ConflictError, "is being deleted"),
    "a pod with scheduling gates": ("gated", "n", "", ConflictError, "schedulingGates"),
    "another uid": ("free", "n", "other", ConflictError, "UID in precondition: other"),
    "none": ("missing", "n", "", NotFoundError, 'pods "missing" not found'),
    "no node": ("free", "", "", BadRequestError, "no target node"),
}


@pytest.mark.parametrize("case", BINDINGS)
async def test_a_binding_is_refused(case: str) -> None:
    name, node, uid, error, text = BINDINGS[case]
    async with opened() as registry:
        for made in ("free", "bound"):
            await registry.create(PODS, pod(made))
        await registry.create(PODS, pod("going", finalizers=["a.b/c"]))
        await registry.create(PODS, pod("gated", spec={"schedulingGates": [{"name": "g"}]}))
        await registry.bind("bound", "default", "n")
        await registry.delete(PODS, "going")
        with pytest.raises(error) as caught:
            await registry.bind(name, "default", node, uid=uid)
        assert text in str(caught.value)


# --- eviction ----------------------------------------------------------------------------------------------

SPENT = "Cannot evict pod as it would violate the pod's disruption budget."


async def ready_pod(registry: Registry, phase: str = "Running", *, ready: str = "True") -> None:
    await registry.create(PODS, pod(labels={"app": "x"}))
    await registry.bind("a", "default", "n")
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    await registry.patch_status(PODS, "a", patch={"status": status})


async def budget(registry: Registry, status: Object, name: str = "b", **spec: object) -> None:
    selector = {"matchLabels": {"app": "x"}}
    await registry.create(BUDGETS, {"metadata": {"name": name}, "spec": {"selector": selector} | spec})
    await registry.patch_status(BUDGETS, name, patch={"status": status})


COUNTED = {"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1}
REFUSALS: dict[str, tuple[Object, type[ClusterError], str]] = {
    "the budget is exhausted": (
        COUNTED | {"desiredHealthy": 2},
        TooManyRequestsError,
        "needs 2 healthy pods and has 2",
    ),
    "a budget whose status is not up to date": (
        {"disruptionsAllowed": 1},
        TooManyRequestsError,
        "still being processed",
    ),
    "a negative disruptionsAllowed": (COUNTED | {"disruptionsAllowed": -1}, ForbiddenError, "negative"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_a_budget_blocks_an_eviction(case: str) -> None:
    status, error, text = REFUSALS[case]
    async with opened() as registry:
        await ready_pod(registry)
        await budget(registry, status)
        version = registry.version
        with pytest.raises(error) as caught:
            await registry.evict("a", "default")
        assert text in " ".join([caught.value.message, *(cause.message for cause in caught.value.causes)])
        assert registry.version == version


async def test_an_eviction_is_counted_against_the_budget() -> None:
    async with opened() as registry:
        await ready_pod(registry)
        await budget(registry, COUNTED | {"disruptionsAllowed": 1})
        await registry.evict("a", "default", Deletion(grace=7))
        status = (await registry.get(BUDGETS, "b"))["status"]
        assert (status["disruptionsAllowed"], status["disruptedPods"]) == (0, {"a": "2027-01-15T08:00:00Z"})
        assert status["conditions"][0]["reason"] == "InsufficientPods"
        going = await registry.get(PODS, "a")
        assert going["metadata"]["deletionGracePeriodSeconds"] == 7
        assert going["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
        await registry.evict("a", "default")
        assert (await registry.get(BUDGETS, "b"))["status"] == status


FREE: dict[str, tuple[str, str, Object, Object]] = {
    "a finished pod": ("Succeeded", "False", COUNTED, {}),
    "a pending pod": ("Pending", "False", COUNTED, {}),
    "an unready pod while enough are ready": ("Running", "False", COUNTED, {}),
    "an unready pod with unhealthyPodEvictionPolicy AlwaysAllow": (
        "Running",
        "False",
        COUNTED | {"currentHealthy": 0},
        {"unhealthyPodEvictionPolicy": "AlwaysAllow"},
    ),
}


@pytest.mark.parametrize("case", FREE)
async def test_evictions_that_do_not_count(case: str) -> None:
    phase, ready, status, spec = FREE[case]
    async with opened() as registry:
        await ready_pod(registry, phase, ready=ready)
        await budget(registry, status | {"disruptionsAllowed": 0}, **spec)
        await registry.evict("a", "default", Deletion(grace=0))
        assert await names(registry, PODS) == []
        assert "disruptedPods" not in (await registry.get(BUDGETS, "b"))["status"]


async def test_a_pod_of_two_budgets_cannot_be_evicted() -> None:
    async with opened() as registry:
        await ready_pod(registry)
        for name in "bc":
            await budget(registry, COUNTED | {"disruptionsAllowed": 1}, name)
        with pytest.raises(InternalError, match="more than one PodDisruptionBudget"):
            await registry.evict("a", "default")


async def test_a_dry_run_eviction_changes_nothing() -> None:
    async with opened() as registry:
        await ready_pod(registry)
        await budget(registry, COUNTED | {"disruptionsAllowed": 1})
        version = registry.version
        await registry.evict("a", "default", Deletion(dry_run=True))
        assert registry.version == version


# --- priorities --------------------------------------------------------------------------------------------

CLASSES = [
    {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"},
    {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True},
]
PRIORITIES: dict[str, tuple[Object, tuple[str, int, str]]] = {
    "a PriorityClass": ({"priorityClassName": "high"}, ("high", 100, "Never")),
    "no PriorityClass": ({}, ("usual", 7, "PreemptLowerPriority")),
    "a built-in PriorityClass": (
        {"priorityClassName": "system-node-critical"},
        ("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
    ),
    "the priority of the PriorityClass": (
        {"priorityClassName": "high", "priority": 100},
        ("high", 100, "Never"),
    ),
}


@pytest.mark.parametrize("case", PRIORITIES)
async def test_a_pod_gets_the_priority_of_its_class(case: str) -> None:
    spec, expected = PRIORITIES[case]
    async with opened() as registry:
        for body in CLASSES:
            await registry.create(PRIORITY_CLASSES, body)
        made = (await registry.create(PODS, pod(spec=spec)))["spec"]
        assert (made["priorityClassName"], made["priority"], made["preemptionPolicy"]) == expected


async def test_there_is_one_default_class() -> None:
    async with opened() as registry:
        for body in CLASSES:
            await registry.create(PRIORITY_CLASSES, body)
        with pytest.raises(ForbiddenError, match="usual is already marked as default"):
            await registry.patch(PRIORITY_CLASSES, "high", patch={"globalDefault": True})
