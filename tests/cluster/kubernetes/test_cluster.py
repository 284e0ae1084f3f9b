"""The home on a real API server: what Kubernetes answers, in the words of the port."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from shoal.cluster import errors
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS
from tests.k8s.controlplane import ControlPlane

Refused = Callable[[Cluster, str], Awaitable[Any]]


@pytest.fixture
async def cluster(k8s: ControlPlane) -> AsyncIterator[KubernetesCluster]:
    found = KubernetesCluster(from_kubeconfig(str(k8s.kubeconfig())))
    yield found
    await found.close()


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


def pod(namespace: str, name: str, **metadata: object) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "none"}]}
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec}


async def seen_by_watchers(cluster: Cluster, pod: dict[str, Any]) -> None:
    """Wait for the next change of a pod to be told: the API server judges deletions by what it has told.

    A pod that it does not yet know to have a node it ends at once.
    """
    where = Selector(pod["metadata"]["namespace"], fields=f"metadata.name={pod['metadata']['name']}")
    async with cluster.watch(PODS, where, version=pod["metadata"]["resourceVersion"]) as events:
        await anext(events)


async def test_what_is_written_is_read_again(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1"))
    assert await cluster.get(CONFIG_MAPS, "a", namespace) == made
    changed = await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"data": {"x": None, "y": "2"}})
    assert changed["data"] == {"y": "2"}
    replaced = await cluster.update(CONFIG_MAPS, config_map(namespace, "a", z="3"))
    assert replaced["data"] == {"z": "3"}
    page = await cluster.list(CONFIG_MAPS, Selector(namespace))
    assert page.items == [replaced]


async def test_pages_show_one_state(cluster: Cluster, namespace: str) -> None:
    for name in "abcde":
        await cluster.create(CONFIG_MAPS, config_map(namespace, name))
    first = await cluster.list(CONFIG_MAPS, Selector(namespace), limit=2)
    await cluster.delete(CONFIG_MAPS, "e", namespace)
    second = await cluster.list(CONFIG_MAPS, Selector(namespace), limit=2, start=first.next)
    third = await cluster.list(CONFIG_MAPS, Selector(namespace), limit=2, start=second.next)
    found = [item["metadata"]["name"] for page in (first, second, third) for item in page.items]
    assert found == list("abcde")
    assert (first.remaining, third.next) == (3, "")
    assert first.version == second.version == third.version


async def test_a_watch_tells_what_changes_and_ends_in_time(cluster: Cluster, namespace: str) -> None:
    page = await cluster.list(CONFIG_MAPS, Selector(namespace))
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    gone = await cluster.delete(CONFIG_MAPS, "a", namespace)
    async with cluster.watch(CONFIG_MAPS, Selector(namespace), version=page.version, timeout=0.2) as events:
        told = [event async for event in events]
    assert gone is None
    assert [event.type for event in told][:2] == ["ADDED", "DELETED"]
    assert told[0].object == made
    assert told[0].version == made["metadata"]["resourceVersion"]
    assert all(event.object is None and event.version for event in told[2:])


async def test_selectors_choose(cluster: Cluster, namespace: str) -> None:
    for name, team in (("a", "x"), ("b", "y")):
        await cluster.create(PODS, pod(namespace, name, labels={"team": team}))
    by_label = await cluster.list(PODS, Selector(namespace, labels="team in (y, z)"))
    by_field = await cluster.list(PODS, Selector(namespace, fields="metadata.name=a"))
    assert [item["metadata"]["name"] for item in by_label.items + by_field.items] == ["b", "a"]


async def test_a_pod_with_a_node_stays_until_its_node_has_ended_it(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, pod(namespace, "a"))
    await cluster.bind("a", namespace, "somewhere", uid=made["metadata"]["uid"])
    await seen_by_watchers(cluster, made)
    ending = await cluster.delete(PODS, "a", namespace)
    assert ending is not None
    assert ending["spec"]["nodeName"] == "somewhere"
    assert await cluster.delete(PODS, "a", namespace, Deletion(grace=0)) is None


async def test_what_goes_at_once_is_gone(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod(namespace, "a"))
    assert await cluster.delete(PODS, "a", namespace) is None
    await cluster.create(PODS, pod(namespace, "b"))
    await cluster.evict("b", namespace)
    assert (await cluster.list(PODS, Selector(namespace))).items == []


async def test_finalizers_keep_an_object(cluster: Cluster, namespace: str) -> None:
    body = config_map(namespace, "a")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    await cluster.create(CONFIG_MAPS, body)
    ending = await cluster.delete(CONFIG_MAPS, "a", namespace)
    assert ending is not None
    assert "deletionTimestamp" in ending["metadata"]


async def test_a_namespace_takes_its_time_to_end(cluster: Cluster, namespace: str) -> None:
    ending = await cluster.delete(NAMESPACES, namespace)
    assert ending is not None
    assert ending["status"]["phase"] == "Terminating"


async def test_nothing_comes_of_a_dry_run(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"), dry_run=True)
    await cluster.create(CONFIG_MAPS, config_map(namespace, "b"))
    await cluster.patch(CONFIG_MAPS, "b", namespace, patch={"data": {"x": "1"}}, dry_run=True)
    await cluster.delete(CONFIG_MAPS, "b", namespace, Deletion(dry_run=True))
    (kept,) = (await cluster.list(CONFIG_MAPS, Selector(namespace))).items
    assert (kept["metadata"]["name"], "data" in kept) == ("b", False)


async def bind_twice(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod(namespace, "a"))
    await cluster.bind("a", namespace, "n1")
    await cluster.bind("a", namespace, "n1")


async def bind_another(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod(namespace, "a"))
    await cluster.bind("a", namespace, "n1", uid="of-another")


async def create_twice(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))


async def update_the_past(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"data": {"x": "1"}})
    await cluster.update(CONFIG_MAPS, made)


async def delete_another(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    await cluster.delete(CONFIG_MAPS, "a", namespace, Deletion(uid="of-another"))


async def watch_nonsense(cluster: Cluster, namespace: str) -> None:
    async with cluster.watch(CONFIG_MAPS, Selector(namespace), version="yesterday") as events:
        await anext(events)


REFUSALS: dict[str, tuple[Refused, type[errors.ClusterError], str]] = {
    "a pod that has a node gets no other": (bind_twice, errors.ConflictError, "already assigned"),
    "a pod of another uid is not bound": (bind_another, errors.ConflictError, "UID in precondition"),
    "a name is taken": (create_twice, errors.AlreadyExistsError, 'configmaps "a" already exists'),
    "the object has changed since": (update_the_past, errors.ConflictError, "has been modified"),
    "an object of another uid is not deleted": (delete_another, errors.ConflictError, "the UID in the"),
    "nobody is called so": (
        lambda cluster, namespace: cluster.get(CONFIG_MAPS, "x", namespace),
        errors.NotFoundError,
        'configmaps "x" not found',
    ),
    "a pod that is not there cannot be evicted": (
        lambda cluster, namespace: cluster.evict("x", namespace),
        errors.NotFoundError,
        "not found",
    ),
    "no name means no object, and not all of them": (
        lambda cluster, namespace: cluster.delete(CONFIG_MAPS, "", namespace),
        errors.BadRequestError,
        "may not be empty",
    ),
    "a name leads nowhere else": (
        lambda cluster, _: cluster.delete(NAMESPACES, "../nodes"),
        errors.BadRequestError,
        "invalid resource name",
    ),
    "an object that is wrong": (
        lambda cluster, _: cluster.create(NODES, {"metadata": {"name": "_"}}),
        errors.InvalidError,
        "metadata.name",
    ),
    "a selector that is none": (
        lambda cluster, namespace: cluster.list(PODS, Selector(namespace, labels="a in")),
        errors.BadRequestError,
        "unable to parse",
    ),
    "a watch from no version": (watch_nonsense, errors.InternalError, "yesterday"),
    "a page after no page": (
        lambda cluster, _: cluster.list(PODS, start="nonsense"),
        errors.BadRequestError,
        "continue",
    ),
}


@pytest.mark.parametrize("act, error, words", REFUSALS.values(), ids=REFUSALS)
async def test_refusals(
    cluster: Cluster, namespace: str, act: Refused, error: type[errors.ClusterError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await act(cluster, namespace)


async def test_who_may_not_is_told_so(k8s: ControlPlane, namespace: str) -> None:
    nobody = KubernetesCluster(from_kubeconfig(str(k8s.kubeconfig("nobody"))))
    with pytest.raises(errors.ForbiddenError, match='User "nobody" cannot list resource "pods"'):
        await nobody.list(PODS, Selector(namespace))
    await nobody.close()
