"""What cannot be run as processes of this machine, and is refused when it is submitted.

    rules = refusing(RULES, refuser(lambda: runtime.abilities, os.geteuid()))

A pod is refused for itself, a job for the templates of its pods: whoever submits is told everything at once,
with field paths. `image` is informative, and so are fields that only matter where there are images, service
accounts or a network of pods.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from shoal.api.fields import FieldError
from shoal.cluster.resources import PODS, Object
from shoal.kinds.base import job_kinds
from shoal.kubelet.references import SUPPORTED_RESOURCES, is_supported_field
from shoal.kubelet.runtime import RuntimeFeatures
from shoal.kubelet.volumes import PROJECTED_SOURCES, VOLUME_TYPES, is_present_on_host

PodValidator = Callable[[Object, str], Iterable[FieldError]]
"""All that speaks against the spec of a pod, which stands at a path."""

_LONGEST_HOSTNAME: Final = 63
_HERE: Final = "not supported in the embedded home"
_NEVER: Final = ("ephemeralContainers", "setHostnameAsFQDN", "hostPID", "hostIPC", "shareProcessNamespace")
_NEVER_IN_CONTAINERS: Final = ("volumeDevices", "stdin", "tty", "restartPolicyRules", "resizePolicy")
_NEVER_FOR_SECURITY: Final = (
    "privileged",
    "windowsOptions",
    "seLinuxOptions",
    "readOnlyRootFilesystem",
    "capabilities",
    "sysctls",
)
_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
_PROBED_BY: Final = ("exec", "httpGet", "tcpSocket")


class HostLimits(NamedTuple):
    """What matters of this machine: why there are no mounts, if there are none, and who we are."""

    mounts: bool
    user: int
    why: str = ""


def pod_validator(features: Callable[[], RuntimeFeatures], user: int) -> PodValidator:
    """What refuses pods on a machine with such abilities, which are asked for when a pod comes."""

    def refuse(spec: Object, path: str) -> Iterator[FieldError]:
        able = features()
        return _refusals(spec, path, HostLimits(able.mounts, user, "; ".join(able.notes)))

    return refuse


def has_pods(kind: str) -> bool:
    """Whether objects of a kind contain pod specs that this machine must be able to run."""
    return kind == PODS.kind or kind in job_kinds()


def validate_pods(obj: Object, validate: PodValidator, kind: str = PODS.kind) -> Iterator[FieldError]:
    """Errors of a pod, or of the pod templates of a job."""
    specs = [("spec", obj["spec"])] if kind == PODS.kind else job_kinds()[kind].pod_specs(obj)
    for path, spec in specs:
        yield from validate(spec, path)


# --- pods --------------------------------------------------------------------------------------------------


def _refusals(spec: Object, path: str, here: HostLimits) -> Iterator[FieldError]:
    yield from _unsupported(spec, path, _NEVER)
    if len(spec.get("hostname") or "") > _LONGEST_HOSTNAME:
        yield FieldError(f"{path}.hostname", f"must be no more than {_LONGEST_HOSTNAME} characters")
    yield from _security(spec.get("securityContext") or {}, f"{path}.securityContext", here)
    for i, volume in enumerate(spec.get("volumes") or ()):
        yield from _volume(volume, f"{path}.volumes[{i}]")
    for field in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(field) or ()):
            yield from _container(spec, container, f"{path}.{field}[{i}]", here)
            if field == "containers":
                yield from _unsupported(container, f"{path}.{field}[{i}]", ("restartPolicy",))


def _unsupported(holder: Object, path: str, fields: Iterable[str]) -> Iterator[FieldError]:
    """Complain about fields that say something."""
    for field in fields:
        if holder.get(field):
            yield FieldError(f"{path}.{field}", _HERE)


def _security(context: Object, path: str, here: HostLimits) -> Iterator[FieldError]:
    yield from _unsupported(context, path, _NEVER_FOR_SECURITY)
    for field in ("runAsUser", "runAsGroup"):
        if context.get(field) is not None and here.user != 0 and context[field] != here.user:
            yield FieldError(
                f"{path}.{field}", "only root can run processes of other users: start Shoal as root"
            )
    user = context.get("runAsUser", here.user)
    if context.get("runAsNonRoot") and user == 0:
        yield FieldError(f"{path}.runAsNonRoot", "the processes would be root's: name a user with runAsUser")


# --- volumes -----------------------------------------------------------------------------------------------


def _volume(volume: Object, path: str) -> Iterator[FieldError]:
    for kind in volume:
        if kind not in ("name", *VOLUME_TYPES):
            yield FieldError(f"{path}.{kind}", f"{_HERE}: {', '.join(VOLUME_TYPES)} are")
    yield from _fields(volume.get("downwardAPI") or {}, f"{path}.downwardAPI")
    for i, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
        inner = f"{path}.projected.sources[{i}]"
        yield from _unsupported(source, inner, [kind for kind in source if kind not in PROJECTED_SOURCES])
        yield from _fields(source.get("downwardAPI") or {}, f"{inner}.downwardAPI")


def _fields(target: Object, path: str) -> Iterator[FieldError]:
    for i, item in enumerate(target.get("items") or ()):
        yield from _about_itself(item, f"{path}.items[{i}]")


def _about_itself(holder: Object, path: str) -> Iterator[FieldError]:
    """Complain about fields of the pod, or resources, that nobody can tell."""
    field = (holder.get("fieldRef") or {}).get("fieldPath")
    if field is not None and not is_supported_field(field):
        yield FieldError(f"{path}.fieldRef.fieldPath", f"{_HERE}: {field}")
    resource = (holder.get("resourceFieldRef") or {}).get("resource")
    if resource is not None and resource not in SUPPORTED_RESOURCES:
        yield FieldError(f"{path}.resourceFieldRef.resource", f"{_HERE}: {resource}")


# --- containers --------------------------------------------------------------------------------------------


def _container(spec: Object, container: Object, path: str, here: HostLimits) -> Iterator[FieldError]:
    if not container.get("command"):
        yield FieldError(f"{path}.command", "Required value: no image is run here, so there is no entrypoint")
    yield from _unsupported(container, path, _NEVER_IN_CONTAINERS)
    yield from _security(container.get("securityContext") or {}, f"{path}.securityContext", here)
    yield from _unsupported(container.get("lifecycle") or {}, f"{path}.lifecycle", ("postStart", "preStop"))
    for i, variable in enumerate(container.get("env") or ()):
        yield from _variable(variable, f"{path}.env[{i}]")
    for name in _PROBES:
        probe = container.get(name)
        if probe and not any(probe.get(kind) is not None for kind in _PROBED_BY):
            yield FieldError(f"{path}.{name}", f"{_HERE}: {', '.join(_PROBED_BY)} are")
    if not here.mounts:
        yield from _mounts(spec, container, path, here)


def _variable(variable: Object, path: str) -> Iterator[FieldError]:
    source = variable.get("valueFrom") or {}
    yield from _unsupported(source, f"{path}.valueFrom", ("fileKeyRef",))
    yield from _about_itself(source, f"{path}.valueFrom")


def _mounts(spec: Object, container: Object, path: str, here: HostLimits) -> Iterator[FieldError]:
    """Complain about mounts where none can be made."""
    volumes = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        if not is_present_on_host(mount, volumes.get(mount.get("name"), {})):
            why = f" ({here.why})" if here.why else ""
            yield FieldError(
                f"{path}.volumeMounts[{i}]", f"nothing can be mounted here{why}: name paths of the host"
            )
