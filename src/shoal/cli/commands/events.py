"""`shoal events`: events of a namespace or of one object, the latest last."""

from collections.abc import Sequence

import click

from shoal.cli.input.options import all_namespaces_option, no_headers_option
from shoal.cli.input.selection import make_selector, parse_target
from shoal.cli.input.session import Session, session_option
from shoal.cli.output.events import EventTable, order_key
from shoal.cli.output.printing import output_option, print_object, print_objects
from shoal.cluster.port import Selector
from shoal.cluster.resources import EVENTS, Object


def _parse_types(_: click.Context, __: click.Parameter, value: Sequence[str]) -> set[str]:
    """Parse event types in any case into those of Kubernetes."""
    found = {name.strip().capitalize() for group in value for name in group.split(",")}
    if wrong := found - {"Normal", "Warning"}:
        raise click.BadParameter(f"'{min(wrong)}' is neither Normal nor Warning")
    return found


@click.command()
@session_option
@all_namespaces_option
@output_option()
@click.option("--for", "involved", default="", metavar="KIND/NAME", help="Only events of this object.")
@click.option(
    "--types", multiple=True, callback=_parse_types, metavar="TYPE,...", help="Normal, Warning or both."
)
@click.option("-w", "--watch", is_flag=True, help="Print events as they occur.")
@no_headers_option
def events(  # noqa: PLR0913 - one parameter an option
    session: Session,
    *,
    all_namespaces: bool,
    output: str,
    involved: str,
    types: set[str],
    watch: bool,
    no_headers: bool,
) -> None:
    r"""List events, the latest last.

    \b
    Examples:
      shoal events
      shoal events --for tyjob/big --types=Warning
      shoal events -A -w
    """
    selector = _event_selector(session, involved, all_namespaces=all_namespaces)
    table = EventTable(namespaces=all_namespaces, headers=not no_headers)
    if watch:
        _follow(session, selector, types, table, output)
        return
    found = [event for event in session.client.list(EVENTS, selector) if _matches(event, types)]
    if output:
        print_objects([(EVENTS, event) for event in found], output, single=False)
    elif found:
        table.print_events(sorted(found, key=order_key))
    else:
        place = "" if all_namespaces else f" in {session.namespace} namespace"
        click.echo(f"No events found{place}.", err=True)


def _event_selector(session: Session, involved: str, *, all_namespaces: bool) -> Selector:
    fields = ""
    if involved:
        resource, name = parse_target(session, [involved])
        fields = f"involvedObject.kind={resource.kind},involvedObject.name={name}"
    return make_selector(session, EVENTS, "", fields, all_namespaces=all_namespaces)


def _matches(event: Object, types: set[str]) -> bool:
    return not types or event.get("type") in types


def _follow(session: Session, selector: Selector, types: set[str], table: EventTable, output: str) -> None:
    from shoal.client.watch import Watcher

    for change in Watcher(session.client, EVENTS, selector).changes():
        if change.type == "DELETED" or not _matches(change.object, types):
            continue
        if output:
            print_object({"apiVersion": "v1", "kind": "Event", **change.object}, output)
        else:
            table.print_events([change.object])
