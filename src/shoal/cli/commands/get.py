"""`--sort-by`: objects in the order of one of their fields.

`shoal get`: objects of a cluster, as a table, for programs, or as they change.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from shoal.cli.input.completion import complete_targets
from shoal.cli.input.options import all_namespaces_option, field_selector_option, selector_option
from shoal.cli.input.selection import Target, list_options, parse_targets
from shoal.cli.input.session import Failures, Session, session_option
from shoal.cli.output.jsonpath import PathError, as_text, evaluate
from shoal.cli.output.printing import TypedObject, output_option, print_object, print_objects
from shoal.cli.output.tables import TablePrinter, TableStyle, as_table
from shoal.client.client import TABLE_MEDIA_TYPE
from shoal.cluster.errors import NotFoundError
from shoal.cluster.resources import Object, Resource


def sort_key(path: str, thing: Object) -> tuple[int, float, str]:
    """Where an object comes: those without the field first, then by number, then by text."""
    try:
        values = evaluate(path, thing)
    except PathError as problem:
        raise click.UsageError(str(problem)) from None
    match values:
        case []:
            return (0, 0.0, "")
        case [int() | float() as value, *_] if not isinstance(value, bool):
            return (1, float(value), "")
    return (2, 0.0, as_text(values[0]))


class GetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, and how it is to be shown."""

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
    def table(self) -> bool:
        """Whether it is for people."""
        return self.output in ("", "wide")

    def style(self, resource: Resource[Any], *, kinds: bool) -> TableStyle:
        """How a table of a kind is drawn."""
        return TableStyle(
            wide=self.output == "wide",
            namespaces=self.all_namespaces and resource.namespaced,
            kinds=kinds,
            labels=self.show_labels,
            label_columns=self.label_columns,
            headers=not self.no_headers,
        )


@click.command()
@click.argument("wanted", nargs=-1, required=True, metavar="KIND [NAME]...", shell_complete=complete_targets)
@session_option
@output_option("wide")
@selector_option
@field_selector_option
@all_namespaces_option
@click.option("-w", "--watch", is_flag=True, help="Go on, and print what changes.")
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
@click.option("--show-labels", is_flag=True, help="Print all labels in a last column.")
@click.option(
    "-L", "--label-columns", multiple=True, metavar="LABEL", help="Print a label in a column of its own."
)
@click.option("--sort-by", default="", metavar="PATH", help="Sort by a field, named by a JSONPath.")
@click.option("--ignore-not-found", is_flag=True, help="Do not mind objects that are not there.")
def get(session: Session, wanted: Sequence[str], label_columns: Sequence[str], **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Print objects: all of some kinds, or those that are named.

    A KIND is named as kubectl names it (pods, po, jobs.batch); several with commas between them, and `all`
    for those that people work with.

    \b
    Examples:
      shoal get pods                             those of the namespace
      shoal get pools,tyjobs,pods -A -o wide     of several kinds, everywhere
      shoal get dijob/cartpole -o yaml           one, whole
      shoal get pods -l team=a -w                as they change
      shoal get pods -o jsonpath='{.items[*].spec.nodeName}'
    """
    labels = tuple(name for said_at_once in label_columns for name in said_at_once.split(","))
    look = GetOptions(label_columns=labels, **said)
    targets = parse_targets(session, wanted)
    if look.watch:
        _watch(session, targets, look)
    elif look.table:
        _draw(session, targets, look)
    else:
        _print(session, targets, look)


# --- once --------------------------------------------------------------------------------------------------


def _print(session: Session, targets: Sequence[Target], look: GetOptions) -> None:
    failures, found = Failures(), list[TypedObject]()
    for target in targets:
        found += _read_objects(session, target, look, failures)
    single = sum(len(target.names) for target in targets) == 1
    if found or not single:
        print_objects(_sorted(found, look), look.output, single=single)
    failures.end()


def _read_objects(
    session: Session, target: Target, look: GetOptions, failures: Failures
) -> Iterator[TypedObject]:
    resource = target.resource
    if not target.names:
        where = list_options(
            session, resource, look.selector, look.field_selector, everywhere=look.all_namespaces
        )
        yield from ((resource, thing) for thing in session.client.list(resource, where))
    for name in target.names:
        with failures.noted():
            if (thing := _get_object(session, resource, name, look)) is not None:
                yield resource, thing


def _get_object(
    session: Session, resource: Resource[Any], name: str, look: GetOptions, **more: str
) -> Object | None:
    try:
        return session.client.get(resource, name, session.space(resource), **more)
    except NotFoundError:
        if look.ignore_not_found:
            return None
        raise


def _sorted(found: Sequence[TypedObject], look: GetOptions) -> Sequence[TypedObject]:
    if not look.sort_by:
        return found

    return sorted(found, key=lambda one: sort_key(look.sort_by, one[1]))


# --- tables ------------------------------------------------------------------------------------------------


def _draw(session: Session, targets: Sequence[Target], look: GetOptions) -> None:
    failures, drawn = Failures(), 0
    for target in targets:
        tables = [*_read_tables(session, target, look, failures)]
        rows = [row for table in tables for row in table.get("rows") or ()]
        if rows:
            click.echo("\n" if drawn else "", nl=False)
            drawer = TablePrinter(target.resource, look.style(target.resource, kinds=len(targets) > 1))
            drawer.know(tables[0]["columnDefinitions"])
            drawer.draw(_sorted_rows(rows, look))
        drawn += bool(rows)
    if not drawn and not failures.count and not look.ignore_not_found:
        click.echo(_none_found(session, targets, look), err=True)
    failures.end()


def _read_tables(session: Session, target: Target, look: GetOptions, failures: Failures) -> Iterator[Object]:
    resource, include = target.resource, "Object" if look.sort_by else "Metadata"
    if not target.names:
        where = list_options(
            session, resource, look.selector, look.field_selector, everywhere=look.all_namespaces
        )
        pages = session.client.pages(resource, where, accept=TABLE_MEDIA_TYPE, include=include)
        yield from map(as_table, pages)
    for name in target.names:
        with failures.noted():
            found = _get_object(session, resource, name, look, accept=TABLE_MEDIA_TYPE, includeObject=include)
            if found is not None:
                yield as_table(found)


def _sorted_rows(rows: list[Object], look: GetOptions) -> list[Object]:
    if not look.sort_by:
        return rows

    return sorted(rows, key=lambda row: sort_key(look.sort_by, row["object"]))


def _none_found(session: Session, targets: Sequence[Target], look: GetOptions) -> str:
    if look.all_namespaces or not any(target.resource.namespaced for target in targets):
        return "No resources found"
    return f"No resources found in {session.namespace} namespace."


# --- watches -----------------------------------------------------------------------------------------------


def _watch(session: Session, targets: Sequence[Target], look: GetOptions) -> None:
    from shoal.client.watch import Watcher

    if len(targets) != 1 or len(targets[0].names) > 1:
        raise click.UsageError("only one kind can be watched at a time, or one object")
    (target,) = targets
    fields = ",".join(
        filter(None, [look.field_selector, *(f"metadata.name={name}" for name in target.names)])
    )
    where = list_options(session, target.resource, look.selector, fields, everywhere=look.all_namespaces)
    drawer = TablePrinter(target.resource, look.style(target.resource, kinds=False))
    for change in Watcher(session.client, target.resource, where, rows=look.table).changes():
        if look.table:
            drawer.know(change.columns)
            drawer.draw([change.row or {"cells": [change.object["metadata"]["name"]]}])
        elif look.output == "name":
            print_objects([(target.resource, change.object)], look.output, single=True)
        else:
            print_object(change.object, look.output)
