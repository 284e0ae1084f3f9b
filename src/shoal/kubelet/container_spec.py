"""Builds the process of a container: environment, command, directory, user, mounts and limits.

The environment is complete: nothing is inherited. It starts with a few variables of the host that programs
need, then Shoal's own, then the variables of the pod. Credentials of the administrator (KUBECONFIG,
SHOAL_HOME, tokens) are in none of them. All functions are pure, except that volumes must exist.
"""

import pwd
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from shoal.api.quantity import NANO, Quantity
from shoal.cluster.resources import Object
from shoal.kubelet.references import (
    ConfigError,
    PodLocation,
    ReferencedObjects,
    containers_by_name,
    expand_variables,
    field_value,
    parse_reference,
    resolve_data,
    resource_value,
)
from shoal.kubelet.runtime import ContainerSpec, Limits, Mount
from shoal.kubelet.volumes import container_mounts, is_present_on_host

VENV_ANNOTATION: Final = "shoal.io/venv"
"""Annotation with the path of a Python virtual environment to run in."""
NODE_NAME: Final = "SHOAL_NODE_NAME"
VISIBLE_DEVICES: Final = "CUDA_VISIBLE_DEVICES"

_INHERITED: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"}
)
_USER_SPECIFIC: Final = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"})
_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_HOSTS: Final = "/etc/hosts"


class EnvironmentContext(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of a container's environment besides the pod."""

    location: PodLocation
    sources: ReferencedObjects
    host_env: Mapping[str, str]
    """The environment of the daemon."""
    gpus: tuple[int, ...] | None = None
    """Assigned GPUs; None if the node has none, so that there is nothing to hide."""
    other_user: bool = False
    """Whether the container runs as another user than the daemon."""
    peers: Mapping[str, str] = {}
    """Addresses of the hosts of the pod's service, where hosts files cannot be mounted."""
    replace_names: Callable[[str], str] = lambda text: text
    """Replaces host names in a value by addresses, where hosts files cannot be mounted."""


def build_environment(pod: Object, container: Object, context: EnvironmentContext) -> dict[str, str]:
    """All variables of a container; ConfigError if a required reference is missing."""
    variables = _host_variables(context) | _shoal_variables(pod, context) | _venv_variables(pod, context)
    for source in container.get("envFrom", ()):
        variables |= _env_from(source, context.sources)
    for variable in container.get("env", ()):
        value = _value(pod, container, variable, variables, context)
        if value is not None:
            variables[variable["name"]] = value
    return {name: context.replace_names(value) for name, value in variables.items()}


# --- variables that every container has --------------------------------------------------------------------


def _host_variables(context: EnvironmentContext) -> dict[str, str]:
    kept = {name: text for name, text in context.host_env.items() if name in _INHERITED or name[:3] == "LC_"}
    if context.other_user:
        kept = {name: text for name, text in kept.items() if name not in _USER_SPECIFIC} | {"HOME": "/"}
    return {"PATH": _DEFAULT_PATH} | kept


def _shoal_variables(pod: Object, context: EnvironmentContext) -> dict[str, str]:
    metadata, location = pod["metadata"], context.location
    variables = {
        "HOSTNAME": pod["spec"].get("hostname") or metadata["name"],
        "SHOAL_POD_NAME": metadata["name"],
        "SHOAL_POD_NAMESPACE": metadata["namespace"],
        "SHOAL_POD_IP": location.ip,
        NODE_NAME: location.node.name,
    }
    if context.peers:
        variables["SHOAL_PEERS"] = ",".join(f"{host}={address}" for host, address in context.peers.items())
    return variables | ({} if context.gpus is None else {VISIBLE_DEVICES: ",".join(map(str, context.gpus))})


def _venv_variables(pod: Object, context: EnvironmentContext) -> dict[str, str]:
    directory = pod["metadata"].get("annotations", {}).get(VENV_ANNOTATION)
    if not directory:
        return {}
    if not Path(directory, "bin").is_dir():
        raise ConfigError(
            f"{VENV_ANNOTATION}: {directory} is not a virtual environment: it has no bin directory"
        )
    path = context.host_env.get("PATH", _DEFAULT_PATH)
    return {"VIRTUAL_ENV": directory, "PATH": f"{directory}/bin:{path}"}


# --- variables of the pod ----------------------------------------------------------------------------------


def _env_from(source: Object, sources: ReferencedObjects) -> dict[str, str]:
    """All keys of a config map or secret that are valid variable names."""
    target = source.get("configMapRef") or source.get("secretRef") or {}
    data = resolve_data(sources, source, target) or {}
    prefix = source.get("prefix", "")
    return {
        f"{prefix}{key}": value.decode(errors="replace")
        for key, value in sorted(data.items())
        if _NAME.fullmatch(f"{prefix}{key}")
    }


def _value(
    pod: Object, container: Object, variable: Object, known: Mapping[str, str], context: EnvironmentContext
) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return expand_variables(variable.get("value", ""), known)
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"], context.location)
    if "resourceFieldRef" in source:
        return resource_value(
            _referenced_container(pod, container, source["resourceFieldRef"]),
            source["resourceFieldRef"],
            context.location.node,
        )
    return _key_value(pod, source, context.sources)


def _referenced_container(pod: Object, container: Object, reference: Object) -> Object:
    """The container that a resource reference names; by default the container itself."""
    return containers_by_name(pod).get(reference.get("containerName", ""), container)


def _key_value(pod: Object, source: Object, sources: ReferencedObjects) -> str | None:
    target = source.get("configMapKeyRef") or source.get("secretKeyRef") or {}
    data = resolve_data(sources, source, target)
    if data is not None and target["key"] in data:
        return data[target["key"]].decode(errors="replace")
    if data is None or target.get("optional"):
        return None
    kind, name = parse_reference(source) or ("", "")
    raise ConfigError(f"couldn't find key {target['key']} in {kind} {pod['metadata']['namespace']}/{name}")


class PodSandbox(msgspec.Struct, frozen=True, kw_only=True):
    """The pod's place on this machine: its directory, its hosts file, and whether mounts are possible."""

    directory: Path
    """The directory of the pod."""
    hosts: Path
    mounts: bool
    user: int
    """User id of the daemon."""

    @property
    def scratch(self) -> Path:
        """The default working directory of containers."""
        return self.directory / "scratch"

    @property
    def volumes(self) -> Path:
        return self.directory / "volumes"


class RunAsIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """User and groups of a container; None means those of the daemon."""

    user: int | None = None
    group: int | None = None
    groups: list[int] = []


def run_as_identity(pod: Object, container: Object, user: int) -> RunAsIdentity:
    """User and groups of a container. The default group of a user is its group in the user database."""
    of_pod = pod["spec"].get("securityContext") or {}
    context = of_pod | (container.get("securityContext") or {})
    groups = list(of_pod.get("supplementalGroups", ()))
    if of_pod.get("fsGroup") is not None:
        groups.append(of_pod["fsGroup"])
    if user != 0 or not (groups or {"runAsUser", "runAsGroup"} & context.keys()):
        return RunAsIdentity()
    user_id = context.get("runAsUser", user)
    return RunAsIdentity(user=user_id, group=context.get("runAsGroup", _group_of(user_id)), groups=groups)


def build_container_spec(
    pod: Object, container: Object, attempt: int, env_context: EnvironmentContext, sandbox: PodSandbox
) -> ContainerSpec:
    """The process to start; ConfigError if a required reference is missing."""
    identity = run_as_identity(pod, container, sandbox.user)
    other_user = identity.user not in (None, sandbox.user)
    variables = build_environment(pod, container, msgspec.structs.replace(env_context, other_user=other_user))
    words = [*container.get("command", ()), *container.get("args", ())]
    return ContainerSpec(
        pod=pod["metadata"]["uid"],
        container=container["name"],
        attempt=attempt,
        argv=[expand_variables(word, variables) for word in words],
        env=variables,
        cwd=container.get("workingDir") or ("/" if other_user else str(sandbox.scratch)),
        grace=float(pod["spec"].get("terminationGracePeriodSeconds", 30)),
        mounts=_mounts(pod, container, sandbox, variables),
        limits=_limits(container),
        user=identity.user,
        group=identity.group,
        groups=identity.groups,
    )


def _mounts(pod: Object, container: Object, sandbox: PodSandbox, variables: dict[str, str]) -> list[Mount]:
    if not sandbox.mounts:
        return []
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    mounts = [
        one for one in container.get("volumeMounts", ()) if not is_present_on_host(one, volumes[one["name"]])
    ]
    hosts = Mount(source=str(sandbox.hosts), target=_HOSTS, read_only=True)
    return [*container_mounts(pod, container | {"volumeMounts": mounts}, sandbox.volumes, variables), hosts]


def _limits(container: Object) -> Limits:
    limits = container.get("resources", {}).get("limits", {})
    cpu, memory = limits.get("cpu"), limits.get("memory")
    return Limits(
        cpu=Quantity(cpu).nano / NANO if cpu is not None else None,
        memory=Quantity(memory).nano // NANO if memory is not None else None,
    )


def _group_of(user: int) -> int:
    try:
        return pwd.getpwuid(user).pw_gid
    except KeyError:
        return user
