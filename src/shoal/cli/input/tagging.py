"""Labels and annotations changed from the command line: `a=b` sets, `a-` takes away."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from shoal.cli.input.chosen import Choice, chosen, current
from shoal.cli.input.session import Failures, Refused, Session
from shoal.cli.output.printing import name_of, print_found, rehearsal
from shoal.client.client import Named
from shoal.cluster.resources import Object


class Words(msgspec.Struct, frozen=True):
    """What is spoken of: the field, and what is said when it was changed."""

    field: str
    singular: str
    done: str


class Tags(msgspec.Struct, frozen=True):
    """What to set, and what to take away."""

    set: Mapping[str, str]
    gone: tuple[str, ...]


def split(arguments: Sequence[str]) -> tuple[list[str], Tags]:
    """What the objects are, and what becomes of their tags."""
    about = [one for one in arguments if "=" not in one and not one.endswith("-")]
    pairs = [one.partition("=") for one in arguments if "=" in one]
    gone = [one[:-1] for one in arguments if "=" not in one and one.endswith("-")]
    said = {key: value for key, _, value in pairs}
    if both := sorted(said.keys() & set(gone)):
        raise click.UsageError(f"{', '.join(both)}: set or taken away, but not both")
    return about, Tags(said, tuple(gone))


class How(msgspec.Struct, frozen=True, kw_only=True):
    """How it is done, as the options say."""

    overwrite: bool
    list_: bool
    dry_run: str
    output: str


class _Tagging(msgspec.Struct, frozen=True):
    """What is changed, of which field, and how."""

    words: Words
    tags: Tags
    how: How


def tag_all(session: Session, words: Words, arguments: Sequence[str], **said: Any) -> None:  # noqa: ANN401 - options
    """Change tags of all objects that are meant, or list them."""
    about, tags = split(arguments)
    how = How(**{name: said.pop(name) for name in How.__struct_fields__})
    if not tags.set and not tags.gone and not how.list_:
        raise click.UsageError(f"say which {words.singular} to set (a=b) or to take away (a-)")
    failures, tagging = Failures(), _Tagging(words, tags, how)
    for one in chosen(session, Choice(wanted=about, **said)):
        with failures.noted():
            if (thing := current(session, one, failures)) is not None:
                _tag(session, one, thing, tagging)
    failures.end()


def _tag(session: Session, one: Named, thing: Object, tagging: _Tagging) -> None:
    words, tags, how = tagging.words, tagging.tags, tagging.how
    name = name_of(one.resource, one.name)
    if how.list_:
        _list(name, thing, words)
        return
    if not how.overwrite and (taken := _taken(thing, words, tags)):
        raise Refused(f"error: {taken}, and --overwrite is false")
    made, done = _changed(session, one, thing, tagging)
    if how.output:
        print_found([(one.resource, made)], how.output, single=True)
    else:
        click.echo(f"{name} {done}{rehearsal(how.dry_run)}")


def _changed(session: Session, one: Named, thing: Object, tagging: _Tagging) -> tuple[Object, str]:
    words, tags, how = tagging.words, tagging.tags, tagging.how
    before: dict[str, str] = thing["metadata"].get(words.field) or {}
    patch = {key: value for key, value in tags.set.items() if before.get(key) != value}
    patch |= {key: None for key in tags.gone if key in before}  # type: ignore[misc] # null takes away
    for key in tags.gone:
        if key not in before:
            click.echo(f'{words.singular} "{key}" not found.')
    if not patch:
        return thing, f"not {words.done}" if words.field == "labels" else words.done
    done = words.done if tags.set else f"un{words.done}" if words.field == "labels" else words.done
    if how.dry_run == "client":
        return thing, done
    body = {"metadata": {words.field: patch}}
    rehearsed = how.dry_run == "server"
    made = session.client.patch(one.resource, one.name, one.namespace, patch=body, dry_run=rehearsed)
    return made, done


def _taken(thing: Object, words: Words, tags: Tags) -> str:
    """What is set to something else already."""
    before = thing["metadata"].get(words.field) or {}
    taken = [key for key, value in tags.set.items() if before.get(key, value) != value]
    return "; ".join(f"'{key}' already has a value ({before[key]})" for key in taken)


def _list(name: str, thing: Object, words: Words) -> None:
    click.echo(f"Listing {words.field} for {name}:")
    for key, value in sorted((thing["metadata"].get(words.field) or {}).items()):
        click.echo(f" {key}={value}")
