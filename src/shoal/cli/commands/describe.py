"""`shoal describe`: details of objects, in a form for reading."""

from collections.abc import Sequence
from typing import Any

import click

from shoal.cli.input.options import all_namespaces_option, filename_options, selector_option, targets_argument
from shoal.cli.input.selection import Selection, get_current, select_objects
from shoal.cli.input.session import Failures, Session, session_option


@click.command()
@targets_argument("KIND [NAME]...")
@filename_options(required=False)
@session_option
@selector_option
@all_namespaces_option
@click.option(
    "--show-events/--no-show-events", default=True, help="Show the events of each object; default on."
)
def describe(session: Session, arguments: Sequence[str], *, show_events: bool, **values: Any) -> None:  # noqa: ANN401 - one an option
    r"""Show details of objects, and their events.

    For a job this includes why it waits and its pods, for a pool its resources, for a node the pods on it.

    \b
    Examples:
      shoal describe tyjob/big
      shoal describe pool gpu
      shoal describe pods -l team=a
    """
    from shoal.cli.output.describe.table import describe_object

    failures, first = Failures(), True
    for name in select_objects(session, Selection(arguments=arguments, all=True, **values)):
        with failures.catch():
            if (item := get_current(session, name, failures)) is not None:
                text = describe_object(session, name.resource, item, events=show_events)
                click.echo(("" if first else "\n\n") + text)
                first = False
    if first and not failures.count:
        click.echo(f"No resources found in {session.namespace} namespace.", err=True)
    failures.exit_if_any()
