"""`shoal get`: list objects as a table, or as JSON, YAML, names or a JSONPath; watch them change."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from shoal.cli.input.options import (
    all_namespaces_option,
    field_selector_option,
    ignore_not_found_option,
    no_headers_option,
    selector_option,
    targets_argument,
)
from shoal.cli.input.selection import Target, make_selector, parse_targets
from shoal.cli.input.session import Failures, Session, session_option
from shoal.cli.output.jsonpath import PathError, as_text, evaluate
from shoal.cli.output.printing import TypedObject, output_option, print_object, print_objects
from shoal.cli.output.tables import TablePrinter, TableStyle, as_table
from shoal.client.client import TABLE_MEDIA_TYPE
from shoal.cluster.errors import NotFoundError
from shoal.cluster.resources import Object, Resource


def sort_key(path: str, item: Object) -> tuple[int, float, str]:
    """Sort key of an object for --sort-by: without the field first, then numbers, then texts."""
    try:
        values = evaluate(path, item)
    except PathError as problem:
        raise click.UsageError(str(problem)) from None
    match values:
        case []:
            return (0, 0.0, "")
        case [int() | float() as value, *_] if not isinstance(value, bool):
            return (1, float(value), "")
    return (2, 0.0, as_text(values[0]))


class GetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `shoal get`."""

    output: str
    selector: str
    field_selector: str
    all_namespaces: bool
    watch: bool
    no_headers: bool
    show_labels: bool
    label_columns: tuple[str, ...]
    sort_by: str
    ignore_not_found: bool

    @property
    def is_table(self) -> bool:
        """Whether the output is a table."""
        return self.output in ("", "wide")

    def style(self, resource: Resource[Any], *, kinds: bool) -> TableStyle:
        """The style of a kind's table."""
        return TableStyle(
            wide=self.output == "wide",
            namespaces=self.all_namespaces and resource.namespaced,
            kinds=kinds,
            labels=self.show_labels,
            label_columns=self.label_columns,
            headers=not self.no_headers,
        )


@click.command()
@targets_argument("KIND [NAME]...", required=True)
@session_option
@output_option("wide")
@selector_option
@field_selector_option
@all_namespaces_option
@click.option("-w", "--watch", is_flag=True, help="Print changes as they occur.")
@no_headers_option
@click.option("--show-labels", is_flag=True, help="Show all labels in the last column.")
@click.option("-L", "--label-columns", multiple=True, metavar="LABEL", help="Show a label as a column.")
@click.option("--sort-by", default="", metavar="PATH", help="Sort by the field at a JSONPath.")
@ignore_not_found_option
def get(session: Session, arguments: Sequence[str], label_columns: Sequence[str], **values: Any) -> None:  # noqa: ANN401 - one an option
    r"""List objects of one or several kinds, or get them by name.

    A KIND is named as in kubectl (pods, po, jobs.batch); several kinds are separated by commas, and `all` is
    the category of common kinds.

    \b
    Examples:
      shoal get pods                             pods of the namespace
      shoal get pools,tyjobs,pods -A -o wide     several kinds, all namespaces
      shoal get dijob/cartpole -o yaml           one object, all fields
      shoal get pods -l team=a -w                watch changes
      shoal get pods -o jsonpath='{.items[*].spec.nodeName}'
    """
    labels = tuple(name for group in label_columns for name in group.split(","))
    options = GetOptions(label_columns=labels, **values)
    targets = parse_targets(session, arguments)
    if options.watch:
        _watch(session, targets, options)
    elif options.is_table:
        _print_tables(session, targets, options)
    else:
        _print_objects(session, targets, options)


# --- objects -----------------------------------------------------------------------------------------------


def _print_objects(session: Session, targets: Sequence[Target], options: GetOptions) -> None:
    failures, found = Failures(), list[TypedObject]()
    for target in targets:
        found += _read_objects(session, target, options, failures)
    single = sum(len(target.names) for target in targets) == 1
    if found or not single:
        print_objects(_sorted(found, options), options.output, single=single)
    failures.exit_if_any()


def _read_objects(
    session: Session, target: Target, options: GetOptions, failures: Failures
) -> Iterator[TypedObject]:
    resource = target.resource
    if not target.names:
        selector = make_selector(
            session, resource, options.selector, options.field_selector, all_namespaces=options.all_namespaces
        )
        yield from ((resource, item) for item in session.client.list(resource, selector))
    for name in target.names:
        with failures.catch():
            if (item := _get_object(session, resource, name, options)) is not None:
                yield resource, item


def _get_object(
    session: Session, resource: Resource[Any], name: str, options: GetOptions, **more: str
) -> Object | None:
    try:
        return session.client.get(resource, name, session.namespace_for(resource), **more)
    except NotFoundError:
        if options.ignore_not_found:
            return None
        raise


def _sorted(found: Sequence[TypedObject], options: GetOptions) -> Sequence[TypedObject]:
    if not options.sort_by:
        return found
    return sorted(found, key=lambda pair: sort_key(options.sort_by, pair[1]))


# --- tables ------------------------------------------------------------------------------------------------


def _print_tables(session: Session, targets: Sequence[Target], options: GetOptions) -> None:
    failures, printed = Failures(), 0
    for target in targets:
        tables = [*_read_tables(session, target, options, failures)]
        rows = [row for table in tables for row in table.get("rows") or ()]
        if rows:
            click.echo("\n" if printed else "", nl=False)
            printer = TablePrinter(target.resource, options.style(target.resource, kinds=len(targets) > 1))
            printer.set_columns(tables[0]["columnDefinitions"])
            printer.print_rows(_sorted_rows(rows, options))
        printed += bool(rows)
    if not printed and not failures.count and not options.ignore_not_found:
        click.echo(_none_found(session, targets, options), err=True)
    failures.exit_if_any()


def _read_tables(
    session: Session, target: Target, options: GetOptions, failures: Failures
) -> Iterator[Object]:
    resource, include = target.resource, "Object" if options.sort_by else "Metadata"
    if not target.names:
        selector = make_selector(
            session, resource, options.selector, options.field_selector, all_namespaces=options.all_namespaces
        )
        pages = session.client.pages(resource, selector, accept=TABLE_MEDIA_TYPE, include=include)
        yield from map(as_table, pages)
    for name in target.names:
        with failures.catch():
            found = _get_object(
                session, resource, name, options, accept=TABLE_MEDIA_TYPE, includeObject=include
            )
            if found is not None:
                yield as_table(found)


def _sorted_rows(rows: list[Object], options: GetOptions) -> list[Object]:
    if not options.sort_by:
        return rows
    return sorted(rows, key=lambda row: sort_key(options.sort_by, row["object"]))


def _none_found(session: Session, targets: Sequence[Target], options: GetOptions) -> str:
    if options.all_namespaces or not any(target.resource.namespaced for target in targets):
        return "No resources found"
    return f"No resources found in {session.namespace} namespace."


# --- watches -----------------------------------------------------------------------------------------------


def _watch(session: Session, targets: Sequence[Target], options: GetOptions) -> None:
    from shoal.client.watch import Watcher

    if len(targets) != 1 or len(targets[0].names) > 1:
        raise click.UsageError("only one kind can be watched at a time, or one object")
    (target,) = targets
    fields = ",".join(
        filter(None, [options.field_selector, *(f"metadata.name={name}" for name in target.names)])
    )
    selector = make_selector(
        session, target.resource, options.selector, fields, all_namespaces=options.all_namespaces
    )
    printer = TablePrinter(target.resource, options.style(target.resource, kinds=False))
    for change in Watcher(session.client, target.resource, selector, rows=options.is_table).changes():
        if options.is_table:
            printer.set_columns(change.columns)
            printer.print_rows([change.row or {"cells": [change.object["metadata"]["name"]]}])
        elif options.output == "name":
            print_objects([(target.resource, change.object)], options.output, single=True)
        else:
            print_object(change.object, options.output)
