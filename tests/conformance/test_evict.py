"""Evictions: a pod is deleted if its budget allows. The test writes the budget's status."""

import pytest

from shoal.cluster.errors import ConflictError, InternalError, NotFoundError, TooManyRequestsError
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import BUDGETS, PODS, Object
from tests.conformance.cases import cases
from tests.conformance.objects import make, pod, uid_of, version_of
from tests.conformance.waiting import exists, until_observed

OTHER = "00000000-0000-0000-0000-000000000000"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
NOT_READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


async def running(cluster: Cluster, namespace: str, name: str = "a", status: Object = READY) -> Object:
    await cluster.create(PODS, pod(name, namespace, labels={"app": "a"}))
    await cluster.bind(name, namespace, "n1")
    patched = await cluster.patch_status(PODS, name, namespace, patch={"status": status})
    return await until_observed(cluster, PODS, patched)


async def budget(cluster: Cluster, namespace: str, name: str = "budget", **status: int) -> Object:
    """A budget of all pods of app `a`, with the status that a controller wrote."""
    made = await cluster.create(BUDGETS, make(BUDGETS, name, namespace))
    judged = {"observedGeneration": made["metadata"]["generation"], "currentHealthy": 1, "desiredHealthy": 1}
    healthy = {**judged, "expectedPods": 1, "disruptionsAllowed": 0, **status}
    return await cluster.patch_status(BUDGETS, name, namespace, patch={"status": healthy})


async def is_going(cluster: Cluster, namespace: str, name: str = "a") -> bool:
    return "deletionTimestamp" in (await cluster.get(PODS, name, namespace))["metadata"]


async def test_a_pod_without_a_budget_is_deleted(cluster: Cluster, namespace: str) -> None:
    await running(cluster, namespace)
    await cluster.evict("a", namespace)
    gone = await cluster.get(PODS, "a", namespace)
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 30
    (condition,) = [each for each in gone["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")


@pytest.mark.parametrize("going", [False, True], ids=["a pending pod", "a terminating pod"])
async def test_a_pod_with_finalizers_gets_a_disruption_condition(
    cluster: Cluster,
    namespace: str,
    going: bool,  # noqa: FBT001 - a case
) -> None:
    body = pod("a", namespace)
    body["metadata"]["finalizers"] = ["example.com/held"]
    await cluster.create(PODS, body)
    if going:
        await cluster.delete(PODS, "a", namespace)
    await cluster.evict("a", namespace)
    (condition,) = (await cluster.get(PODS, "a", namespace))["status"]["conditions"]
    assert condition["reason"] == "EvictionByEvictionAPI"


async def test_an_eviction_can_shorten_the_grace_period(cluster: Cluster, namespace: str) -> None:
    await running(cluster, namespace)
    await cluster.evict("a", namespace, Deletion(grace=3))
    assert (await cluster.get(PODS, "a", namespace))["metadata"]["deletionGracePeriodSeconds"] == 3
    await running(cluster, namespace, "b")
    await cluster.evict("b", namespace, Deletion(grace=0))
    assert not await exists(cluster, PODS, "b", namespace)


async def test_a_missing_pod_is_not_found(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(NotFoundError):
        await cluster.evict("missing", namespace)


async def test_an_exhausted_budget_refuses(cluster: Cluster, namespace: str) -> None:
    before = await running(cluster, namespace)
    await budget(cluster, namespace)
    with pytest.raises(TooManyRequestsError, match="disruption budget") as refused:
        await cluster.evict("a", namespace)
    assert [cause.message for cause in refused.value.causes] == [
        "The disruption budget budget needs 1 healthy pods and has 1 currently"
    ]
    assert await cluster.get(PODS, "a", namespace) == before


async def test_an_eviction_is_counted_against_the_budget(cluster: Cluster, namespace: str) -> None:
    await running(cluster, namespace)
    await budget(cluster, namespace, disruptionsAllowed=1, currentHealthy=2)
    await cluster.evict("a", namespace)
    assert await is_going(cluster, namespace)
    status = (await cluster.get(BUDGETS, "budget", namespace))["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["a"]


async def test_each_eviction_is_counted_once(cluster: Cluster, namespace: str) -> None:
    for name in "abc":
        await running(cluster, namespace, name)
    await budget(cluster, namespace, disruptionsAllowed=2, currentHealthy=3)
    await cluster.evict("a", namespace)
    await cluster.evict("b", namespace)
    with pytest.raises(TooManyRequestsError):
        await cluster.evict("c", namespace)
    assert [await is_going(cluster, namespace, name) for name in "abc"] == [True, True, False]


async def test_an_unprocessed_budget_refuses_with_retry_after(cluster: Cluster, namespace: str) -> None:
    await running(cluster, namespace)
    await cluster.create(BUDGETS, make(BUDGETS, "budget", namespace))
    with pytest.raises(TooManyRequestsError) as refused:
        await cluster.evict("a", namespace)
    assert [cause.message for cause in refused.value.causes] == [
        "The disruption budget budget is still being processed by the server."
    ]
    assert refused.value.retry_after == 10


async def test_budgets_of_other_pods_do_not_matter(cluster: Cluster, namespace: str) -> None:
    await running(cluster, namespace)
    selector = {"matchLabels": {"app": "b"}}
    await cluster.create(BUDGETS, make(BUDGETS, "b", namespace, spec={"selector": selector}))
    await cluster.evict("a", namespace)
    assert await is_going(cluster, namespace)


async def test_an_empty_selector_covers_every_pod(cluster: Cluster, namespace: str) -> None:
    await running(cluster, namespace)
    await cluster.create(BUDGETS, make(BUDGETS, "all", namespace, spec={"selector": {}}))
    with pytest.raises(TooManyRequestsError):
        await cluster.evict("a", namespace)


async def test_a_pod_of_several_budgets_is_not_evicted(cluster: Cluster, namespace: str) -> None:
    before = await running(cluster, namespace)
    for name in ("one", "two"):
        await budget(cluster, namespace, name, disruptionsAllowed=1, currentHealthy=2)
    with pytest.raises(InternalError, match="more than one PodDisruptionBudget"):
        await cluster.evict("a", namespace)
    assert await cluster.get(PODS, "a", namespace) == before


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_pods_that_do_not_run_need_no_budget(cluster: Cluster, namespace: str, phase: str) -> None:
    await running(cluster, namespace, status={"phase": phase})
    await budget(cluster, namespace)
    await cluster.evict("a", namespace)
    assert not await exists(cluster, PODS, "a", namespace) or await is_going(cluster, namespace)


async def test_terminating_pods_need_no_budget(cluster: Cluster, namespace: str) -> None:
    await running(cluster, namespace)
    await budget(cluster, namespace)
    await cluster.delete(PODS, "a", namespace)
    await cluster.evict("a", namespace, Deletion(grace=5))
    assert (await cluster.get(PODS, "a", namespace))["metadata"]["deletionGracePeriodSeconds"] == 5


UNREADY: list[tuple[str, str, int, bool]] = [
    ("while enough pods are healthy", "IfHealthyBudget", 1, True),
    ("while too few pods are healthy", "IfHealthyBudget", 0, False),
    ("always", "AlwaysAllow", 0, True),
]


@cases("policy, healthy, goes", UNREADY)
async def test_unhealthy_pod_eviction_policy(
    cluster: Cluster,
    namespace: str,
    policy: str,
    healthy: int,
    goes: bool,  # noqa: FBT001 - a case
) -> None:
    await running(cluster, namespace, status=NOT_READY)
    body = make(BUDGETS, "budget", namespace, spec={"unhealthyPodEvictionPolicy": policy})
    made = await cluster.create(BUDGETS, body)
    status = {
        "observedGeneration": made["metadata"]["generation"],
        "currentHealthy": healthy,
        "desiredHealthy": 1,
        "expectedPods": 2,
        "disruptionsAllowed": 0,
    }
    await cluster.patch_status(BUDGETS, "budget", namespace, patch={"status": status})
    if goes:
        await cluster.evict("a", namespace)
    else:
        with pytest.raises(TooManyRequestsError):
            await cluster.evict("a", namespace)
    assert await is_going(cluster, namespace) is goes


async def test_preconditions_of_an_eviction(cluster: Cluster, namespace: str) -> None:
    before = await running(cluster, namespace)
    for other in (Deletion(uid=OTHER), Deletion(version="1")):
        with pytest.raises(ConflictError):
            await cluster.evict("a", namespace, other)
    assert await cluster.get(PODS, "a", namespace) == before
    await cluster.evict("a", namespace, Deletion(uid=uid_of(before), version=version_of(before)))
    assert await is_going(cluster, namespace)


@pytest.mark.parametrize("allowed", [0, 1], ids=["that is refused", "that is allowed"])
async def test_a_dry_run_eviction(cluster: Cluster, namespace: str, allowed: int) -> None:
    before = await running(cluster, namespace)
    its = await budget(cluster, namespace, disruptionsAllowed=allowed, currentHealthy=1 + allowed)
    if allowed:
        await cluster.evict("a", namespace, Deletion(dry_run=True))
    else:
        with pytest.raises(TooManyRequestsError):
            await cluster.evict("a", namespace, Deletion(dry_run=True))
    assert await cluster.get(PODS, "a", namespace) == before
    assert await cluster.get(BUDGETS, "budget", namespace) == its
