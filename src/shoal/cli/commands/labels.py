"""`shoal label` and `shoal annotate`: set (`KEY=VALUE`) and remove (`KEY-`) labels and annotations."""

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


class MetadataField(msgspec.Struct, frozen=True):
    """The field of the metadata that a command changes, and the verb that reports a change."""

    field: str
    singular: str
    verb: str


_LABELS: Final = MetadataField("labels", "label", "labeled")
_ANNOTATIONS: Final = MetadataField("annotations", "annotation", "annotated")


def _metadata_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `label` and `annotate`."""
    overwrite = click.option("--overwrite", is_flag=True, help="Change keys that have another value.")
    listing = click.option("--list", "list_", is_flag=True, help="Print the current keys and values.")
    for option in (output_option(), dry_run_option, listing, overwrite, all_option, selector_option):
        command = option(command)
    return targets_argument("KIND NAME... KEY=VALUE... KEY-...")(
        session_option(all_namespaces_option(command))
    )


@click.command()
@_metadata_options
def label(session: Session, arguments: Sequence[str], **values: Any) -> None:  # noqa: ANN401 - one an option
    r"""Set labels (KEY=VALUE), or remove them (KEY-).

    A label that has another value is changed only with --overwrite.

    \b
    Examples:
      shoal label pod web tier=front
      shoal label pods -l app=web tier-
      shoal label node/n1 team=a --overwrite
    """
    update_metadata(session, _LABELS, arguments, **values)


@click.command()
@_metadata_options
def annotate(session: Session, arguments: Sequence[str], **values: Any) -> None:  # noqa: ANN401 - one an option
    r"""Set annotations (KEY=VALUE), or remove them (KEY-).

    An annotation that has another value is changed only with --overwrite.

    \b
    Examples:
      shoal annotate job/train note="second try"
      shoal annotate pods --all note-
      shoal annotate pool/a owner=me --overwrite
    """
    update_metadata(session, _ANNOTATIONS, arguments, **values)


class MetadataChange(msgspec.Struct, frozen=True):
    """Keys to set, and keys to remove."""

    set: Mapping[str, str]
    remove: tuple[str, ...]


class MetadataOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that say how the change is made and printed."""

    overwrite: bool
    list_: bool
    dry_run: str
    output: str


class _Update(msgspec.Struct, frozen=True):
    """One run of a command: the field, the change to it, and the options."""

    field: MetadataField
    change: MetadataChange
    options: MetadataOptions


def update_metadata(
    session: Session,
    field: MetadataField,
    arguments: Sequence[str],
    **values: Any,  # noqa: ANN401 - options
) -> None:
    """Change the labels or annotations of all selected objects, or list them."""
    names, change = parse_changes(arguments)
    options = MetadataOptions(**{name: values.pop(name) for name in MetadataOptions.__struct_fields__})
    if not change.set and not change.remove and not options.list_:
        raise click.UsageError(f"specify at least one {field.singular}: KEY=VALUE sets it, KEY- removes it")
    failures, update = Failures(), _Update(field, change, options)
    for name in select_objects(session, Selection(arguments=names, **values)):
        with failures.catch():
            if (item := get_current(session, name, failures)) is not None:
                _update_object(session, name, item, update)
    failures.exit_if_any()


def parse_changes(arguments: Sequence[str]) -> tuple[list[str], MetadataChange]:
    """Split arguments into the names of objects and the change."""
    names = [argument for argument in arguments if "=" not in argument and not argument.endswith("-")]
    assignments = [argument.partition("=") for argument in arguments if "=" in argument]
    remove = [argument[:-1] for argument in arguments if "=" not in argument and argument.endswith("-")]
    values = {key: value for key, _, value in assignments}
    if conflicts := sorted(values.keys() & set(remove)):
        raise click.UsageError(f"{', '.join(conflicts)}: cannot be both set and removed")
    return names, MetadataChange(values, tuple(remove))


def _update_object(session: Session, name: ObjectName, item: Object, update: _Update) -> None:
    field, change, options = update.field, update.change, update.options
    title = typed_name(name.resource, name.name)
    if options.list_:
        _print_list(title, item, field)
        return
    if not options.overwrite and (conflicts := _conflicts(item, field, change)):
        raise CommandError(f"error: {conflicts}, and --overwrite is false")
    result, verb = _patch_object(session, name, item, update)
    if options.output:
        print_objects([(name.resource, result)], options.output, single=True)
    else:
        click.echo(f"{title} {verb}{dry_run_suffix(options.dry_run)}")


def _patch_object(session: Session, name: ObjectName, item: Object, update: _Update) -> tuple[Object, str]:
    """Apply the change to one object; the object afterwards, and the verb to print."""
    field, change, options = update.field, update.change, update.options
    current: dict[str, str] = item["metadata"].get(field.field) or {}
    patch = {key: value for key, value in change.set.items() if current.get(key) != value}
    patch |= {key: None for key in change.remove if key in current}  # type: ignore[misc] # null removes
    for key in change.remove:
        if key not in current:
            click.echo(f'{field.singular} "{key}" not found.')
    if not patch:
        return item, f"not {field.verb}" if field.field == "labels" else field.verb
    verb = field.verb if change.set else f"un{field.verb}" if field.field == "labels" else field.verb
    if options.dry_run == "client":
        return item, verb
    body = {"metadata": {field.field: patch}}
    dry_run = options.dry_run == "server"
    result = session.client.patch(name.resource, name.name, name.namespace, patch=body, dry_run=dry_run)
    return result, verb


def _conflicts(item: Object, field: MetadataField, change: MetadataChange) -> str:
    """The keys to set that have another value already, as an error message."""
    current = item["metadata"].get(field.field) or {}
    conflicts = [key for key, value in change.set.items() if current.get(key, value) != value]
    return "; ".join(f"'{key}' already has a value ({current[key]})" for key in conflicts)


def _print_list(title: str, item: Object, field: MetadataField) -> None:
    click.echo(f"Listing {field.field} for {title}:")
    for key, value in sorted((item["metadata"].get(field.field) or {}).items()):
        click.echo(f" {key}={value}")
