"""Admission of pods in the embedded home: rejects what cannot run as processes of this machine.

    validate = pod_validator(lambda: runtime.features, os.geteuid())
    errors = validate_pods(pod, validate)

A pod is checked itself, a job through its pod templates. All errors are reported at once, with field paths.
`image` is informative, and so are fields that only matter with images, service accounts or a pod network.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from shoal.api.fields import FieldError
from shoal.api.names import JOB_VOLUME
from shoal.cluster.resources import PODS, Object
from shoal.kinds.base import job_kinds
from shoal.kubelet.references import SUPPORTED_RESOURCES, is_supported_field
from shoal.kubelet.runtime import RuntimeFeatures
from shoal.kubelet.volumes import PROJECTED_SOURCES, VOLUME_TYPES, is_present_on_host

PodValidator = Callable[[Object, str], Iterable[FieldError]]
"""Returns the errors of a pod spec that is located at a field path."""

_MAX_HOSTNAME: Final = 63
_UNSUPPORTED: Final = "not supported in the embedded home"
_UNSUPPORTED_POD_FIELDS: Final = (
    "ephemeralContainers",
    "setHostnameAsFQDN",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
)
_UNSUPPORTED_CONTAINER_FIELDS: Final = ("volumeDevices", "stdin", "tty", "restartPolicyRules", "resizePolicy")
_UNSUPPORTED_SECURITY_FIELDS: Final = (
    "privileged",
    "windowsOptions",
    "seLinuxOptions",
    "readOnlyRootFilesystem",
    "capabilities",
    "sysctls",
)
_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket")


class HostLimits(NamedTuple):
    """What this machine and user allow: mounts, and if there are none the reason.

    The user id of the daemon.
    """

    mounts: bool
    user: int
    mount_problem: str = ""


def pod_validator(features: Callable[[], RuntimeFeatures], user: int) -> PodValidator:
    """Make a validator of pods; the features of the runtime are read whenever a pod is checked."""

    def validate(spec: Object, path: str) -> Iterator[FieldError]:
        now = features()
        return _pod_errors(spec, path, HostLimits(now.mounts, user, "; ".join(now.notes)))

    return validate


def has_pods(kind: str) -> bool:
    """Whether objects of a kind contain pod specs that this machine must be able to run."""
    return kind == PODS.kind or kind in job_kinds()


def validate_pods(obj: Object, validate: PodValidator, kind: str = PODS.kind) -> Iterator[FieldError]:
    """Errors of a pod, or of the pod templates of a job."""
    specs = [("spec", obj["spec"])] if kind == PODS.kind else job_kinds()[kind].pod_specs(obj)
    for path, spec in specs:
        yield from validate(spec, path)


# --- pods --------------------------------------------------------------------------------------------------


def _pod_errors(spec: Object, path: str, host: HostLimits) -> Iterator[FieldError]:
    yield from _unsupported_errors(spec, path, _UNSUPPORTED_POD_FIELDS)
    if len(spec.get("hostname") or "") > _MAX_HOSTNAME:
        yield FieldError(f"{path}.hostname", f"must be no more than {_MAX_HOSTNAME} characters")
    yield from _security_errors(spec.get("securityContext") or {}, f"{path}.securityContext", host)
    for i, volume in enumerate(spec.get("volumes") or ()):
        yield from _volume_errors(volume, f"{path}.volumes[{i}]")
    for field in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(field) or ()):
            yield from _container_errors(spec, container, f"{path}.{field}[{i}]", host)
            if field == "containers":
                yield from _unsupported_errors(container, f"{path}.{field}[{i}]", ("restartPolicy",))


def _unsupported_errors(parent: Object, path: str, fields: Iterable[str]) -> Iterator[FieldError]:
    """Errors for unsupported fields that are set."""
    for field in fields:
        if parent.get(field):
            yield FieldError(f"{path}.{field}", _UNSUPPORTED)


def _security_errors(context: Object, path: str, host: HostLimits) -> Iterator[FieldError]:
    yield from _unsupported_errors(context, path, _UNSUPPORTED_SECURITY_FIELDS)
    for field in ("runAsUser", "runAsGroup"):
        if context.get(field) is not None and host.user != 0 and context[field] != host.user:
            yield FieldError(f"{path}.{field}", "running as another user needs root: start Shoal as root")
    user = context.get("runAsUser", host.user)
    if context.get("runAsNonRoot") and user == 0:
        yield FieldError(f"{path}.runAsNonRoot", "the container would run as root: set runAsUser")


# --- volumes -----------------------------------------------------------------------------------------------


def _volume_errors(volume: Object, path: str) -> Iterator[FieldError]:
    for kind in volume:
        if kind not in ("name", *VOLUME_TYPES):
            yield FieldError(f"{path}.{kind}", f"{_UNSUPPORTED}; use one of {', '.join(VOLUME_TYPES)}")
    yield from _item_errors(volume.get("downwardAPI") or {}, f"{path}.downwardAPI")
    for i, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
        source_path = f"{path}.projected.sources[{i}]"
        yield from _unsupported_errors(
            source, source_path, [kind for kind in source if kind not in PROJECTED_SOURCES]
        )
        yield from _item_errors(source.get("downwardAPI") or {}, f"{source_path}.downwardAPI")


def _item_errors(target: Object, path: str) -> Iterator[FieldError]:
    for i, item in enumerate(target.get("items") or ()):
        yield from _downward_errors(item, f"{path}.items[{i}]")


def _downward_errors(source: Object, path: str) -> Iterator[FieldError]:
    """Errors for pod fields and resources that the downward API does not offer here."""
    field = (source.get("fieldRef") or {}).get("fieldPath")
    if field is not None and not is_supported_field(field):
        yield FieldError(f"{path}.fieldRef.fieldPath", f"{_UNSUPPORTED}: {field}")
    resource = (source.get("resourceFieldRef") or {}).get("resource")
    if resource is not None and resource not in SUPPORTED_RESOURCES:
        yield FieldError(f"{path}.resourceFieldRef.resource", f"{_UNSUPPORTED}: {resource}")


# --- containers --------------------------------------------------------------------------------------------


def _container_errors(spec: Object, container: Object, path: str, host: HostLimits) -> Iterator[FieldError]:
    if not container.get("command"):
        yield FieldError(
            f"{path}.command", "Required value: images are not used here, so there is no default entrypoint"
        )
    yield from _unsupported_errors(container, path, _UNSUPPORTED_CONTAINER_FIELDS)
    yield from _security_errors(container.get("securityContext") or {}, f"{path}.securityContext", host)
    yield from _unsupported_errors(
        container.get("lifecycle") or {}, f"{path}.lifecycle", ("postStart", "preStop")
    )
    for i, variable in enumerate(container.get("env") or ()):
        yield from _variable_errors(variable, f"{path}.env[{i}]")
    for name in _PROBES:
        probe = container.get(name)
        if probe and not any(probe.get(kind) is not None for kind in _PROBE_HANDLERS):
            yield FieldError(f"{path}.{name}", f"{_UNSUPPORTED}; use one of {', '.join(_PROBE_HANDLERS)}")
    if not host.mounts:
        yield from _mount_errors(spec, container, path, host)


def _variable_errors(variable: Object, path: str) -> Iterator[FieldError]:
    source = variable.get("valueFrom") or {}
    yield from _unsupported_errors(source, f"{path}.valueFrom", ("fileKeyRef",))
    yield from _downward_errors(source, f"{path}.valueFrom")


def _mount_errors(spec: Object, container: Object, path: str, host: HostLimits) -> Iterator[FieldError]:
    """Errors for mounts on a machine that cannot mount. Variables tell where the volume of a job is."""
    volumes = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        volume = volumes.get(mount.get("name"), {})
        if volume.get("name") != JOB_VOLUME and not is_present_on_host(mount, volume):
            problem = f" ({host.mount_problem})" if host.mount_problem else ""
            yield FieldError(
                f"{path}.volumeMounts[{i}]",
                f"mounts are not possible here{problem}: use a hostPath at its own path",
            )
