"""Pods: defaults, QoS class and mutable fields."""

import pytest

from shoal.cluster.errors import InvalidError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import PODS, Object
from tests.conformance.cases import cases
from tests.conformance.objects import CONTAINER, pod

GATES = [{"name": "example.com/a"}, {"name": "example.com/b"}]
TOLERATION = {"key": "a", "operator": "Exists", "effect": "NoSchedule"}

DEFAULTS: list[tuple[str, Object, Object]] = [
    ("the policies", {}, {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}),
    ("the scheduler", {}, {"schedulerName": "default-scheduler"}),
    ("the grace period", {"terminationGracePeriodSeconds": None}, {"terminationGracePeriodSeconds": 30}),
    (
        "one second for a negative grace period",
        {"terminationGracePeriodSeconds": -5},
        {"terminationGracePeriodSeconds": 1},
    ),
    (
        "given values are kept",
        {"schedulerName": "shoal", "restartPolicy": "Never"},
        {"schedulerName": "shoal", "restartPolicy": "Never"},
    ),
]


@cases("spec, expected", DEFAULTS)
async def test_defaults_of_a_new_pod(
    cluster: Cluster, namespace: str, spec: Object, expected: Object
) -> None:
    made = await cluster.create(PODS, pod("a", namespace, **spec))
    assert {**made["spec"], **expected} == made["spec"]


RESOURCES: list[tuple[str, Object, str]] = [
    ("no requests", {}, "BestEffort"),
    ("a request", {"requests": {"cpu": "1"}}, "Burstable"),
    ("limits for CPU and memory", {"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ("an extended resource only", {"limits": {"example.com/gpu": "1"}}, "BestEffort"),
]


@cases("resources, qos_class", RESOURCES)
async def test_qos_class(cluster: Cluster, namespace: str, resources: Object, qos_class: str) -> None:
    made = await cluster.create(PODS, pod("a", namespace, containers=[{**CONTAINER, "resources": resources}]))
    assert made["status"]["qosClass"] == qos_class
    limits = resources.get("limits", {})
    requests = {**limits, **resources.get("requests", {})}
    assert made["spec"]["containers"][0]["resources"].get("requests", {}) == requests


CHANGES: list[tuple[str, Object, Object, bool]] = [
    ("image", {}, {"containers": [{**CONTAINER, "image": "other"}]}, True),
    ("command", {}, {"containers": [{**CONTAINER, "command": ["a"]}]}, False),
    ("nodeName", {}, {"nodeName": "n1"}, False),
    ("nodeSelector", {}, {"nodeSelector": {"a": "b"}}, False),
    ("nodeSelector while gated", {"schedulingGates": GATES}, {"nodeSelector": {"a": "b"}}, True),
    ("one scheduling gate less", {"schedulingGates": GATES}, {"schedulingGates": GATES[:1]}, True),
    ("one scheduling gate more", {"schedulingGates": GATES[:1]}, {"schedulingGates": GATES}, False),
    ("a first scheduling gate", {}, {"schedulingGates": GATES[:1]}, False),
    ("schedulerName", {}, {"schedulerName": "other"}, False),
    ("priority", {}, {"priority": 5}, False),
    ("restartPolicy", {}, {"restartPolicy": "Never"}, False),
    ("terminationGracePeriodSeconds", {}, {"terminationGracePeriodSeconds": 5}, False),
    ("a first deadline", {}, {"activeDeadlineSeconds": 5}, True),
    ("an earlier deadline", {"activeDeadlineSeconds": 50}, {"activeDeadlineSeconds": 5}, True),
    ("a later deadline", {"activeDeadlineSeconds": 50}, {"activeDeadlineSeconds": 500}, False),
    (
        "one toleration more",
        {"tolerations": [TOLERATION]},
        {"tolerations": [TOLERATION, {**TOLERATION, "key": "b"}]},
        True,
    ),
    (
        "another toleration",
        {"tolerations": [TOLERATION]},
        {"tolerations": [{**TOLERATION, "key": "b"}]},
        False,
    ),
    ("one container more", {}, {"containers": [CONTAINER, {**CONTAINER, "name": "b"}]}, False),
]


async def test_a_pod_can_be_updated_with_its_original_manifest(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, pod("a", namespace))
    written = pod("a", namespace, containers=[{**CONTAINER, "image": "other"}])
    replaced = await cluster.update(PODS, written)
    assert replaced["spec"] == {**made["spec"], "containers": replaced["spec"]["containers"]}
    assert replaced["spec"]["containers"][0]["image"] == "other"


@cases("spec, change, good", CHANGES)
async def test_mutable_fields_of_a_pod(
    cluster: Cluster,
    namespace: str,
    spec: Object,
    change: Object,
    good: bool,  # noqa: FBT001 - a case
) -> None:
    made = await cluster.create(PODS, pod("a", namespace, **spec))
    if good:
        patched = await cluster.patch(PODS, "a", namespace, patch={"spec": change})
        assert patched["metadata"]["generation"] == 2
    else:
        with pytest.raises(InvalidError) as refused:
            await cluster.patch(PODS, "a", namespace, patch={"spec": change})
        assert all(cause.path.startswith("spec") for cause in refused.value.causes)
        assert await cluster.get(PODS, "a", namespace) == made


async def test_labels_of_a_pod_may_change(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod("a", namespace, labels={"a": "1"}))
    patch = {"metadata": {"labels": {"a": None, "b": "2"}, "annotations": {"c": "3"}}}
    patched = await cluster.patch(PODS, "a", namespace, patch=patch)
    assert patched["metadata"]["labels"] == {"b": "2"}
