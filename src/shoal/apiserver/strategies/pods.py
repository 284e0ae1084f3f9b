"""Pods: what is filled in, and which parts of a pod may still change."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from shoal.api.fields import FieldError, child, shown
from shoal.api.names import dns_label_errors
from shoal.api.podspec import is_extended
from shoal.api.quantity import Quantity
from shoal.apiserver.registry.records import copied
from shoal.apiserver.strategies.volumes import volume_errors
from shoal.cluster.resources import Object

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_SOURCES: Final = ("configMap", "secret", "downwardAPI", "projected")
_MODE: Final = 0o644
_POLICIES: Final = ("Always", "OnFailure", "Never")
_MAY_CHANGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to "
    "existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def default(pod: Object) -> None:
    """Fill in what a user left out of a pod."""
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
    """The one address is the first of all; who names only one means that."""
    address, others = status.get("podIP"), status.get("podIPs") or [{}]
    if address and others[0].get("ip") != address:
        status["podIPs"] = [{"ip": address}]


def default_spec(spec: Object) -> None:
    """Fill in what a user left out of the spec of a pod, or of a template."""
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
    for field, number in _PROBE.items():
        probe.setdefault(field, number)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _is_latest(image: str) -> bool:
    """Whether an image may be another one tomorrow: its tag is `latest`, or it has none."""
    name, digest, _ = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return not digest and (not colon or tag == "latest")


def _default_volume(volume: Object) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for source in _SOURCES:
        if source in volume:
            volume[source].setdefault("defaultMode", _MODE)


def _default_requests(resources: Object) -> None:
    """What is not asked for, but limited, is asked for."""
    if "limits" in resources:
        resources["requests"] = resources["limits"] | resources.get("requests", {})


def _default_host_ports(container: Object) -> None:
    """On the host's network every port is one of the host."""
    for port in container.get("ports", ()):
        if "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])


# --- a new pod ---------------------------------------------------------------------------------------------


def begin(pod: Object) -> None:
    """A new pod waits, whatever status it came with; less than no time to end is a second."""
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
    """How well a pod has said what it needs: of CPU and memory all, some, or nothing."""
    sides = [
        (_counted(resources.get("requests", {})), _counted(resources.get("limits", {})))
        for resources in (container["resources"] for container in _containers(spec))
    ]
    if not any(requests or limits for requests, limits in sides):
        return "BestEffort"
    whole = all(len(limits) == len(_COUNTED) and requests == limits for requests, limits in sides)
    return "Guaranteed" if whole else "Burstable"


_COUNTED: Final = ("cpu", "memory")


def _counted(amounts: dict[str, Any]) -> dict[str, int]:
    return {name: nano for name in _COUNTED if name in amounts and (nano := _nano(amounts[name]))}


# --- what is wrong -----------------------------------------------------------------------------------------


def errors(pod: Object) -> Iterator[FieldError]:
    """What the view of a pod does not look at."""
    if "spec" in pod:
        yield from spec_errors(pod["spec"], "spec")


def spec_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """What the view of a pod spec does not look at: containers' names and images, and volumes."""
    names: set[str] = set()
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            yield from dns_label_errors(spec[field], f"{path}.{field}")
    for i, toleration in enumerate(spec.get("tolerations", ())):
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            where = f"{path}.tolerations[{i}].effect"
            yield FieldError(where, "must be NoExecute when tolerationSeconds is set: nothing else ends")
    if spec.get("activeDeadlineSeconds", 1) < 1:
        yield FieldError(f"{path}.activeDeadlineSeconds", "must be at least 1")
    for field in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(field, ())):
            yield from _container_errors(container, names, f"{path}.{field}[{i}]")
    yield from volume_errors(spec, path)
    if spec["restartPolicy"] not in _POLICIES:
        yield FieldError(
            f"{path}.restartPolicy",
            f"must be one of {', '.join(_POLICIES)}, not '{shown(spec['restartPolicy'])}'",
        )


def _container_errors(container: Object, names: set[str], path: str) -> Iterator[FieldError]:
    """Complain about a container; `names` are those of the others so far."""
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
    yield from _hardware_errors(container.get("resources") or {}, f"{path}.resources")


def _hardware_errors(resources: Object, path: str) -> Iterator[FieldError]:
    """Complain about hardware that would be shared: what is asked for of it must be the limit too."""
    limits = resources.get("limits") or {}
    for name, amount in (resources.get("requests") or {}).items():
        if not is_extended(name):
            continue
        where = child(f"{path}.limits", name)
        if name not in limits:
            yield FieldError(where, "is required: what a cluster counts one by one cannot be shared")
        elif _nano(limits[name]) != _nano(amount):
            yield FieldError(where, f"must be what is requested, {shown(amount)}, not {shown(limits[name])}")


def _nano(amount: object) -> int:
    """An amount as a number; about what is none the view complains."""
    try:
        return Quantity(amount).nano
    except ValueError:
        return 0


# --- what may change ---------------------------------------------------------------------------------------


def frozen(pod: Object, old: Object) -> Iterator[FieldError]:
    """Complain about changes of what a pod is made of."""
    if pod["spec"] == old["spec"]:
        return
    new, was = copied(pod["spec"]), old["spec"]
    yield from _gate_errors(new, was)
    yield from _deadline_errors(new, was)
    yield from (changed := list(_count_errors(new, was)))
    _overlook_what_may_change(new, was)
    if not changed and new != was:
        yield FieldError("spec", f"Forbidden: {_MAY_CHANGE}")


def _count_errors(new: Object, was: Object) -> Iterator[FieldError]:
    for field in ("containers", "initContainers"):
        if len(new.get(field, ())) != len(was.get(field, ())):
            yield FieldError(f"spec.{field}", "Forbidden: pod updates may not add or remove containers")


def _overlook_what_may_change(new: Object, was: Object) -> None:
    """Make a spec as if what may change had not."""
    overlook(new, was, "schedulingGates", "activeDeadlineSeconds")
    if was.get("schedulingGates"):
        overlook(new, was, "nodeSelector", "affinity")
    for field in ("containers", "initContainers"):
        for container, other in zip(new.get(field, ()), was.get(field, ()), strict=False):
            container["image"] = other.get("image")
    if all(toleration in new.get("tolerations", ()) for toleration in was.get("tolerations", ())):
        overlook(new, was, "tolerations")
    if was["terminationGracePeriodSeconds"] < 0 and new["terminationGracePeriodSeconds"] == 1:
        overlook(new, was, "terminationGracePeriodSeconds")


def overlook(new: Object, was: Object, *fields: str) -> None:
    """Make some fields as they were."""
    for field in fields:
        new.pop(field, None)
        if field in was:
            new[field] = was[field]


def _gate_errors(new: Object, was: Object) -> Iterable[FieldError]:
    gates = was.get("schedulingGates", ())
    for i, gate in enumerate(new.get("schedulingGates", ())):
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
