"""Pods that cannot run on this machine are rejected at submission, with field paths."""

from typing import Any

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.strategies.table import strategies
from shoal.cluster.errors import InvalidError
from shoal.cluster.resources import JOBS, PODS, Object, Resource, resource_of
from shoal.embedded.store import with_pod_validation
from shoal.kubelet.admission import pod_validator, validate_pods
from shoal.kubelet.runtime import RuntimeFeatures

ALL_FEATURES = RuntimeFeatures(mounts=True, cgroups="v2", users=True, notes=[])
NO_FEATURES = RuntimeFeatures(mounts=False, cgroups="", users=False, notes=["no user namespaces"])
UNSUPPORTED = "not supported in the embedded home"
FIRST = "spec.containers[0]"


def container(**more: object) -> Object:
    return {"name": "main", "image": "x", "command": ["true"], **more}


def pod(*containers: Object, **spec: object) -> Object:
    return {"metadata": {"name": "a"}, "spec": {"containers": list(containers) or [container()], **spec}}


def volume(**kind: object) -> Object:
    return pod(volumes=[{"name": "v", **kind}])


def errors_of(
    obj: Object, features: RuntimeFeatures = ALL_FEATURES, user: int = 0, kind: str = PODS.kind
) -> dict[str, str]:
    """Error messages by field path."""
    validate = pod_validator(lambda: features, user)
    return {error.path: error.message for error in validate_pods(obj, validate, kind)}


VALID: dict[str, Object] = {
    "a command": pod(),
    "an image that does not exist": pod(container(image="registry.example/none:1")),
    "args too": pod(container(args=["-x"])),
    "ports": pod(container(ports=[{"containerPort": 80, "protocol": "UDP"}])),
    "a working directory": pod(container(workingDir="/tmp")),  # noqa: S108 - any path
    "an empty directory": volume(emptyDir={}),
    "a directory of the host": volume(hostPath={"path": "/data"}),
    "a projected volume": volume(projected={"sources": [{"configMap": {"name": "a"}}]}),
    "fields of the pod": volume(
        downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}
    ),
    "probes": pod(
        container(livenessProbe={"tcpSocket": {"port": 1}}, readinessProbe={"exec": {"command": ["a"]}})
    ),
    "a sidecar": pod(initContainers=[container(restartPolicy="Always")]),
    "another user, as root": pod(securityContext={"runAsUser": 1000, "fsGroup": 5}),
    "fields set to false": pod(
        container(tty=False, stdin=False), hostPID=False, securityContext={"privileged": False}
    ),
}


@pytest.mark.parametrize("obj", VALID.values(), ids=VALID)
def test_valid_pods_are_admitted(obj: Object) -> None:
    assert errors_of(obj) == {}


INVALID: dict[str, tuple[Object, str, str]] = {
    "no command": (pod({"name": "a"}), f"{FIRST}.command", "Required value"),
    "a terminal": (pod(container(tty=True)), f"{FIRST}.tty", UNSUPPORTED),
    "input": (pod(container(stdin=True)), f"{FIRST}.stdin", UNSUPPORTED),
    "devices": (pod(container(volumeDevices=[{}])), f"{FIRST}.volumeDevices", UNSUPPORTED),
    "a hook": (
        pod(container(lifecycle={"preStop": {"exec": {}}})),
        f"{FIRST}.lifecycle.preStop",
        UNSUPPORTED,
    ),
    "a probe by gRPC": (
        pod(container(livenessProbe={"grpc": {"port": 1}})),
        f"{FIRST}.livenessProbe",
        UNSUPPORTED,
    ),
    "privileges": (
        pod(container(securityContext={"privileged": True})),
        f"{FIRST}.securityContext.privileged",
        UNSUPPORTED,
    ),
    "a container with a restart policy": (
        pod(container(restartPolicy="Never")),
        f"{FIRST}.restartPolicy",
        UNSUPPORTED,
    ),
    "processes of the host": (pod(hostPID=True), "spec.hostPID", UNSUPPORTED),
    "a full name": (pod(setHostnameAsFQDN=True), "spec.setHostnameAsFQDN", UNSUPPORTED),
    "a long name": (pod(hostname="a" * 64), "spec.hostname", "no more than 63"),
    "a claim": (
        volume(persistentVolumeClaim={"claimName": "a"}),
        "spec.volumes[0].persistentVolumeClaim",
        UNSUPPORTED,
    ),
    "a token": (
        volume(projected={"sources": [{"serviceAccountToken": {"path": "a"}}]}),
        "spec.volumes[0].projected.sources[0].serviceAccountToken",
        UNSUPPORTED,
    ),
    "an unknown field": (
        pod(container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.none"}}}])),
        f"{FIRST}.env[0].valueFrom.fieldRef.fieldPath",
        UNSUPPORTED,
    ),
    "an unknown resource": (
        pod(
            container(
                env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.hugepages-1Mi"}}}]
            )
        ),
        f"{FIRST}.env[0].valueFrom.resourceFieldRef.resource",
        UNSUPPORTED,
    ),
    "root that must not be root": (
        pod(securityContext={"runAsNonRoot": True}),
        "spec.securityContext.runAsNonRoot",
        "runAsUser",
    ),
    "an init container too": (
        pod(initContainers=[{"name": "i"}]),
        "spec.initContainers[0].command",
        "Required value",
    ),
}


@pytest.mark.parametrize("obj, path, message", INVALID.values(), ids=INVALID)
def test_invalid_pods_are_rejected_with_the_field_path(obj: Object, path: str, message: str) -> None:
    errors = errors_of(obj)
    assert errors.keys() == {path}
    assert message in errors[path]


def test_all_errors_are_reported_at_once() -> None:
    obj = pod({"name": "a"}, container(tty=True), hostIPC=True, volumes=[{"name": "v", "nfs": {}}])
    assert errors_of(obj).keys() == {
        "spec.containers[0].command",
        "spec.containers[1].tty",
        "spec.hostIPC",
        "spec.volumes[0].nfs",
    }


def test_running_as_another_user_needs_root() -> None:
    obj = pod(
        container(securityContext={"runAsUser": 7, "runAsGroup": 8}), securityContext={"runAsUser": 1000}
    )
    assert errors_of(obj, user=1000).keys() == {
        f"{FIRST}.securityContext.runAsUser",
        f"{FIRST}.securityContext.runAsGroup",
    }


def test_without_mounts_only_paths_of_the_host_are_admitted() -> None:
    mounts = [{"name": name, "mountPath": "/data"} for name in ("same", "other", "shoal-job")]
    volumes = [
        {"name": "same", "hostPath": {"path": "/data"}},
        {"name": "other", "emptyDir": {}},
        {"name": "shoal-job", "projected": {"sources": []}},
    ]
    errors = errors_of(pod(container(volumeMounts=mounts), volumes=volumes), NO_FEATURES)
    assert errors.keys() == {f"{FIRST}.volumeMounts[1]"}
    assert "no user namespaces" in errors[f"{FIRST}.volumeMounts[1]"]


BARE: Object = {"spec": {"containers": [{"name": "main"}]}}
JOBS_OF: dict[str, tuple[Resource[Any], Object, str]] = {
    "Job": (JOBS, {"template": BARE}, "spec.template.spec.containers[0].command"),
    "DIJob": (resource_of("DIJob"), {"template": BARE}, "spec.template.spec.containers[0].command"),
    "DIJob of tasks": (
        resource_of("DIJob"),
        {"tasks": [{"template": BARE}]},
        "spec.tasks[0].template.spec.containers[0].command",
    ),
    "TYJob": (
        resource_of("TYJob"),
        {"leader": {"template": BARE}},
        "spec.leader.template.spec.containers[0].command",
    ),
    "its workers": (
        resource_of("TYJob"),
        {"workerSets": [{"template": BARE}]},
        "spec.workerSets[0].template.spec.containers[0].command",
    ),
    "TrainingJob": (
        resource_of("TrainingJob"),
        {"volumes": [{"name": "v", "nfs": {}}]},
        "spec.volumes[0].nfs",
    ),
}


@pytest.mark.parametrize("resource, spec, path", JOBS_OF.values(), ids=JOBS_OF)
def test_jobs_are_rejected_for_their_pod_templates(resource: Resource[Any], spec: Object, path: str) -> None:
    assert errors_of({"metadata": {"name": "a"}, "spec": spec}, kind=resource.kind).keys() == {path}


async def test_a_registry_rejects_new_pods_and_leaves_existing_ones_alone() -> None:
    features = [ALL_FEATURES]
    validating = with_pod_validation(strategies(), pod_validator(lambda: features[0], 0))
    mounts = [{"name": "v", "mountPath": "/data"}]
    obj = pod(container(volumeMounts=mounts), volumes=[{"name": "v", "emptyDir": {}}])
    async with Registry(strategies=validating) as registry:
        await registry.create(PODS, obj)
        features[0] = NO_FEATURES
        with pytest.raises(InvalidError) as refused:
            await registry.create(PODS, obj | {"metadata": {"name": "b"}})
        assert [cause.path for cause in refused.value.causes] == ["spec.containers[0].volumeMounts[0]"]
        await registry.patch(PODS, "a", "default", patch={"metadata": {"labels": {"a": "b"}}})
        await registry.patch_status(PODS, "a", "default", patch={"status": {"phase": "Running"}})
