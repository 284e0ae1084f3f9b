"""Strategies: defaults, validation and immutable fields of each kind."""

from typing import Any

import pytest

from shoal.api import registry as kind_registry
from shoal.api.kinds import Kind
from shoal.cluster.errors import BadRequestError, InvalidError
from shoal.cluster.resources import (
    BUDGETS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    Object,
    Resource,
    by_kind,
)
from tests.api import test_crds
from tests.apiserver.registry.objects import config_map, job, opened, pod

OWN = [(kind, raw) for kind, raw in test_crds.VALID if kind in kind_registry.kinds()]


@pytest.mark.parametrize("kind, raw", OWN, ids=lambda value: getattr(value, "kind", ""))
async def test_our_kinds_are_pruned_and_defaulted_by_their_crds(kind: Kind, raw: Object) -> None:
    schema = test_crds.schema(kind)
    expected = test_crds.defaulted(schema, test_crds.pruned(schema, raw))
    async with opened() as registry:
        body = raw | {"metadata": {"name": "a"}, "unknown": 1}
        made = await registry.create(by_kind()[kind.api_version, kind.kind], body)
        assert made.get("spec") == expected.get("spec")
        assert set(made) - {"spec"} == {"apiVersion", "kind", "metadata"}


def at(obj: Any, path: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value at a path such as `spec/containers/0`; `~` stands for a slash in a name."""
    for step in path.split("/"):
        obj = obj[int(step)] if step.isdigit() else obj.get(step.replace("~", "/"))
    return obj


CONTAINER = "spec/containers/0"
LIMITS = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
FILLED: dict[str, tuple[Resource[Object], Object, str, object]] = {
    "a pod's restart policy": (PODS, pod(), "spec/restartPolicy", "Always"),
    "a pod's grace period": (PODS, pod(), "spec/terminationGracePeriodSeconds", 30),
    "the pull policy of an image without a tag": (PODS, pod(), f"{CONTAINER}/imagePullPolicy", "Always"),
    "the pull policy of an image with a tag": (
        PODS,
        pod(spec={"containers": [{"name": "a", "image": "host:5000/x:1"}]}),
        f"{CONTAINER}/imagePullPolicy",
        "IfNotPresent",
    ),
    "the pull policy of an image with a digest": (
        PODS,
        pod(spec={"containers": [{"name": "a", "image": "x@sha256:0"}]}),
        f"{CONTAINER}/imagePullPolicy",
        "IfNotPresent",
    ),
    "limits are default requests": (
        PODS,
        pod(spec={"containers": [{"name": "a", "image": "x"} | LIMITS]}),
        f"{CONTAINER}/resources/requests",
        {"cpu": "1", "memory": "1Gi"},
    ),
    "QoS class Guaranteed": (
        PODS,
        pod(spec={"containers": [{"name": "a", "image": "x"} | LIMITS]}),
        "status/qosClass",
        "Guaranteed",
    ),
    "QoS class Burstable": (
        PODS,
        pod(spec={"containers": [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}),
        "status/qosClass",
        "Burstable",
    ),
    "QoS class BestEffort": (PODS, pod(), "status/qosClass", "BestEffort"),
    "host ports with hostNetwork": (
        PODS,
        pod(
            spec={
                "hostNetwork": True,
                "containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 80}]}],
            }
        ),
        f"{CONTAINER}/ports",
        [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}],
    ),
    "probes": (
        PODS,
        pod(spec={"containers": [{"name": "a", "image": "x", "livenessProbe": {"httpGet": {"port": 1}}}]}),
        f"{CONTAINER}/livenessProbe/httpGet",
        {"port": 1, "path": "/", "scheme": "HTTP"},
    ),
    "a volume without a source": (
        PODS,
        pod(spec={"volumes": [{"name": "v"}]}),
        "spec/volumes",
        [{"name": "v", "emptyDir": {}}],
    ),
    "nulls and empty lists are absent": (
        PODS,
        pod(spec={"tolerations": [], "hostname": None}),
        "spec/hostname",
        None,
    ),
    "unknown fields are dropped": (PODS, pod(spec={"colour": "red"}), "spec/colour", None),
    "a job without counts": (JOBS, job(), "spec/completions", 1),
    "a job without completions": (JOBS, job(parallelism=2), "spec/completions", None),
    "labels and selector of a job": (
        JOBS,
        job(),
        "spec/template/metadata/labels/batch.kubernetes.io~job-name",
        "j",
    ),
    "a headless service": (
        SERVICES,
        {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
        "spec/ports",
        [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    ),
    "an ExternalName service": (
        SERVICES,
        {"metadata": {"name": "s"}, "spec": {"type": "ExternalName", "externalName": "a.b"}},
        "spec/sessionAffinity",
        "None",
    ),
    "the allocatable of a node": (
        NODES,
        {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}},
        "status/allocatable",
        {"cpu": "4"},
    ),
    "the status of a new budget": (
        BUDGETS,
        {"metadata": {"name": "b"}, "spec": {}, "status": {"disruptionsAllowed": 9}},
        "status/disruptionsAllowed",
        0,
    ),
    "a PriorityClass's preemption policy": (
        PRIORITY_CLASSES,
        {"metadata": {"name": "c"}, "value": 1},
        "preemptionPolicy",
        "PreemptLowerPriority",
    ),
    "stringData of a secret": (
        SECRETS,
        {"metadata": {"name": "s"}, "stringData": {"a": "b"}},
        "data",
        {"a": "Yg=="},
    ),
    "timestamps of an event": (
        EVENTS,
        {"metadata": {"name": "e"}, "involvedObject": {}},
        "reportingComponent",
        "",
    ),
}


@pytest.mark.parametrize("case", FILLED)
async def test_defaults(case: str) -> None:
    resource, body, path, expected = FILLED[case]
    async with opened() as registry:
        made = await registry.create(resource, body)
        assert at(made, path) == expected
        assert await registry.update(resource, made) == made, "what is filled in stays as it is"


def pod_requesting(resources: Object) -> Object:
    """Return a pod with resource requests."""
    container = {"name": "a", "image": "b", "resources": resources}
    return {"metadata": {"name": "a"}, "spec": {"containers": [container]}}


def pod_mounting(volumes: list[Object], *mounts: Object) -> Object:
    """Return a pod with volumes."""
    container = {"name": "a", "image": "b", "volumeMounts": list(mounts)}
    return {"metadata": {"name": "a"}, "spec": {"containers": [container], "volumes": volumes}}


WRONG: dict[str, tuple[Resource[Object], Object, type[Exception], list[str]]] = {
    "all errors together": (
        PODS,
        {"metadata": {"name": "A"}, "spec": {"containers": [{"name": "B"}], "restartPolicy": "x"}},
        InvalidError,
        ["metadata.name", "spec.containers[0].image", "spec.containers[0].name", "spec.restartPolicy"],
    ),
    "all wrong types together": (
        PODS,
        {"metadata": {"name": "a", "labels": {"b": 1}}, "spec": {"containers": 5, "hostNetwork": "x"}},
        BadRequestError,
        ["metadata.labels.b", "spec.containers", "spec.hostNetwork"],
    ),
    "an extended resource without a limit": (
        PODS,
        pod_requesting({"requests": {"nvidia.com/gpu": "1"}}),
        InvalidError,
        ["spec.containers[0].resources.limits[nvidia.com/gpu]"],
    ),
    "an extended resource whose limit differs": (
        PODS,
        pod_requesting({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}),
        InvalidError,
        ["spec.containers[0].resources.limits[nvidia.com/gpu]"],
    ),
    "volumes with invalid sources": (
        PODS,
        pod_mounting(
            [
                {"name": "../../x"},
                {"name": "b", "secret": {"secretName": "s", "items": [{"key": "k", "path": "/etc/x"}]}},
                {"name": "c", "downwardAPI": {"items": [{"path": "a/../../x"}]}},
                {"name": "d", "projected": {"sources": [{"configMap": {"items": [{"path": "../x"}]}}]}},
                {"name": "e", "hostPath": {"path": "/a/../b"}},
            ]
        ),
        InvalidError,
        [
            "spec.volumes[0].name",
            "spec.volumes[1].secret.items[0].path",
            "spec.volumes[2].downwardAPI.items[0].path",
            "spec.volumes[3].projected.sources[0].configMap.items[0].key",
            "spec.volumes[3].projected.sources[0].configMap.items[0].path",
            "spec.volumes[4].hostPath.path",
        ],
    ),
    "invalid volume mounts": (
        PODS,
        pod_mounting(
            [{"name": "v"}, {"name": "v"}],
            {"name": "w", "mountPath": "/a"},
            {"name": "v", "mountPath": "/a", "subPath": "../x"},
            {"name": "v", "subPathExpr": "/x"},
            {"name": "v", "mountPath": "/b", "subPath": "x", "subPathExpr": "y"},
        ),
        InvalidError,
        [
            "spec.containers[0].volumeMounts[0].name",
            "spec.containers[0].volumeMounts[1].mountPath",
            "spec.containers[0].volumeMounts[1].subPath",
            "spec.containers[0].volumeMounts[2].mountPath",
            "spec.containers[0].volumeMounts[2].subPathExpr",
            "spec.containers[0].volumeMounts[3].subPathExpr",
            "spec.volumes[1].name",
        ],
    ),
    "no spec": (PODS, {"metadata": {"name": "a"}}, InvalidError, ["spec"]),
    "duplicate container names": (
        PODS,
        pod(spec={"containers": [{"name": "a", "image": "x"}] * 2}),
        InvalidError,
        ["spec.containers[1].name"],
    ),
    "a job with restart policy Always": (
        JOBS,
        {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod()["spec"]}}},
        InvalidError,
        ["spec.template.spec.restartPolicy"],
    ),
    "a selector without manualSelector": (
        JOBS,
        job(selector={"matchLabels": {"a": "b"}}),
        InvalidError,
        ["spec.selector"],
    ),
    "manualSelector without a selector": (JOBS, job(manualSelector=True), InvalidError, ["spec.selector"]),
    "a key that is not a file name": (
        CONFIG_MAPS,
        config_map(data={"a b": "c"}),
        InvalidError,
        ["data[a b]"],
    ),
    "a duplicate key": (
        CONFIG_MAPS,
        config_map() | {"binaryData": {"a": "Yg=="}},
        InvalidError,
        ["binaryData.a"],
    ),
    "several ports without names": (
        SERVICES,
        {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}, {"port": 2}]}},
        InvalidError,
        ["spec.ports[0].name", "spec.ports[1].name", "spec.ports[1].name"],
    ),
    "an event of another namespace": (
        EVENTS,
        {"metadata": {"name": "e"}, "involvedObject": {"namespace": "other"}},
        InvalidError,
        ["involvedObject.namespace"],
    ),
    "two controller references": (
        CONFIG_MAPS,
        config_map(
            ownerReferences=[
                {"apiVersion": "v1", "kind": "Node", "name": n, "uid": n, "controller": True} for n in "ab"
            ]
        ),
        InvalidError,
        ["metadata.ownerReferences"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
async def test_errors_name_their_field(case: str) -> None:
    resource, body, error, paths = WRONG[case]
    async with opened() as registry:
        with pytest.raises(error) as caught:
            await registry.create(resource, body)
        assert [cause.path for cause in caught.value.causes] == paths  # type: ignore[attr-defined]


JOB_CHANGES: dict[str, tuple[Object, bool]] = {
    "a larger parallelism": ({"parallelism": 3}, True),
    "a larger back-off limit": ({"backoffLimit": 2}, True),
    "resume": ({"suspend": False}, True),
    "another node selector before the start": ({"template": {"spec": {"nodeSelector": {"a": "b"}}}}, True),
    "another template": ({"template": {"spec": {"dnsPolicy": "Default"}}}, False),
    "more completions": ({"completions": 3}, False),
    "another completion mode": ({"completionMode": "Indexed"}, False),
    "no selector": ({"selector": None}, False),
}


@pytest.mark.parametrize("case", JOB_CHANGES)
async def test_mutable_fields_of_a_job(case: str) -> None:
    spec, allowed = JOB_CHANGES[case]
    async with opened() as registry:
        await registry.create(JOBS, job(suspend=True))
        if allowed:
            assert (await registry.patch(JOBS, "j", patch={"spec": spec}))["metadata"]["generation"] == 2
        else:
            with pytest.raises(InvalidError, match="immutable"):
                await registry.patch(JOBS, "j", patch={"spec": spec})


async def test_immutable_data_cannot_change() -> None:
    async with opened() as registry:
        await registry.create(CONFIG_MAPS, config_map() | {"immutable": True})
        with pytest.raises(InvalidError, match="data: field is immutable"):
            await registry.patch(CONFIG_MAPS, "c", patch={"data": {"a": "other"}})
        await registry.patch(CONFIG_MAPS, "c", patch={"metadata": {"labels": {"a": "b"}}})
