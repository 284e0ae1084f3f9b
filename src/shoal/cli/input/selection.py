"""Which objects and containers a command is about.

Arguments name objects as in kubectl: `pods`, `pods,jobs`, `pod a b`, `pod/a job/b`, `all`. Other commands
select them by files, by labels, by fields, or all of a kind.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from shoal.api.conditions import FINISHED_PHASES
from shoal.cli.input.options import (
    all_namespaces_option,
    all_option,
    field_selector_option,
    filename_options,
    selector_option,
    targets_argument,
)
from shoal.cli.input.session import Failures, Session, session_option
from shoal.client.client import ObjectName
from shoal.cluster.errors import NotFoundError
from shoal.cluster.port import Selector
from shoal.cluster.resources import Object, Resource

_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_FINISHED_CONDITIONS: Final = ("Complete", "Failed")
"""Conditions of a batch Job that has ended."""


# --- arguments ---------------------------------------------------------------------------------------------


class Target(msgspec.Struct, frozen=True):
    """Objects of one kind: the named ones, or all that match a selector if none is named."""

    resource: Resource[Object]
    names: tuple[str, ...] = ()


def parse_targets(session: Session, arguments: Sequence[str]) -> list[Target]:
    """Parse arguments into targets, one per kind; UsageError if the forms are mixed."""
    if any("/" in argument for argument in arguments):
        return _parse_kind_names(session, arguments)
    kinds, *names = arguments
    found = [resource for kind in kinds.split(",") for resource in session.kinds.resolve(kind)]
    return [Target(resource, tuple(names)) for resource in dict.fromkeys(found)]


def parse_target(session: Session, arguments: Sequence[str]) -> tuple[Resource[Object], str]:
    """Parse arguments that must name exactly one object."""
    match parse_targets(session, arguments):
        case [Target(resource, (name,))]:
            return resource, name
    raise click.UsageError("name one object: KIND/NAME, or KIND NAME")


def _parse_kind_names(session: Session, arguments: Sequence[str]) -> list[Target]:
    """Parse arguments that are all KIND/NAME."""
    found: dict[Resource[Object], list[str]] = {}
    for argument in arguments:
        kind, slash, name = argument.partition("/")
        if not slash:
            raise click.UsageError(
                f"'{argument}' has no kind: either all arguments are KIND/NAME, or the first is a KIND"
            )
        if not kind or not name or "/" in name:
            raise click.UsageError(f"'{argument}' is not KIND/NAME")
        found.setdefault(session.kinds.resolve_one(kind), []).append(name)
    return [Target(resource, tuple(names)) for resource, names in found.items()]


def make_selector(
    session: Session,
    resource: Resource[Any],
    labels: str = "",
    fields: str = "",
    *,
    all_namespaces: bool = False,
) -> Selector:
    """Build the selector for a list or a watch of a kind in the session's namespace."""
    return Selector(session.namespace_for(resource, all_namespaces=all_namespaces), labels, fields)


# --- objects -----------------------------------------------------------------------------------------------


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments and options that select objects."""

    arguments: Sequence[str] = ()
    filenames: Sequence[str] = ()
    recursive: bool = False
    selector: str = ""
    field_selector: str = ""
    all: bool = False
    all_namespaces: bool = False


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what selects objects: names, files, selectors or all; and the parameter `session`."""
    for option in (
        all_option,
        all_namespaces_option,
        field_selector_option,
        selector_option,
        filename_options(required=False),
    ):
        command = option(command)
    return targets_argument("KIND [NAME]...")(session_option(command))


def select_objects(session: Session, selection: Selection) -> Iterator[ObjectName]:
    """The selected objects; UsageError if nothing is selected."""
    if selection.filenames:
        from shoal.cli.input import manifests

        for manifest in manifests.read(session, selection.filenames, recursive=selection.recursive):
            yield ObjectName(manifest.resource, manifest.name, manifest.namespace)
        return
    if not selection.arguments:
        raise click.UsageError("name objects (KIND NAME, KIND/NAME), or files with -f")
    for target in parse_targets(session, selection.arguments):
        namespace = session.namespace_for(target.resource, all_namespaces=selection.all_namespaces)
        yield from (ObjectName(target.resource, name, namespace) for name in target.names)
        if not target.names:
            yield from _list_matching(session, selection, target.resource, namespace)


def _list_matching(
    session: Session, selection: Selection, resource: Resource[Any], namespace: str
) -> Iterator[ObjectName]:
    """The objects of a kind that match the selectors."""
    if not (selection.all or selection.selector or selection.field_selector):
        raise click.UsageError(f"name {resource.plural}, select some with -l, or all with --all")
    selector = make_selector(
        session,
        resource,
        selection.selector,
        selection.field_selector,
        all_namespaces=selection.all_namespaces,
    )
    for item in session.client.list(resource, selector):
        metadata = item["metadata"]
        yield ObjectName(resource, metadata["name"], metadata.get("namespace", namespace))


def get_current(session: Session, name: ObjectName, failures: Failures) -> Object | None:
    """Get an object; None if it does not exist, which is reported as a failure."""
    try:
        return session.client.get(name.resource, name.name, name.namespace)
    except NotFoundError as problem:
        failures.report(f"Error from server ({problem.reason}): {problem.message}")
        return None


# --- pods and containers -----------------------------------------------------------------------------------


def is_owned_by(pod: Object, owner: Object) -> bool:
    """Whether a pod has an owner reference to an object."""
    uid = owner["metadata"]["uid"]
    return any(reference.get("uid") == uid for reference in pod["metadata"].get("ownerReferences") or ())


def is_finished(job: Object) -> bool:
    """Whether a job of any kind has succeeded or failed."""
    status = job.get("status") or {}
    if status.get("phase") in FINISHED_PHASES or status.get("stage") in FINISHED_PHASES:
        return True
    return any(
        condition.get("type") in _FINISHED_CONDITIONS and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def container_names(pod: Object) -> list[str]:
    """All containers of a pod in the order they are started: init containers first."""
    spec = pod.get("spec") or {}
    return [
        str(container["name"])
        for part in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(part) or ()
    ]


def default_container(pod: Object, *, quiet: bool = False) -> str:
    """Container to use when none is named; printed on standard error if there are others."""
    annotated = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER, "")
    names = [str(container["name"]) for container in (pod.get("spec") or {}).get("containers") or ()]
    default = annotated if annotated in names else names[0]
    if len(container_names(pod)) > 1 and not annotated and not quiet:
        others = [*names, *(f"{name} (init)" for name in container_names(pod) if name not in names)]
        click.echo(f'Defaulted container "{default}" out of: {", ".join(others)}', err=True)
    return default


def restart_count(pod: Object, container: str) -> int | None:
    """Restart count of a container that runs or has run; None if it has never started."""
    status = pod.get("status") or {}
    for part in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for each in status.get(part) or ():
            if each.get("name") == container and {"running", "terminated"} & set(each.get("state") or ()):
                return int(each.get("restartCount") or 0)
    return None
