"""`shoal events`: what happened, the latest last."""

import time
from collections.abc import Sequence

import click

from shoal.cli.input import naming
from shoal.cli.input.connection import session_option
from shoal.cli.input.options import everywhere_option
from shoal.cli.input.session import Session
from shoal.cli.output.colours import painted
from shoal.cli.output.happened import HEADER, cells, latest
from shoal.cli.output.printing import output_option, print_found, print_object
from shoal.cli.output.tables import Columns
from shoal.cluster.port import Where
from shoal.cluster.resources import EVENTS, Object


def _types(_: click.Context, __: click.Parameter, value: Sequence[str]) -> set[str]:
    """Types of events, in any case, as Kubernetes writes them."""
    found = {one.strip().capitalize() for said in value for one in said.split(",")}
    if wrong := found - {"Normal", "Warning"}:
        raise click.BadParameter(f"'{min(wrong)}' is neither Normal nor Warning")
    return found


@click.command()
@session_option
@everywhere_option
@output_option()
@click.option("--for", "about", default="", metavar="KIND/NAME", help="Only what happened to this object.")
@click.option("--types", multiple=True, callback=_types, metavar="TYPE,...", help="Normal, Warning or both.")
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
    where = _where(session, about, everywhere=all_namespaces)
    paper = _Paper(spaces=all_namespaces, headers=not no_headers)
    if watch:
        _follow(session, where, types, paper, output)
        return
    found = [event for event in session.client.list(EVENTS, where) if _fits(event, types)]
    if output:
        print_found([(EVENTS, event) for event in found], output, single=False)
    elif found:
        paper.draw(sorted(found, key=latest))
    else:
        place = "" if all_namespaces else f" in {session.namespace} namespace"
        click.echo(f"No events found{place}.", err=True)


def _where(session: Session, about: str, *, everywhere: bool) -> Where:
    fields = ""
    if about:
        resource, name = naming.one(session, [about])
        fields = f"involvedObject.kind={resource.kind},involvedObject.name={name}"
    return naming.where(session, EVENTS, "", fields, everywhere=everywhere)


def _fits(event: Object, types: set[str]) -> bool:
    return not types or event.get("type") in types


def _follow(session: Session, where: Where, types: set[str], paper: "_Paper", output: str) -> None:
    from shoal.client.watch import Follower

    for change in Follower(session.client, EVENTS, where).changes():
        if change.type == "DELETED" or not _fits(change.object, types):
            continue
        if output:
            print_object({"apiVersion": "v1", "kind": "Event", **change.object}, output)
        else:
            paper.draw([change.object])


class _Paper:
    """Draws events below each other, as they come."""

    def __init__(self, *, spaces: bool, headers: bool) -> None:
        self._columns, self._spaces, self._headers = Columns(), spaces, headers

    def draw(self, found: Sequence[Object]) -> None:
        now = time.time()
        rows = [self._row(event, now) for event in found]
        titles = (["NAMESPACE"] if self._spaces else []) + HEADER
        lines = self._columns.drawn([titles, *rows] if self._headers else rows)
        plain = len(lines) - len(found)
        for number, line in enumerate(lines):
            warning = number >= plain and found[number - plain].get("type") == "Warning"
            click.echo(painted(line, "yellow") if warning else line)
        self._headers = False

    def _row(self, event: Object, now: float) -> list[object]:
        space = [event["metadata"].get("namespace", "")] if self._spaces else []
        return [*space, *cells(event, now)]
