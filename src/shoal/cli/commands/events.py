"""`shoal events`: what happened, the latest last."""

from collections.abc import Sequence

import click

from shoal.cli.input.options import all_namespaces_option
from shoal.cli.input.selection import list_options, parse_target
from shoal.cli.input.session import Session, session_option
from shoal.cli.output.events import EventTable, last_seen_time
from shoal.cli.output.printing import output_option, print_object, print_objects
from shoal.cluster.port import Selector
from shoal.cluster.resources import EVENTS, Object


def _parse_types(_: click.Context, __: click.Parameter, value: Sequence[str]) -> set[str]:
    """Types of events, in any case, as Kubernetes writes them."""
    found = {one.strip().capitalize() for said in value for one in said.split(",")}
    if wrong := found - {"Normal", "Warning"}:
        raise click.BadParameter(f"'{min(wrong)}' is neither Normal nor Warning")
    return found


@click.command()
@session_option
@all_namespaces_option
@output_option()
@click.option("--for", "about", default="", metavar="KIND/NAME", help="Only what happened to this object.")
@click.option(
    "--types", multiple=True, callback=_parse_types, metavar="TYPE,...", help="Normal, Warning or both."
)
@click.option("-w", "--watch", is_flag=True, help="Go on, and print what happens.")
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
def events(  # noqa: PLR0913 - one parameter an option
    session: Session,
    *,
    all_namespaces: bool,
    output: str,
    about: str,
    types: set[str],
    watch: bool,
    no_headers: bool,
) -> None:
    r"""Print what happened, the latest last.

    \b
    Examples:
      shoal events
      shoal events --for tyjob/big --types=Warning
      shoal events -A -w
    """
    selector = _list_options(session, about, everywhere=all_namespaces)
    paper = EventTable(spaces=all_namespaces, headers=not no_headers)
    if watch:
        _follow(session, selector, types, paper, output)
        return
    found = [event for event in session.client.list(EVENTS, selector) if _matches(event, types)]
    if output:
        print_objects([(EVENTS, event) for event in found], output, single=False)
    elif found:
        paper.draw(sorted(found, key=last_seen_time))
    else:
        place = "" if all_namespaces else f" in {session.namespace} namespace"
        click.echo(f"No events found{place}.", err=True)


def _list_options(session: Session, about: str, *, everywhere: bool) -> Selector:
    fields = ""
    if about:
        resource, name = parse_target(session, [about])
        fields = f"involvedObject.kind={resource.kind},involvedObject.name={name}"
    return list_options(session, EVENTS, "", fields, everywhere=everywhere)


def _matches(event: Object, types: set[str]) -> bool:
    return not types or event.get("type") in types


def _follow(session: Session, selector: Selector, types: set[str], paper: "EventTable", output: str) -> None:
    from shoal.client.watch import Watcher

    for change in Watcher(session.client, EVENTS, selector).changes():
        if change.type == "DELETED" or not _matches(change.object, types):
            continue
        if output:
            print_object({"apiVersion": "v1", "kind": "Event", **change.object}, output)
        else:
            paper.draw([change.object])
