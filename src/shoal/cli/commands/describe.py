"""`shoal describe`: objects, told to people."""

from collections.abc import Sequence
from typing import Any

import click

from shoal.cli.input.completion import complete_targets
from shoal.cli.input.options import all_namespaces_option, filename_options, selector_option
from shoal.cli.input.selection import Selection, get_current, select_objects
from shoal.cli.input.session import Failures, Session, session_option


@click.command()
@click.argument("wanted", nargs=-1, metavar="KIND [NAME]...", shell_complete=complete_targets)
@filename_options(required=False)
@session_option
@selector_option
@all_namespaces_option
@click.option(
    "--show-events/--no-show-events", default=True, help="Print what happened to each; by default so."
)
def describe(session: Session, wanted: Sequence[str], *, show_events: bool, **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Tell of objects: how they stand, their conditions, and what happened to them.

    Of a job also why it waits and its pods, of a pool its figures, of a node the pods on it.

    \b
    Examples:
      shoal describe tyjob/big
      shoal describe pool gpu
      shoal describe pods -l team=a
    """
    from shoal.cli.output.describe.table import describe_object

    failures, first = Failures(), True
    for one in select_objects(session, Selection(wanted=wanted, all=True, **said)):
        with failures.noted():
            if (thing := get_current(session, one, failures)) is not None:
                click.echo(
                    ("" if first else "\n\n")
                    + describe_object(session, one.resource, thing, events=show_events)
                )
                first = False
    if first and not failures.count:
        click.echo(f"No resources found in {session.namespace} namespace.", err=True)
    failures.end()
