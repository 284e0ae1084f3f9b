"""Strategy of pods and pod templates: defaults, QoS class, validation, volumes, mutable fields.

Names and paths of volumes become directories and files on a node, so none may escape its volume.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, Final

from shoal.api.fields import FieldError, child, shown
from shoal.api.names import dns_label_errors
from shoal.api.podspec import is_extended
from shoal.api.quantity import Quantity
from shoal.apiserver.registry.records import json_copy
from shoal.cluster.resources import Object

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_SOURCES: Final = ("configMap", "secret", "downwardAPI", "projected")
_DEFAULT_FILE_MODE: Final = 0o644
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_MUTABLE_FIELDS_MESSAGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to "
    "existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def default_pod(pod: Object) -> None:
    """Set omitted fields of a pod."""
    _default_addresses(pod.get("status") or {})
    spec = pod.get("spec")
    if spec is None:
        return
    default_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        _default_requests(container["resources"])
        if spec.get("hostNetwork"):
            _default_host_ports(container)


def _default_addresses(status: Object) -> None:
    """Keep podIPs consistent with podIP, which is the first of them."""
    address, others = status.get("podIP"), status.get("podIPs") or [{}]
    if address and others[0].get("ip") != address:
        status["podIPs"] = [{"ip": address}]


def default_spec(spec: Object) -> None:
    """Set omitted fields of a pod spec, in a pod or a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in _containers(spec):
        _default_container(container)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)


def _containers(spec: Object) -> Iterator[Object]:
    return chain(spec.get("initContainers", ()), spec.get("containers", ()))


def _default_container(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault(
        "imagePullPolicy", "Always" if _is_latest(container.get("image", "")) else "IfNotPresent"
    )
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])


def _default_probe(probe: Object) -> None:
    for field, number in _PROBE_DEFAULTS.items():
        probe.setdefault(field, number)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _is_latest(image: str) -> bool:
    """Whether an image has the tag `latest`, or neither tag nor digest."""
    name, digest, _ = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return not digest and (not colon or tag == "latest")


def _default_volume(volume: Object) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for source in _SOURCES:
        if source in volume:
            volume[source].setdefault("defaultMode", _DEFAULT_FILE_MODE)


def _default_requests(resources: Object) -> None:
    """Requests default to the limits."""
    if "limits" in resources:
        resources["requests"] = resources["limits"] | resources.get("requests", {})


def _default_host_ports(container: Object) -> None:
    """With hostNetwork, host ports default to the container ports."""
    for port in container.get("ports", ()):
        if "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])


# --- create ------------------------------------------------------------------------------------------------


def prepare_pod_create(pod: Object) -> None:
    """Set the status of a new pod to Pending; a negative grace period becomes one second."""
    if pod["spec"]["terminationGracePeriodSeconds"] < 0:
        pod["spec"]["terminationGracePeriodSeconds"] = 1
    pod["status"] = {"phase": "Pending", "qosClass": _qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _qos_class(spec: Object) -> str:
    """Return the pod's QoS class."""
    amounts = [
        (_qos_amounts(resources.get("requests", {})), _qos_amounts(resources.get("limits", {})))
        for resources in (container["resources"] for container in _containers(spec))
    ]
    if not any(requests or limits for requests, limits in amounts):
        return "BestEffort"
    guaranteed = all(
        len(limits) == len(_QOS_RESOURCES) and requests == limits for requests, limits in amounts
    )
    return "Guaranteed" if guaranteed else "Burstable"


_QOS_RESOURCES: Final = ("cpu", "memory")


def _qos_amounts(amounts: dict[str, Any]) -> dict[str, int]:
    return {name: nano for name in _QOS_RESOURCES if name in amounts and (nano := _nano(amounts[name]))}


# --- validation --------------------------------------------------------------------------------------------


def pod_errors(pod: Object) -> Iterator[FieldError]:
    """Yield the errors that the typed view of a pod does not check."""
    if "spec" in pod:
        yield from spec_errors(pod["spec"], "spec")


def spec_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """Yield the errors that the typed view of a pod spec does not check: names, images, volumes, others."""
    names: set[str] = set()
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            yield from dns_label_errors(spec[field], f"{path}.{field}")
    for i, toleration in enumerate(spec.get("tolerations", ())):
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            where = f"{path}.tolerations[{i}].effect"
            yield FieldError(where, "must be NoExecute when tolerationSeconds is set")
    if spec.get("activeDeadlineSeconds", 1) < 1:
        yield FieldError(f"{path}.activeDeadlineSeconds", "must be at least 1")
    for field in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(field, ())):
            yield from _container_errors(container, names, f"{path}.{field}[{i}]")
    yield from volume_errors(spec, path)
    if spec["restartPolicy"] not in _RESTART_POLICIES:
        yield FieldError(
            f"{path}.restartPolicy",
            f"must be one of {', '.join(_RESTART_POLICIES)}, not '{shown(spec['restartPolicy'])}'",
        )


def _container_errors(container: Object, names: set[str], path: str) -> Iterator[FieldError]:
    """Yield the errors of a container; `names` are those of the containers before it."""
    name = container.get("name", "")
    if not name:
        yield FieldError(f"{path}.name", "is required")
    else:
        yield from dns_label_errors(name, f"{path}.name")
    if name in names:
        yield FieldError(f"{path}.name", f"Duplicate value: '{shown(name)}'")
    names.add(name)
    if not container.get("image"):
        yield FieldError(f"{path}.image", "is required")
    yield from _extended_resource_errors(container.get("resources") or {}, f"{path}.resources")


def _extended_resource_errors(resources: Object, path: str) -> Iterator[FieldError]:
    """Yield errors for extended resources whose limit differs from the request (no overcommitment)."""
    limits = resources.get("limits") or {}
    for name, amount in (resources.get("requests") or {}).items():
        if not is_extended(name):
            continue
        where = child(f"{path}.limits", name)
        if name not in limits:
            yield FieldError(where, "is required: an extended resource cannot be overcommitted")
        elif _nano(limits[name]) != _nano(amount):
            yield FieldError(where, f"must equal the request, {shown(amount)}, not {shown(limits[name])}")


def _nano(amount: object) -> int:
    """Parse an amount; 0 if it is invalid, which the typed view reports."""
    try:
        return Quantity(amount).nano
    except ValueError:
        return 0


# --- update ------------------------------------------------------------------------------------------------


def pod_update_errors(pod: Object, old: Object) -> Iterator[FieldError]:
    """Yield errors for changes of immutable fields of the spec."""
    if pod["spec"] == old["spec"]:
        return
    new, old = json_copy(pod["spec"]), old["spec"]
    yield from _gate_errors(new, old)
    yield from _deadline_errors(new, old)
    yield from (changed := list(_count_errors(new, old)))
    _restore_mutable_fields(new, old)
    if not changed and new != old:
        yield FieldError("spec", f"Forbidden: {_MUTABLE_FIELDS_MESSAGE}")


def _count_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for field in ("containers", "initContainers"):
        if len(new.get(field, ())) != len(old.get(field, ())):
            yield FieldError(f"spec.{field}", "Forbidden: pod updates may not add or remove containers")


def _restore_mutable_fields(new: Object, old: Object) -> None:
    """Set mutable fields of the new spec to their old values, so that only forbidden changes remain."""
    restore_fields(new, old, "schedulingGates", "activeDeadlineSeconds")
    if old.get("schedulingGates"):
        restore_fields(new, old, "nodeSelector", "affinity")
    for field in ("containers", "initContainers"):
        for container, other in zip(new.get(field, ()), old.get(field, ()), strict=False):
            container["image"] = other.get("image")
    if all(toleration in new.get("tolerations", ()) for toleration in old.get("tolerations", ())):
        restore_fields(new, old, "tolerations")
    if old["terminationGracePeriodSeconds"] < 0 and new["terminationGracePeriodSeconds"] == 1:
        restore_fields(new, old, "terminationGracePeriodSeconds")


def restore_fields(new: Object, old: Object, *fields: str) -> None:
    """Set fields to their old values."""
    for field in fields:
        new.pop(field, None)
        if field in old:
            new[field] = old[field]


def _gate_errors(new: Object, old: Object) -> Iterable[FieldError]:
    gates = old.get("schedulingGates", ())
    for i, gate in enumerate(new.get("schedulingGates", ())):
        if gate not in gates:
            yield FieldError(
                f"spec.schedulingGates[{i}]", "Forbidden: only deletion is allowed, but found a new gate"
            )


def _deadline_errors(new: Object, old: Object) -> Iterable[FieldError]:
    deadline, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if before is not None and deadline is None:
        yield FieldError("spec.activeDeadlineSeconds", "must not update from a number to nothing")
    elif before is not None and deadline > before:
        yield FieldError("spec.activeDeadlineSeconds", "must be less than or equal to the previous value")


_SOURCES_WITH_KEYS: Final = ("configMap", "secret")
_SOURCES_WITH_ITEMS: Final = (*_SOURCES_WITH_KEYS, "downwardAPI")


def volume_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """Yield the errors of a pod's volumes and of the volume mounts of its containers."""
    names: set[str] = set()
    for i, volume in enumerate(spec.get("volumes", ())):
        where = f"{path}.volumes[{i}]"
        yield from _name_errors(volume.get("name", ""), names, f"{where}.name")
        yield from _source_errors(volume, where)
        for j, source in enumerate(volume.get("projected", {}).get("sources", ())):
            yield from _source_errors(source, f"{where}.projected.sources[{j}]")
        if "hostPath" in volume:
            yield from _host_path_errors(volume["hostPath"].get("path", ""), f"{where}.hostPath.path")
    for field in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(field, ())):
            yield from _mount_errors(container, names, f"{path}.{field}[{i}].volumeMounts")


def _name_errors(name: str, names: set[str], path: str) -> Iterator[FieldError]:
    """Yield the errors of a volume name; `names` are those of the volumes before it."""
    yield from dns_label_errors(name, path)
    if name in names:
        yield FieldError(path, f"Duplicate value: '{shown(name)}'")
    names.add(name)


def _source_errors(holder: Object, path: str) -> Iterator[FieldError]:
    """Yield the errors of the items of a volume source."""
    for kind in _SOURCES_WITH_ITEMS:
        for i, item in enumerate(holder.get(kind, {}).get("items", ())):
            where = f"{path}.{kind}.items[{i}]"
            if kind in _SOURCES_WITH_KEYS and not item.get("key"):
                yield FieldError(f"{where}.key", "is required")
            if item.get("path"):
                yield from _relative_path_errors(item["path"], f"{where}.path")
            else:
                yield FieldError(f"{where}.path", "is required")
            if "resourceFieldRef" in item and not item["resourceFieldRef"].get("containerName"):
                yield FieldError(f"{where}.resourceFieldRef.containerName", "is required")


def _host_path_errors(host: str, path: str) -> Iterator[FieldError]:
    if not host:
        yield FieldError(path, "is required")
    elif ".." in PurePosixPath(host).parts:
        yield FieldError(path, f"must not contain '..', not '{shown(host)}'")


def _mount_errors(container: Object, names: set[str], path: str) -> Iterator[FieldError]:
    """Yield the errors of a container's volume mounts; `names` are those of the pod's volumes."""
    mount_paths: set[str] = set()
    for i, mount in enumerate(container.get("volumeMounts", ())):
        where, name, target = f"{path}[{i}]", mount.get("name", ""), mount.get("mountPath", "")
        if name not in names:
            yield FieldError(f"{where}.name", f"Not found: '{shown(name)}'")
        if not target:
            yield FieldError(f"{where}.mountPath", "is required")
        elif target in mount_paths:
            yield FieldError(f"{where}.mountPath", f"must be unique, not '{shown(target)}' again")
        mount_paths.add(target)
        for field in ("subPath", "subPathExpr"):
            yield from _relative_path_errors(mount.get(field, ""), f"{where}.{field}")
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield FieldError(f"{where}.subPathExpr", "must not be set together with subPath")


def _relative_path_errors(relative: str, path: str) -> Iterator[FieldError]:
    """Yield errors if a path is absolute or contains '..'."""
    if relative.startswith("/"):
        yield FieldError(path, f"must be a relative path, not '{shown(relative)}'")
    if ".." in PurePosixPath(relative).parts:
        yield FieldError(path, f"must not contain '..', not '{shown(relative)}'")
