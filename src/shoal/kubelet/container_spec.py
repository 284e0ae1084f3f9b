"""From a container to the process that it is to be: a pure function, but for volumes that must be there."""

import pwd
from pathlib import Path
from typing import Final

import msgspec

from shoal.api.quantity import NANO, Quantity
from shoal.cluster.resources import Object
from shoal.kubelet.environment import Surroundings, environment, expanded
from shoal.kubelet.runtime import ContainerSpec, Limits, Mount
from shoal.kubelet.volumes import already_there, mounts_of

_HOSTS: Final = "/etc/hosts"


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where on the disk a pod lives, and what can be mounted for it."""

    directory: Path
    """The pod's own."""
    hosts: Path
    mounts: bool
    user: int
    """Who we are."""

    @property
    def scratch(self) -> Path:
        """Where a container begins that does not say where."""
        return self.directory / "scratch"

    @property
    def volumes(self) -> Path:
        return self.directory / "volumes"


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a container runs as; None is who we are."""

    user: int | None = None
    group: int | None = None
    groups: list[int] = []


def person_of(pod: Object, container: Object, user: int) -> Person:
    """Whom a container runs as. A user without a group has the one that the system knows of."""
    of_pod = pod["spec"].get("securityContext") or {}
    context = of_pod | (container.get("securityContext") or {})
    groups = list(of_pod.get("supplementalGroups", ()))
    if of_pod.get("fsGroup") is not None:
        groups.append(of_pod["fsGroup"])
    if user != 0 or not (groups or {"runAsUser", "runAsGroup"} & context.keys()):
        return Person()
    wanted = context.get("runAsUser", user)
    return Person(user=wanted, group=context.get("runAsGroup", _group_of(wanted)), groups=groups)


def container_spec(
    pod: Object, container: Object, attempt: int, around: Surroundings, site: Site
) -> ContainerSpec:
    """What is to be run. ConfigError if something is missing that the container refers to."""
    person = person_of(pod, container, site.user)
    another = person.user not in (None, site.user)
    variables = environment(pod, container, msgspec.structs.replace(around, somebody_else=another))
    words = [*container.get("command", ()), *container.get("args", ())]
    return ContainerSpec(
        pod=pod["metadata"]["uid"],
        container=container["name"],
        attempt=attempt,
        argv=[expanded(word, variables) for word in words],
        env=variables,
        cwd=container.get("workingDir") or ("/" if another else str(site.scratch)),
        grace=float(pod["spec"].get("terminationGracePeriodSeconds", 30)),
        mounts=_mounts(pod, container, site, variables),
        limits=_limits(container),
        user=person.user,
        group=person.group,
        groups=person.groups,
    )


def _mounts(pod: Object, container: Object, site: Site, variables: dict[str, str]) -> list[Mount]:
    if not site.mounts:
        return []
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    wanted = [
        one for one in container.get("volumeMounts", ()) if not already_there(one, volumes[one["name"]])
    ]
    hosts = Mount(source=str(site.hosts), target=_HOSTS, read_only=True)
    return [*mounts_of(pod, container | {"volumeMounts": wanted}, site.volumes, variables), hosts]


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
