"""What a command is about, as kubectl is told: `pods`, `pods,jobs`, `pod a b`, `pod/a job/b`, `all`."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from shoal.cli.input.session import Session
from shoal.cluster.port import Where
from shoal.cluster.resources import Object, Resource


class Wanted(msgspec.Struct, frozen=True):
    """Objects of one kind: those that are named, or all that a selector leaves."""

    resource: Resource[Object]
    names: tuple[str, ...] = ()


def wanted(session: Session, arguments: Sequence[str]) -> list[Wanted]:
    """What the arguments mean, kind by kind; UsageError if they do not go together."""
    if any("/" in argument for argument in arguments):
        return _each_with_its_kind(session, arguments)
    kinds, *names = arguments
    found = [resource for kind in kinds.split(",") for resource in session.kinds.named(kind)]
    return [Wanted(resource, tuple(names)) for resource in dict.fromkeys(found)]


def one(session: Session, arguments: Sequence[str]) -> tuple[Resource[Object], str]:
    """The one object that the arguments mean."""
    match wanted(session, arguments):
        case [Wanted(resource, (name,))]:
            return resource, name
    raise click.UsageError("name one object: KIND/NAME, or KIND NAME")


def _each_with_its_kind(session: Session, arguments: Sequence[str]) -> list[Wanted]:
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
    return [Wanted(resource, tuple(names)) for resource, names in found.items()]


def where(
    session: Session, resource: Resource[Any], labels: str = "", fields: str = "", *, everywhere: bool = False
) -> Where:
    """Where to look for objects of a kind."""
    return Where(session.space(resource, everywhere=everywhere), labels, fields)
