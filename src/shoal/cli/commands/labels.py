"""Options that many commands have, each said once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from shoal.cli.input.options import (
    all_namespaces_option,
    all_option,
    dry_run_option,
    selector_option,
    targets_argument,
)
from shoal.cli.input.selection import Selection, get_current, select_objects
from shoal.cli.input.session import CommandError, Failures, Session, session_option
from shoal.cli.output.printing import dry_run_suffix, output_option, print_objects, typed_name
from shoal.client.client import ObjectName
from shoal.cluster.resources import Object


def metadata_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What `label` and `annotate` have: all but the words."""
    overwrite = click.option("--overwrite", is_flag=True, help="Also change what has another value.")
    listing = click.option("--list", "list_", is_flag=True, help="Print what there is.")
    for option in (output_option(), dry_run_option, listing, overwrite, all_option, selector_option):
        command = option(command)
    return targets_argument("KIND NAME... KEY=VALUE... KEY-...")(
        session_option(all_namespaces_option(command))
    )


class MetadataField(msgspec.Struct, frozen=True):
    """What is spoken of: the field, and what is said when it was changed."""

    field: str
    singular: str
    done: str


class MetadataChange(msgspec.Struct, frozen=True):
    """What to set, and what to take away."""

    set: Mapping[str, str]
    gone: tuple[str, ...]


def parse_changes(arguments: Sequence[str]) -> tuple[list[str], MetadataChange]:
    """What the objects are, and what becomes of their tags."""
    about = [one for one in arguments if "=" not in one and not one.endswith("-")]
    pairs = [one.partition("=") for one in arguments if "=" in one]
    gone = [one[:-1] for one in arguments if "=" not in one and one.endswith("-")]
    said = {key: value for key, _, value in pairs}
    if both := sorted(said.keys() & set(gone)):
        raise click.UsageError(f"{', '.join(both)}: set or taken away, but not both")
    return about, MetadataChange(said, tuple(gone))


class MetadataOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How it is done, as the options say."""

    overwrite: bool
    list_: bool
    dry_run: str
    output: str


class _Update(msgspec.Struct, frozen=True):
    """What is changed, of which field, and how."""

    words: MetadataField
    tags: MetadataChange
    how: MetadataOptions


def update_metadata(session: Session, words: MetadataField, arguments: Sequence[str], **said: Any) -> None:  # noqa: ANN401 - options
    """Change tags of all objects that are meant, or list them."""
    about, tags = parse_changes(arguments)
    how = MetadataOptions(**{name: said.pop(name) for name in MetadataOptions.__struct_fields__})
    if not tags.set and not tags.gone and not how.list_:
        raise click.UsageError(f"say which {words.singular} to set (a=b) or to take away (a-)")
    failures, tagging = Failures(), _Update(words, tags, how)
    for one in select_objects(session, Selection(wanted=about, **said)):
        with failures.noted():
            if (thing := get_current(session, one, failures)) is not None:
                _update_object(session, one, thing, tagging)
    failures.end()


def _update_object(session: Session, one: ObjectName, thing: Object, tagging: _Update) -> None:
    words, tags, how = tagging.words, tagging.tags, tagging.how
    name = typed_name(one.resource, one.name)
    if how.list_:
        _list(name, thing, words)
        return
    if not how.overwrite and (taken := _conflicts(thing, words, tags)):
        raise CommandError(f"error: {taken}, and --overwrite is false")
    made, done = _patch_object(session, one, thing, tagging)
    if how.output:
        print_objects([(one.resource, made)], how.output, single=True)
    else:
        click.echo(f"{name} {done}{dry_run_suffix(how.dry_run)}")


def _patch_object(session: Session, one: ObjectName, thing: Object, tagging: _Update) -> tuple[Object, str]:
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


def _conflicts(thing: Object, words: MetadataField, tags: MetadataChange) -> str:
    """What is set to something else already."""
    before = thing["metadata"].get(words.field) or {}
    taken = [key for key, value in tags.set.items() if before.get(key, value) != value]
    return "; ".join(f"'{key}' already has a value ({before[key]})" for key in taken)


def _list(name: str, thing: Object, words: MetadataField) -> None:
    click.echo(f"Listing {words.field} for {name}:")
    for key, value in sorted((thing["metadata"].get(words.field) or {}).items()):
        click.echo(f" {key}={value}")


_LABELS: Final = MetadataField("labels", "label", "labeled")


@click.command()
@metadata_options
def label(session: Session, wanted: Sequence[str], **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Set labels (KEY=VALUE), or take them away (KEY-).

    One that has another value already is only changed with --overwrite.

    \b
    Examples:
      shoal label pod web tier=front
      shoal label pods -l app=web tier-
      shoal label node/n1 team=a --overwrite
    """
    update_metadata(session, _LABELS, wanted, **said)


_ANNOTATIONS: Final = MetadataField("annotations", "annotation", "annotated")


@click.command()
@metadata_options
def annotate(session: Session, wanted: Sequence[str], **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Set annotations (KEY=VALUE), or take them away (KEY-).

    One that has another value already is only changed with --overwrite.

    \b
    Examples:
      shoal annotate job/train note="second try"
      shoal annotate pods --all note-
      shoal annotate pool/a owner=me --overwrite
    """
    update_metadata(session, _ANNOTATIONS, wanted, **said)
