"""The official Python client: typed objects, custom objects, watches."""

from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest

from tests.apiserver.http.api_server import Embedded

client: Any = kubernetes.client
watch: Any = kubernetes.watch
config_of: Any = kubernetes.config.load_kube_config
"""The types of the client declare every field optional."""

TYJOBS: dict[str, Any] = {"group": "tyrl.io", "version": "v1alpha1", "plural": "tyjobs"}
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
def api_client(api: Embedded) -> Iterator[Any]:
    config = client.Configuration()
    config_of(str(api.kubeconfig()), client_configuration=config)
    with client.ApiClient(config) as made:
        yield made


def pod(name: str) -> Any:  # noqa: ANN401 - a V1Pod
    container = client.V1Container(name="c", image="i", env=[client.V1EnvVar(name="A", value="1")])
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels={"app": "x"}),
        spec=client.V1PodSpec(containers=[container]),
    )


def test_typed_objects_are_created_read_updated_and_deleted(api_client: Any, space: str) -> None:  # noqa: ANN401 - the client
    core = client.CoreV1Api(api_client)
    made = core.create_namespaced_pod(space, pod("a"))
    assert made.spec.containers[0].env[0].value == "1"
    assert [
        found.metadata.name for found in core.list_namespaced_pod(space, label_selector="app=x").items
    ] == ["a"]
    patched = core.patch_namespaced_pod("a", space, {"metadata": {"labels": {"more": "y"}}})
    assert patched.metadata.labels == {"app": "x", "more": "y"}
    patched.metadata.labels = {"only": "this"}
    assert core.replace_namespaced_pod("a", space, patched).metadata.labels == {"only": "this"}
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    assert core.patch_namespaced_pod_status("a", space, status).status.phase == "Running"
    core.delete_namespaced_pod("a", space, grace_period_seconds=0)
    with pytest.raises(client.ApiException) as gone:
        core.read_namespaced_pod("a", space)
    assert gone.value.status == 404


def test_a_conflict_is_reported(api_client: Any, space: str) -> None:  # noqa: ANN401 - the client
    core = client.CoreV1Api(api_client)
    made = core.create_namespaced_config_map(
        space, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"))
    )
    core.patch_namespaced_config_map("a", space, {"data": {"x": "y"}})
    with pytest.raises(client.ApiException) as conflict:
        core.replace_namespaced_config_map("a", space, made)
    assert (conflict.value.status, "Conflict" in conflict.value.body) == (409, True)


def test_jobs_events_leases_and_budgets(api_client: Any, space: str) -> None:  # noqa: ANN401 - the client
    template = client.V1PodTemplateSpec(
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")], restart_policy="Never")
    )
    job = client.V1Job(
        metadata=client.V1ObjectMeta(name="j"), spec=client.V1JobSpec(template=template, completions=2)
    )
    assert client.BatchV1Api(api_client).create_namespaced_job(space, job).spec.completions == 2
    lease = client.V1Lease(
        metadata=client.V1ObjectMeta(name="l"), spec=client.V1LeaseSpec(holder_identity="me")
    )
    made = client.CoordinationV1Api(api_client).create_namespaced_lease(space, lease)
    assert made.spec.holder_identity == "me"


def test_bindings_and_evictions(api_client: Any, space: str) -> None:  # noqa: ANN401 - the client
    core = client.CoreV1Api(api_client)
    core.create_node(client.V1Node(metadata=client.V1ObjectMeta(name=f"node-{space}")))
    core.create_namespaced_pod(space, pod("a"))
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name="a"),
        target=client.V1ObjectReference(kind="Node", name=f"node-{space}"),
    )
    core.create_namespaced_pod_binding("a", space, binding, _preload_content=False)
    assert core.read_namespaced_pod("a", space).spec.node_name == f"node-{space}"
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="a"))
    core.create_namespaced_pod_eviction("a", space, eviction)
    assert core.read_namespaced_pod("a", space).metadata.deletion_timestamp


def test_custom_objects(api_client: Any, space: str) -> None:  # noqa: ANN401 - the client
    custom = client.CustomObjectsApi(api_client)
    body = {
        "apiVersion": "tyrl.io/v1alpha1",
        "kind": "TYJob",
        "metadata": {"name": "t"},
        "spec": {
            "leader": {"name": "l", "template": TEMPLATE},
            "workerSets": [{"name": "w", "counts": 2, "template": TEMPLATE}],
        },
    }
    made = custom.create_namespaced_custom_object(namespace=space, body=body, **TYJOBS)
    assert made["spec"]["priority"] == 5
    status = custom.patch_namespaced_custom_object_status(
        namespace=space, name="t", body={"status": {"stage": "Running"}}, **TYJOBS
    )
    assert status["status"]["stage"] == "Running"
    listed = custom.list_namespaced_custom_object(namespace=space, **TYJOBS)
    assert [found["metadata"]["name"] for found in listed["items"]] == ["t"]
    custom.delete_namespaced_custom_object(namespace=space, name="t", **TYJOBS)


def test_a_watch_reports_changes(api_client: Any, space: str) -> None:  # noqa: ANN401 - the client
    core, watching, seen = client.CoreV1Api(api_client), watch.Watch(), []
    core.create_namespaced_pod(space, pod("a"))
    for event in watching.stream(core.list_namespaced_pod, space, timeout_seconds=60):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "ADDED":
            core.delete_namespaced_pod("a", space, grace_period_seconds=0)
        else:
            watching.stop()
    assert seen == [("ADDED", "a"), ("DELETED", "a")]
