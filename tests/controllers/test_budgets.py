"""PodDisruptionBudgets: what their status says, ours and that of Kubernetes."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.kubernetes.home import KubernetesCluster
from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import BUDGETS, EVENTS, JOBS, PODS, Object
from shoal.cluster.times import as_text
from shoal.controllers.budgets import View, budget_controller, reconcile
from shoal.controllers.changes import Changes, PatchStatus
from shoal.controllers.views import Budget, Meta, Pod, reader
from tests.controllers.scenes import at_work, registry
from tests.controllers.virtual import BEGINNING, clock, virtually
from tests.k8s.controlplane import ControlPlane
from tests.k8s.fixtures import new_namespace

APP = {"app": "a"}
ALL_OF_APP = {"matchLabels": APP}


@dataclass(frozen=True)
class Case:
    """A budget, how many pods there are of which some are ready, and what is counted.

    Counted are the pods expected, those wanted healthy, those that are, and how many may be taken.
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
    "a number that is to be there": Case(budget(minAvailable=2), (3, 2, 3, 1), ready=3),
    "just as many as are to be there": Case(budget(minAvailable=3), (3, 3, 3, 0), ready=3),
    "fewer than are to be there": Case(budget(minAvailable=5), (3, 5, 3, 0), ready=3),
    "pods that do not serve do not count": Case(budget(minAvailable=1), (4, 1, 2, 1), ready=2, unready=2),
    "nobody": Case(budget(minAvailable=1), (0, 1, 0, 0)),
    "nobody, and nobody is needed": Case(budget(minAvailable=0), (0, 0, 0, 0)),
    "nobody is needed": Case(budget(minAvailable=0), (2, 0, 2, 2), ready=2),
    "pods with other labels are not meant": Case(budget(minAvailable=1), (2, 1, 2, 1), ready=2, others=3),
    "an empty selector means all": Case({"selector": {}, "minAvailable": 1}, (5, 1, 5, 4), ready=2, others=3),
    "an expression": Case(
        {
            "selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
            "minAvailable": 1,
        },
        (3, 1, 3, 2),
        ready=2,
        others=3,
    ),
    "a part of pods that nobody asked for is a part of none": Case(
        budget(minAvailable="50%"), (0, 0, 3, 0), ready=3
    ),
    "so many of pods that nobody asked for": Case(budget(maxUnavailable=1), (0, 0, 3, 0), ready=3),
}


def seen(status: Object) -> Object:
    """What a status counts, and what it says about it."""
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


async def play(cluster: Cluster, namespace: str, case: Case) -> Object:
    """What the budget says in the end."""
    await arrange(cluster, namespace, case)
    for _ in range(150):
        found = seen((await cluster.get(BUDGETS, "b", namespace)).get("status") or {})
        if found == expected(case):
            break
        await asyncio.sleep(0.2)
    return found


@pytest.mark.parametrize("name", CASES)
def test_our_controller_counts(name: str) -> None:
    async def scene() -> Object:
        async with registry() as home, at_work(home, [budget_controller]):
            return await play(home, "default", CASES[name])

    assert virtually(scene) == expected(CASES[name])


@pytest.fixture(scope="module")
def on_kubernetes(k8s_controllers: ControlPlane) -> Mapping[str, Object]:
    async def play_all() -> Mapping[str, Object]:
        cluster = KubernetesCluster(from_kubeconfig(str(k8s_controllers.kubeconfig())))
        places = {name: new_namespace(k8s_controllers) for name in CASES}
        try:
            found = await asyncio.gather(*(play(cluster, places[name], CASES[name]) for name in CASES))
        finally:
            await cluster.close()
        return dict(zip(CASES, found, strict=True))

    return asyncio.run(play_all())


@pytest.mark.parametrize("name", CASES)
def test_the_controller_of_kubernetes_counts_the_same(on_kubernetes: Mapping[str, Object], name: str) -> None:
    assert on_kubernetes[name] == expected(CASES[name])


# --- pods of a controller ------------------------------------------------------------------------

SIZES = {
    "at most one away": (budget(maxUnavailable=1), 4, (4, 3, 4, 1)),
    "at most none away": (budget(maxUnavailable=0), 4, (4, 4, 4, 0)),
    "one is away already": (budget(maxUnavailable=1), 3, (4, 3, 3, 0)),
    "all may go": (budget(maxUnavailable="100%"), 4, (4, 0, 4, 4)),
    "a part that may be away is rounded up": (budget(maxUnavailable="30%"), 4, (4, 2, 4, 2)),
    "a part that is to be there is rounded up too": (budget(minAvailable="60%"), 4, (4, 3, 4, 1)),
    "more than there are may be away": (budget(maxUnavailable=9), 4, (4, 0, 4, 4)),
}


def pods_of(uid: str, number: int) -> tuple[Pod, ...]:
    owner = {"kind": "Job", "name": "j", "uid": uid, "controller": True}
    metadata = {"namespace": "default", "labels": APP, "ownerReferences": [owner]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return tuple(_pod({"metadata": metadata | {"name": f"p{k}"}, "status": status}) for k in range(number))


def _pod(raw: Object) -> Pod:
    return reader(Pod)(msgspec.json.encode(raw))


def _budget(raw: Object) -> Budget:
    return reader(Budget)(
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
def test_a_part_is_a_part_of_what_the_controller_wants(name: str) -> None:
    spec, there, counted = SIZES[name]
    view = View(budget=_budget({"spec": spec}), pods=pods_of("u", there), sizes={"u": 4})
    assert seen(patch_of(reconcile(view, BEGINNING)))["counted"] == counted


def test_a_job_says_how_many_pods_it_wants() -> None:
    async def scene() -> Object:
        async with registry() as home, at_work(home, [budget_controller]):
            template = {"spec": {"containers": [{"name": "main", "image": "b"}], "restartPolicy": "Never"}}
            spec = {"parallelism": 3, "completions": 9, "template": template}
            job = await home.create(JOBS, {"metadata": {"name": "j"}, "spec": spec})
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job["metadata"]["uid"]}
            metadata = {"name": "p", "labels": APP, "ownerReferences": [owner | {"controller": True}]}
            await home.create(PODS, {"metadata": metadata, "spec": template["spec"]})
            await home.create(BUDGETS, {"metadata": {"name": "b"}, "spec": budget(maxUnavailable=1)})
            await asyncio.sleep(5)
            return seen((await home.get(BUDGETS, "b", "default"))["status"])

    assert virtually(scene)["counted"] == (3, 2, 0, 0)


# --- evictions ------------------------------------------------------------------------------------


def test_an_eviction_is_counted_until_the_pod_is_gone_or_stays_too_long() -> None:
    async def scene() -> list[tuple[int, int]]:
        async with registry() as home, at_work(home, [budget_controller]):
            await play(home, "default", CASES["a number that is to be there"])
            evicted = {"disruptedPods": {"p0": as_text(clock())}, "disruptionsAllowed": 0}
            await home.patch_status(BUDGETS, "b", "default", patch={"status": evicted})
            found = []
            for pause in (10, 100, 30):
                await asyncio.sleep(pause)
                status = (await home.get(BUDGETS, "b", "default"))["status"]
                found.append((status["disruptionsAllowed"], len(status.get("disruptedPods", {}))))
            (event,) = (await home.list(EVENTS)).items
            assert (event["reason"], event["involvedObject"]["name"]) == ("NotDeleted", "p0")
            return found

    assert virtually(scene) == [(0, 1), (0, 1), (1, 0)]


def test_evictions_spend_what_is_allowed_and_no_more() -> None:
    async def scene() -> tuple[int, int]:
        async with registry() as home, at_work(home, [budget_controller]):
            await play(home, "default", CASES["a number that is to be there"])
            await home.evict("p0", "default")
            await asyncio.sleep(1)
            with pytest.raises(Exception, match="disruption budget"):
                await home.evict("p1", "default")
            await home.delete(PODS, "p1", "default", Deletion(grace=0))
            await asyncio.sleep(1)
            status = (await home.get(BUDGETS, "b", "default"))["status"]
            return status["currentHealthy"], status["expectedPods"]

    assert virtually(scene) == (1, 1)


PODS_OF_ALL_SORTS = st.lists(
    st.builds(
        lambda ready, leaving, owner: {
            "metadata": {
                "namespace": "default",
                "labels": APP,
                **({"deletionTimestamp": "2027-01-01T00:00:00Z"} if leaving else {}),
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


@given(PODS_OF_ALL_SORTS, st.sampled_from(["minAvailable", "maxUnavailable"]), LIMITS)
def test_taking_what_is_allowed_leaves_what_is_wanted(
    raws: list[Object], field: str, limit: int | str
) -> None:
    pods = tuple(_pod(raw | {"metadata": raw["metadata"] | {"name": f"p{k}"}}) for k, raw in enumerate(raws))
    first = _budget({"spec": budget(**{field: limit})})
    patch = patch_of(reconcile(View(budget=first, pods=pods), BEGINNING))
    allowed = patch["disruptionsAllowed"]
    assert 0 <= allowed <= patch["currentHealthy"] <= len(pods)
    assert allowed == 0 or patch["currentHealthy"] - allowed >= patch["desiredHealthy"]
    again = _budget({"spec": budget(**{field: limit}), "status": patch})
    assert reconcile(View(budget=again, pods=pods), BEGINNING + 60).stages == (), "it is written once"


def test_a_budget_without_a_selector_is_about_nobody() -> None:
    view = View(budget=Budget(metadata=Meta(name="b")), pods=())
    assert patch_of(reconcile(view, BEGINNING))["disruptionsAllowed"] == 0
