"""Pods: what is filled in, and which parts of a pod may still change."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from shoal.api.decode import decode
from shoal.api.fields import FieldError, shown
from shoal.api.names import dns_label_errors
from shoal.api.podspec import PodSpec, in_nano
from shoal.cluster.registry.records import copied
from shoal.cluster.resources import Object

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_MODE: Final = 0o644
_MAY_CHANGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to "
    "existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_CONTAINER: Final = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def default(pod: Object) -> None:
    """Fill in what a user left out of a pod."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    default_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in containers(spec):
        _requests_from_limits(container["resources"])
    if spec.get("hostNetwork") is True:
        _ports_of_the_host(spec)


def default_spec(spec: Object) -> None:
    """Fill in what a user left out of the spec of a pod, or of a template."""
    for field, value in _SPEC.items():
        if not spec.get(field):
            spec.setdefault(field, copied(value))
    for container in containers(spec):
        _default_container(container)
    for volume in _mappings(spec.get("volumes")):
        _default_volume(volume)


def containers(spec: Object) -> list[Object]:
    """All containers, those of the start too, as far as they are mappings."""
    return [*_mappings(spec.get("initContainers")), *_mappings(spec.get("containers"))]


def _mappings(values: object) -> list[Object]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _default_container(container: Object) -> None:
    for field, value in _CONTAINER.items():
        container.setdefault(field, copied(value))
    image = container.get("image")
    if isinstance(image, str):
        container.setdefault("imagePullPolicy", "Always" if _is_latest(image) else "IfNotPresent")
    for port in _mappings(container.get("ports")):
        port.setdefault("protocol", "TCP")
    for variable in _mappings(container.get("env")):
        source = variable.get("valueFrom")
        reference = source.get("fieldRef") if isinstance(source, dict) else None
        if isinstance(reference, dict):
            reference.setdefault("apiVersion", "v1")
    for probe in _mappings([container.get(name) for name in _PROBES]):
        for field, number in _PROBE.items():
            probe.setdefault(field, number)
        if isinstance(probe.get("httpGet"), dict):
            probe["httpGet"].setdefault("path", "/")
            probe["httpGet"].setdefault("scheme", "HTTP")


def _is_latest(image: str) -> bool:
    """Whether an image may be another one tomorrow: its tag is `latest`, or it has none."""
    name, digest, _ = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return not digest and (not colon or tag == "latest")


def _default_volume(volume: Object) -> None:
    if not set(volume) - {"name"}:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", _MODE)


def _requests_from_limits(resources: object) -> None:
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(resources, dict) or not isinstance(limits, dict) or not limits:
        return
    requests = resources.setdefault("requests", {})
    if isinstance(requests, dict):
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def _ports_of_the_host(spec: Object) -> None:
    """On the host's network every port is one of the host."""
    for container in containers(spec):
        for port in _mappings(container.get("ports")):
            if "containerPort" in port:
                port.setdefault("hostPort", port["containerPort"])


# --- a new pod ---------------------------------------------------------------------------------------------


def begin(pod: Object) -> None:
    """A new pod waits, whatever status it came with."""
    pod["status"] = {"phase": "Pending", "qosClass": _qos_class(pod)}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _qos_class(pod: Object) -> str:
    spec = decode(PodSpec, pod["spec"])
    asked = [container.resources for container in (*spec.init_containers, *spec.containers)]
    counted = [
        {name: amounts for name, amounts in in_nano(side).items() if name in ("cpu", "memory") and amounts}
        for resources in asked
        for side in (resources.requests, resources.limits)
    ]
    if not any(counted):
        return "BestEffort"
    pairs = zip(counted[::2], counted[1::2], strict=True)
    whole = all(set(limits) == {"cpu", "memory"} and requests == limits for requests, limits in pairs)
    return "Guaranteed" if whole else "Burstable"


# --- what is wrong -----------------------------------------------------------------------------------------


def errors(pod: Object) -> Iterator[FieldError]:
    """What the view of a pod does not look at."""
    spec = pod.get("spec")
    if isinstance(spec, dict):
        yield from spec_errors(spec, "spec")


def spec_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """What the view of a pod spec does not look at: the names and images of containers."""
    names: set[object] = set()
    for field in ("containers", "initContainers"):
        for i, container in enumerate(_mappings(spec.get(field))):
            where = f"{path}.{field}[{i}]"
            name = container.get("name")
            if not isinstance(name, str) or not name:
                yield FieldError(f"{where}.name", "is required")
            else:
                yield from dns_label_errors(name, f"{where}.name")
                if name in names:
                    yield FieldError(f"{where}.name", f"Duplicate value: '{shown(name)}'")
            names.add(name)
            if not container.get("image"):
                yield FieldError(f"{where}.image", "is required")
    policy = spec.get("restartPolicy")
    if policy not in ("Always", "OnFailure", "Never"):
        yield FieldError(
            f"{path}.restartPolicy", f"must be Always, OnFailure or Never, not '{shown(policy)}'"
        )


# --- what may change ---------------------------------------------------------------------------------------


def frozen(pod: Object, old: Object) -> Iterator[FieldError]:
    """Complain about changes of what a pod is made of."""
    new, was = copied(pod["spec"]), old["spec"]
    yield from _gate_errors(new, was)
    yield from _deadline_errors(new, was)
    if was.get("schedulingGates"):
        _loosen(new, was, "nodeSelector", "affinity")
    _loosen(new, was, "schedulingGates", "activeDeadlineSeconds")
    for field in ("containers", "initContainers"):
        if len(new.get(field, ())) != len(was.get(field, ())):
            yield FieldError(f"spec.{field}", "Forbidden: pod updates may not add or remove containers")
            return
        for container, other in zip(new.get(field, ()), was.get(field, ()), strict=True):
            container["image"] = other.get("image")
    if _starts_with(new.get("tolerations", []), was.get("tolerations", [])):
        _loosen(new, was, "tolerations")
    if was.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        _loosen(new, was, "terminationGracePeriodSeconds")
    if new != was:
        yield FieldError("spec", f"Forbidden: {_MAY_CHANGE}")


def _starts_with(tolerations: list[Any], old: list[Any]) -> bool:
    return all(toleration in tolerations for toleration in old)


def _loosen(new: Object, was: Object, *fields: str) -> None:
    """Compare as if these fields had not changed."""
    for field in fields:
        new.pop(field, None)
        if field in was:
            new[field] = was[field]


def _gate_errors(new: Object, was: Object) -> Iterable[FieldError]:
    gates = was.get("schedulingGates") or []
    for i, gate in enumerate(new.get("schedulingGates") or []):
        if gate not in gates:
            yield FieldError(
                f"spec.schedulingGates[{i}]", "Forbidden: only deletion is allowed, but found a new gate"
            )


def _deadline_errors(new: Object, was: Object) -> Iterable[FieldError]:
    deadline, before = new.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")
    if before is not None and deadline is None:
        yield FieldError("spec.activeDeadlineSeconds", "must not update from a number to nothing")
    elif before is not None and deadline > before:
        yield FieldError("spec.activeDeadlineSeconds", "must be less than or equal to the previous value")
