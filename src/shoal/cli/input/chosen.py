"""Objects that a command changes: in files, by name, by labels, or all of a kind."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from shoal.cli.input import naming
from shoal.cli.input.session import Failures, Session
from shoal.client.client import Named
from shoal.cluster.errors import NotFoundError
from shoal.cluster.resources import Object, Resource


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects are meant, as the command line says it."""

    wanted: Sequence[str] = ()
    filenames: Sequence[str] = ()
    recursive: bool = False
    selector: str = ""
    field_selector: str = ""
    all: bool = False
    all_namespaces: bool = False


def chosen(session: Session, choice: Choice) -> Iterator[Named]:
    """The objects that are meant; UsageError if nothing is, or nobody could tell what."""
    if choice.filenames:
        from shoal.cli.input import manifests

        for manifest in manifests.read(session, choice.filenames, recursive=choice.recursive):
            yield Named(manifest.resource, manifest.name, manifest.namespace)
        return
    if not choice.wanted:
        raise click.UsageError("name objects (KIND NAME, KIND/NAME), or files with -f")
    for target in naming.wanted(session, choice.wanted):
        space = session.space(target.resource, everywhere=choice.all_namespaces)
        yield from (Named(target.resource, name, space) for name in target.names)
        if not target.names:
            yield from _selected(session, choice, target.resource, space)


def _selected(session: Session, choice: Choice, resource: Resource[Any], space: str) -> Iterator[Named]:
    if not (choice.all or choice.selector or choice.field_selector):
        raise click.UsageError(f"name {resource.plural}, or choose some with -l, or all with --all")
    where = naming.where(
        session, resource, choice.selector, choice.field_selector, everywhere=choice.all_namespaces
    )
    for thing in session.client.list(resource, where):
        metadata = thing["metadata"]
        yield Named(resource, metadata["name"], metadata.get("namespace", space))


def current(session: Session, one: Named, failures: Failures) -> Object | None:
    """The object as it is; None if it is gone, which is said."""
    try:
        return session.client.get(one.resource, one.name, one.namespace)
    except NotFoundError as problem:
        failures.say(f"Error from server ({problem.reason}): {problem.message}")
        return None
