"""What a command is about, as kubectl is told: `pods`, `pods,jobs`, `pod a b`, `pod/a job/b`, `all`."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from shoal.cli.input.session import Failures, Session
from shoal.client.client import ObjectName
from shoal.cluster.errors import NotFoundError
from shoal.cluster.port import Selector
from shoal.cluster.resources import Object, Resource


class Target(msgspec.Struct, frozen=True):
    """Objects of one kind: those that are named, or all that a selector leaves."""

    resource: Resource[Object]
    names: tuple[str, ...] = ()


def parse_targets(session: Session, arguments: Sequence[str]) -> list[Target]:
    """What the arguments mean, kind by kind; UsageError if they do not go together."""
    if any("/" in argument for argument in arguments):
        return _each_with_its_kind(session, arguments)
    kinds, *names = arguments
    found = [resource for kind in kinds.split(",") for resource in session.kinds.named(kind)]
    return [Target(resource, tuple(names)) for resource in dict.fromkeys(found)]


def parse_target(session: Session, arguments: Sequence[str]) -> tuple[Resource[Object], str]:
    """The one object that the arguments mean."""
    match parse_targets(session, arguments):
        case [Target(resource, (name,))]:
            return resource, name
    raise click.UsageError("name one object: KIND/NAME, or KIND NAME")


def _each_with_its_kind(session: Session, arguments: Sequence[str]) -> list[Target]:
    found: dict[Resource[Object], list[str]] = {}
    for argument in arguments:
        kind, slash, name = argument.partition("/")
        if not slash:
            raise click.UsageError(
                f"'{argument}' has no kind: either all arguments are KIND/NAME, or the first is a KIND"
            )
        if not kind or not name or "/" in name:
            raise click.UsageError(f"'{argument}' is not KIND/NAME")
        found.setdefault(session.kinds.one(kind), []).append(name)
    return [Target(resource, tuple(names)) for resource, names in found.items()]


def list_options(
    session: Session, resource: Resource[Any], labels: str = "", fields: str = "", *, everywhere: bool = False
) -> Selector:
    """Where to look for objects of a kind."""
    return Selector(session.space(resource, everywhere=everywhere), labels, fields)


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects are meant, as the command line says it."""

    wanted: Sequence[str] = ()
    filenames: Sequence[str] = ()
    recursive: bool = False
    selector: str = ""
    field_selector: str = ""
    all: bool = False
    all_namespaces: bool = False


def select_objects(session: Session, choice: Selection) -> Iterator[ObjectName]:
    """The objects that are meant; UsageError if nothing is, or nobody could tell what."""
    if choice.filenames:
        from shoal.cli.input import manifests

        for manifest in manifests.read(session, choice.filenames, recursive=choice.recursive):
            yield ObjectName(manifest.resource, manifest.name, manifest.namespace)
        return
    if not choice.wanted:
        raise click.UsageError("name objects (KIND NAME, KIND/NAME), or files with -f")
    for target in parse_targets(session, choice.wanted):
        space = session.space(target.resource, everywhere=choice.all_namespaces)
        yield from (ObjectName(target.resource, name, space) for name in target.names)
        if not target.names:
            yield from _selected(session, choice, target.resource, space)


def _selected(session: Session, choice: Selection, resource: Resource[Any], space: str) -> Iterator[ObjectName]:
    if not (choice.all or choice.selector or choice.field_selector):
        raise click.UsageError(f"name {resource.plural}, or choose some with -l, or all with --all")
    where = list_options(
        session, resource, choice.selector, choice.field_selector, everywhere=choice.all_namespaces
    )
    for thing in session.client.list(resource, where):
        metadata = thing["metadata"]
        yield ObjectName(resource, metadata["name"], metadata.get("namespace", space))


def get_current(session: Session, one: ObjectName, failures: Failures) -> Object | None:
    """The object as it is; None if it is gone, which is said."""
    try:
        return session.client.get(one.resource, one.name, one.namespace)
    except NotFoundError as problem:
        failures.say(f"Error from server ({problem.reason}): {problem.message}")
        return None


_DEFAULT = "kubectl.kubernetes.io/default-container"


def container_names(pod: Object) -> list[str]:
    """All containers of a pod, those that come first first."""
    spec = pod.get("spec") or {}
    return [
        str(container["name"])
        for part in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(part) or ()
    ]


def default_container(pod: Object, *, quiet: bool = False) -> str:
    """The container that is meant if none is named, said on standard error if there are others."""
    said = (pod["metadata"].get("annotations") or {}).get(_DEFAULT, "")
    there = [str(container["name"]) for container in (pod.get("spec") or {}).get("containers") or ()]
    chosen = said if said in there else there[0]
    if len(container_names(pod)) > 1 and not said and not quiet:
        others = [*there, *(f"{name} (init)" for name in container_names(pod) if name not in there)]
        click.echo(f'Defaulted container "{chosen}" out of: {", ".join(others)}', err=True)
    return chosen


def restart_count(pod: Object, container: str) -> int | None:
    """How often a container was started again, if it runs or has run; None if it never did."""
    status = pod.get("status") or {}
    for part in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for one in status.get(part) or ():
            if one.get("name") == container and {"running", "terminated"} & set(one.get("state") or ()):
                return int(one.get("restartCount") or 0)
    return None


# --- whose -------------------------------------------------------------------------------------------------


def is_owned_by(pod: Object, owner: Object) -> bool:
    """Whether a pod belongs to an object."""
    uid = owner["metadata"]["uid"]
    return any(reference.get("uid") == uid for reference in pod["metadata"].get("ownerReferences") or ())
