"""The port on a real API server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from shoal.cluster import errors
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.kubeconfig import from_kubeconfig
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS
from tests.k8s.controlplane import ControlPlane

Action = Callable[[Cluster, str], Awaitable[Any]]


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


async def wait_for_next_event(cluster: Cluster, pod: dict[str, Any]) -> None:
    """Wait for the event of the next change of a pod: the API server decides on deletions by its watch cache.

    A pod that is not bound in that cache is deleted at once.
    """
    selector = Selector(pod["metadata"]["namespace"], fields=f"metadata.name={pod['metadata']['name']}")
    async with cluster.watch(PODS, selector, version=pod["metadata"]["resourceVersion"]) as events:
        await anext(events)


async def test_writes_are_read_back(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1"))
    assert await cluster.get(CONFIG_MAPS, "a", namespace) == created
    changed = await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"data": {"x": None, "y": "2"}})
    assert changed["data"] == {"y": "2"}
    replaced = await cluster.update(CONFIG_MAPS, config_map(namespace, "a", z="3"))
    assert replaced["data"] == {"z": "3"}
    page = await cluster.list(CONFIG_MAPS, Selector(namespace))
    assert page.items == [replaced]


async def test_pages_show_one_version(cluster: Cluster, namespace: str) -> None:
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


async def test_a_watch_sends_changes_and_ends_after_its_timeout(cluster: Cluster, namespace: str) -> None:
    page = await cluster.list(CONFIG_MAPS, Selector(namespace))
    created = await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    gone = await cluster.delete(CONFIG_MAPS, "a", namespace)
    async with cluster.watch(CONFIG_MAPS, Selector(namespace), version=page.version, timeout=0.2) as events:
        received = [event async for event in events]
    assert gone is None
    assert [event.type for event in received][:2] == ["ADDED", "DELETED"]
    assert received[0].object == created
    assert received[0].version == created["metadata"]["resourceVersion"]
    assert all(event.object is None and event.version for event in received[2:])


async def test_selectors(cluster: Cluster, namespace: str) -> None:
    for name, team in (("a", "x"), ("b", "y")):
        await cluster.create(PODS, pod(namespace, name, labels={"team": team}))
    by_label = await cluster.list(PODS, Selector(namespace, labels="team in (y, z)"))
    by_field = await cluster.list(PODS, Selector(namespace, fields="metadata.name=a"))
    assert [item["metadata"]["name"] for item in by_label.items + by_field.items] == ["b", "a"]


async def test_a_bound_pod_stays_until_its_kubelet_deletes_it(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(PODS, pod(namespace, "a"))
    await cluster.bind("a", namespace, "somewhere", uid=created["metadata"]["uid"])
    await wait_for_next_event(cluster, created)
    ending = await cluster.delete(PODS, "a", namespace)
    assert ending is not None
    assert ending["spec"]["nodeName"] == "somewhere"
    assert await cluster.delete(PODS, "a", namespace, Deletion(grace=0)) is None


async def test_immediate_deletions_return_none(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod(namespace, "a"))
    assert await cluster.delete(PODS, "a", namespace) is None
    await cluster.create(PODS, pod(namespace, "b"))
    await cluster.evict("b", namespace)
    assert (await cluster.list(PODS, Selector(namespace))).items == []


async def test_an_object_with_finalizers_stays(cluster: Cluster, namespace: str) -> None:
    body = config_map(namespace, "a")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    await cluster.create(CONFIG_MAPS, body)
    ending = await cluster.delete(CONFIG_MAPS, "a", namespace)
    assert ending is not None
    assert "deletionTimestamp" in ending["metadata"]


async def test_a_namespace_is_terminating(cluster: Cluster, namespace: str) -> None:
    ending = await cluster.delete(NAMESPACES, namespace)
    assert ending is not None
    assert ending["status"]["phase"] == "Terminating"


async def test_a_dry_run_changes_nothing(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"), dry_run=True)
    await cluster.create(CONFIG_MAPS, config_map(namespace, "b"))
    await cluster.patch(CONFIG_MAPS, "b", namespace, patch={"data": {"x": "1"}}, dry_run=True)
    await cluster.delete(CONFIG_MAPS, "b", namespace, Deletion(dry_run=True))
    (stored,) = (await cluster.list(CONFIG_MAPS, Selector(namespace))).items
    assert (stored["metadata"]["name"], "data" in stored) == ("b", False)


async def bind_twice(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod(namespace, "a"))
    await cluster.bind("a", namespace, "n1")
    await cluster.bind("a", namespace, "n1")


async def bind_other_uid(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod(namespace, "a"))
    await cluster.bind("a", namespace, "n1", uid="other")


async def create_twice(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))


async def update_old_version(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"data": {"x": "1"}})
    await cluster.update(CONFIG_MAPS, created)


async def delete_other_uid(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    await cluster.delete(CONFIG_MAPS, "a", namespace, Deletion(uid="other"))


async def watch_invalid_version(cluster: Cluster, namespace: str) -> None:
    async with cluster.watch(CONFIG_MAPS, Selector(namespace), version="yesterday") as events:
        await anext(events)


ERRORS: dict[str, tuple[Action, type[errors.ClusterError], str]] = {
    "a bound pod is not bound again": (bind_twice, errors.ConflictError, "already assigned"),
    "a pod with another uid is not bound": (bind_other_uid, errors.ConflictError, "UID in precondition"),
    "a name is taken": (create_twice, errors.AlreadyExistsError, 'configmaps "a" already exists'),
    "the object has changed since": (update_old_version, errors.ConflictError, "has been modified"),
    "an object with another uid is not deleted": (delete_other_uid, errors.ConflictError, "the UID in the"),
    "an unknown name": (
        lambda cluster, namespace: cluster.get(CONFIG_MAPS, "x", namespace),
        errors.NotFoundError,
        'configmaps "x" not found',
    ),
    "an unknown pod cannot be evicted": (
        lambda cluster, namespace: cluster.evict("x", namespace),
        errors.NotFoundError,
        "not found",
    ),
    "an empty name does not mean the collection": (
        lambda cluster, namespace: cluster.delete(CONFIG_MAPS, "", namespace),
        errors.BadRequestError,
        "may not be empty",
    ),
    "a name that is a path": (
        lambda cluster, _: cluster.delete(NAMESPACES, "../nodes"),
        errors.BadRequestError,
        "invalid resource name",
    ),
    "an invalid object": (
        lambda cluster, _: cluster.create(NODES, {"metadata": {"name": "_"}}),
        errors.InvalidError,
        "metadata.name",
    ),
    "an invalid selector": (
        lambda cluster, namespace: cluster.list(PODS, Selector(namespace, labels="a in")),
        errors.BadRequestError,
        "unable to parse",
    ),
    "an invalid version": (watch_invalid_version, errors.InternalError, "yesterday"),
    "an invalid continue token": (
        lambda cluster, _: cluster.list(PODS, start="invalid"),
        errors.BadRequestError,
        "continue",
    ),
}


@pytest.mark.parametrize("action, error, message", ERRORS.values(), ids=ERRORS)
async def test_errors(
    cluster: Cluster, namespace: str, action: Action, error: type[errors.ClusterError], message: str
) -> None:
    with pytest.raises(error, match=message):
        await action(cluster, namespace)


async def test_a_user_without_permissions(k8s: ControlPlane, namespace: str) -> None:
    nobody = KubernetesCluster(from_kubeconfig(str(k8s.kubeconfig("nobody"))))
    with pytest.raises(errors.ForbiddenError, match='User "nobody" cannot list resource "pods"'):
        await nobody.list(PODS, Selector(namespace))
    await nobody.close()
