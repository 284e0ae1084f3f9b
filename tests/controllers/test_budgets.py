"""The status of PodDisruptionBudgets, by our controller and by that of Kubernetes."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.managed import ManagedBudget, ManagedMeta, ManagedPod
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import BUDGETS, EVENTS, JOBS, PODS, Object
from shoal.cluster.times import format_time
from shoal.controllers.budgets import BudgetView, budget_controller, reconcile
from shoal.controllers.changes import Changes, PatchStatus
from shoal.controllers.resources import reader
from tests.controllers.harness import registry, run_runtime
from tests.controllers.virtual_time import START_TIME, clock, run_virtual
from tests.k8s.controlplane import ControlPlane
from tests.k8s.fixtures import new_namespace

APP = {"app": "a"}
ALL_OF_APP = {"matchLabels": APP}


@dataclass(frozen=True)
class Case:
    """A budget, the number of ready, unready and other pods, and the expected counters.

    The counters are expectedPods, desiredHealthy, currentHealthy and disruptionsAllowed.
    """

    spec: Object
    counted: tuple[int, int, int, int]
    ready: int = 0
    unready: int = 0
    others: int = 0
    """Ready pods with other labels."""


def budget(**spec: Any) -> Object:  # noqa: ANN401 - as JSON has it
    return {"selector": ALL_OF_APP} | spec


CASES = {
    "minAvailable": Case(budget(minAvailable=2), (3, 2, 3, 1), ready=3),
    "minAvailable is just reached": Case(budget(minAvailable=3), (3, 3, 3, 0), ready=3),
    "minAvailable is not reached": Case(budget(minAvailable=5), (3, 5, 3, 0), ready=3),
    "unready pods are not healthy": Case(budget(minAvailable=1), (4, 1, 2, 1), ready=2, unready=2),
    "no pods": Case(budget(minAvailable=1), (0, 1, 0, 0)),
    "no pods, and none is needed": Case(budget(minAvailable=0), (0, 0, 0, 0)),
    "no pod is needed": Case(budget(minAvailable=0), (2, 0, 2, 2), ready=2),
    "pods with other labels are not covered": Case(budget(minAvailable=1), (2, 1, 2, 1), ready=2, others=3),
    "an empty selector covers all pods": Case(
        {"selector": {}, "minAvailable": 1}, (5, 1, 5, 4), ready=2, others=3
    ),
    "a selector with an expression": Case(
        {
            "selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
            "minAvailable": 1,
        },
        (3, 1, 3, 2),
        ready=2,
        others=3,
    ),
    "a percentage of pods without a controller is 0": Case(budget(minAvailable="50%"), (0, 0, 3, 0), ready=3),
    "maxUnavailable of pods without a controller": Case(budget(maxUnavailable=1), (0, 0, 3, 0), ready=3),
}


def summary(status: Object) -> Object:
    """The counters, the generation and the conditions of a status."""
    return {
        "counted": tuple(
            status.get(name)
            for name in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
        ),
        "generation": status.get("observedGeneration"),
        "conditions": [
            (one["type"], one["status"], one["reason"], one.get("observedGeneration"))
            for one in status.get("conditions") or ()
        ],
    }


def expected(case: Case) -> Object:
    allowed = ("True", "SufficientPods") if case.counted[-1] else ("False", "InsufficientPods")
    return {"counted": case.counted, "generation": 1, "conditions": [("DisruptionAllowed", *allowed, 1)]}


async def arrange(cluster: Cluster, namespace: str, case: Case) -> None:
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    for number in range(case.ready + case.unready + case.others):
        name = f"p{number}"
        labels = APP if number < case.ready + case.unready else {"app": "b"}
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        await cluster.create(PODS, {"metadata": metadata, "spec": spec})
        ready = "False" if case.ready <= number < case.ready + case.unready else "True"
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        await cluster.patch_status(PODS, name, namespace, patch={"status": status})
    await cluster.create(BUDGETS, {"metadata": {"name": "b", "namespace": namespace}, "spec": case.spec})


async def final_status(cluster: Cluster, namespace: str, case: Case) -> Object:
    """Create the objects, and return the status once it is as expected, or after 30 seconds."""
    await arrange(cluster, namespace, case)
    for _ in range(150):
        found = summary((await cluster.get(BUDGETS, "b", namespace)).get("status") or {})
        if found == expected(case):
            break
        await asyncio.sleep(0.2)
    return found


@pytest.mark.parametrize("name", CASES)
def test_our_controller_counts(name: str) -> None:
    async def scenario() -> Object:
        async with registry() as store, run_runtime(store, [budget_controller]):
            return await final_status(store, "default", CASES[name])

    assert run_virtual(scenario) == expected(CASES[name])


@pytest.fixture(scope="module")
def on_kubernetes(k8s_controllers: ControlPlane) -> Mapping[str, Object]:
    async def run_all() -> Mapping[str, Object]:
        cluster = KubernetesCluster(from_kubeconfig(str(k8s_controllers.kubeconfig())))
        places = {name: new_namespace(k8s_controllers) for name in CASES}
        try:
            found = await asyncio.gather(
                *(final_status(cluster, places[name], CASES[name]) for name in CASES)
            )
        finally:
            await cluster.close()
        return dict(zip(CASES, found, strict=True))

    return asyncio.run(run_all())


@pytest.mark.parametrize("name", CASES)
def test_the_controller_of_kubernetes_counts_the_same(on_kubernetes: Mapping[str, Object], name: str) -> None:
    assert on_kubernetes[name] == expected(CASES[name])


# --- pods of a controller ------------------------------------------------------------------------

SIZES = {
    "maxUnavailable": (budget(maxUnavailable=1), 4, (4, 3, 4, 1)),
    "maxUnavailable 0": (budget(maxUnavailable=0), 4, (4, 4, 4, 0)),
    "one pod is missing already": (budget(maxUnavailable=1), 3, (4, 3, 3, 0)),
    "maxUnavailable 100%": (budget(maxUnavailable="100%"), 4, (4, 0, 4, 4)),
    "maxUnavailable in percent is rounded up": (budget(maxUnavailable="30%"), 4, (4, 2, 4, 2)),
    "minAvailable in percent is rounded up too": (budget(minAvailable="60%"), 4, (4, 3, 4, 1)),
    "maxUnavailable is larger than the controller": (budget(maxUnavailable=9), 4, (4, 0, 4, 4)),
}


def pods_of(uid: str, number: int) -> tuple[ManagedPod, ...]:
    owner = {"kind": "Job", "name": "j", "uid": uid, "controller": True}
    metadata = {"namespace": "default", "labels": APP, "ownerReferences": [owner]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return tuple(_pod({"metadata": metadata | {"name": f"p{k}"}, "status": status}) for k in range(number))


def _pod(raw: Object) -> ManagedPod:
    return reader(ManagedPod)(msgspec.json.encode(raw))


def _budget(raw: Object) -> ManagedBudget:
    return reader(ManagedBudget)(
        msgspec.json.encode({"metadata": {"name": "b", "namespace": "default", "generation": 1}} | raw)
    )


def patch_of(changes: Changes) -> Object:
    writes = [write for stage in changes.stages for write in stage]
    if not writes:
        return {}
    (write,) = writes
    assert isinstance(write, PatchStatus)
    return dict(write.patch["status"])


@pytest.mark.parametrize("name", SIZES)
def test_percentages_refer_to_the_size_of_the_controller(name: str) -> None:
    spec, there, counted = SIZES[name]
    view = BudgetView(budget=_budget({"spec": spec}), pods=pods_of("u", there), sizes={"u": 4})
    assert summary(patch_of(reconcile(view, START_TIME)))["counted"] == counted


def test_the_size_of_a_job_is_known() -> None:
    async def scenario() -> Object:
        async with registry() as store, run_runtime(store, [budget_controller]):
            template = {"spec": {"containers": [{"name": "main", "image": "b"}], "restartPolicy": "Never"}}
            spec = {"parallelism": 3, "completions": 9, "template": template}
            job = await store.create(JOBS, {"metadata": {"name": "j"}, "spec": spec})
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job["metadata"]["uid"]}
            metadata = {"name": "p", "labels": APP, "ownerReferences": [owner | {"controller": True}]}
            await store.create(PODS, {"metadata": metadata, "spec": template["spec"]})
            await store.create(BUDGETS, {"metadata": {"name": "b"}, "spec": budget(maxUnavailable=1)})
            await asyncio.sleep(5)
            return summary((await store.get(BUDGETS, "b", "default"))["status"])

    assert run_virtual(scenario)["counted"] == (3, 2, 0, 0)


# --- evictions ------------------------------------------------------------------------------------


def test_an_eviction_counts_until_the_pod_is_gone_or_the_timeout_is_over() -> None:
    async def scenario() -> list[tuple[int, int]]:
        async with registry() as store, run_runtime(store, [budget_controller]):
            await final_status(store, "default", CASES["minAvailable"])
            evicted = {"disruptedPods": {"p0": format_time(clock())}, "disruptionsAllowed": 0}
            await store.patch_status(BUDGETS, "b", "default", patch={"status": evicted})
            found = []
            for pause in (10, 100, 30):
                await asyncio.sleep(pause)
                status = (await store.get(BUDGETS, "b", "default"))["status"]
                found.append((status["disruptionsAllowed"], len(status.get("disruptedPods", {}))))
            (event,) = (await store.list(EVENTS)).items
            assert (event["reason"], event["involvedObject"]["name"]) == ("NotDeleted", "p0")
            return found

    assert run_virtual(scenario) == [(0, 1), (0, 1), (1, 0)]


def test_evictions_use_up_the_allowed_disruptions() -> None:
    async def scenario() -> tuple[int, int]:
        async with registry() as store, run_runtime(store, [budget_controller]):
            await final_status(store, "default", CASES["minAvailable"])
            await store.evict("p0", "default")
            await asyncio.sleep(1)
            with pytest.raises(Exception, match="disruption budget"):
                await store.evict("p1", "default")
            await store.delete(PODS, "p1", "default", Deletion(grace=0))
            await asyncio.sleep(1)
            status = (await store.get(BUDGETS, "b", "default"))["status"]
            return status["currentHealthy"], status["expectedPods"]

    assert run_virtual(scenario) == (1, 1)


RANDOM_PODS = st.lists(
    st.builds(
        lambda ready, terminating, owner: {
            "metadata": {
                "namespace": "default",
                "labels": APP,
                **({"deletionTimestamp": "2027-01-01T00:00:00Z"} if terminating else {}),
                "ownerReferences": [{"kind": "Job", "name": "j", "uid": owner, "controller": True}]
                if owner
                else [],
            },
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        },
        st.sampled_from(["True", "False"]),
        st.booleans(),
        st.sampled_from(["", "u", "v"]),
    ),
    max_size=8,
)
LIMITS = st.integers(0, 9) | st.integers(0, 100).map(lambda part: f"{part}%")


@given(RANDOM_PODS, st.sampled_from(["minAvailable", "maxUnavailable"]), LIMITS)
def test_allowed_disruptions_leave_the_desired_number_healthy(
    raws: list[Object], field: str, limit: int | str
) -> None:
    pods = tuple(_pod(raw | {"metadata": raw["metadata"] | {"name": f"p{k}"}}) for k, raw in enumerate(raws))
    first = _budget({"spec": budget(**{field: limit})})
    patch = patch_of(reconcile(BudgetView(budget=first, pods=pods), START_TIME))
    allowed = patch["disruptionsAllowed"]
    assert 0 <= allowed <= patch["currentHealthy"] <= len(pods)
    assert allowed == 0 or patch["currentHealthy"] - allowed >= patch["desiredHealthy"]
    written = _budget({"spec": budget(**{field: limit}), "status": patch})
    assert reconcile(BudgetView(budget=written, pods=pods), START_TIME + 60).stages == (), (
        "it is written once"
    )


def test_a_budget_without_a_selector_covers_no_pods() -> None:
    view = BudgetView(budget=ManagedBudget(metadata=ManagedMeta(name="b")), pods=())
    assert patch_of(reconcile(view, START_TIME))["disruptionsAllowed"] == 0
