"""`shoal delete`: objects deleted, by file, name, labels, or all of a kind."""

from collections.abc import Sequence
from typing import Any

import click

from shoal.cli.chosen import Choice, chosen
from shoal.cli.options import choosing_options, dry_run_option, duration, grace_option
from shoal.cli.session import Session


@click.command()
@choosing_options
@grace_option
@click.option("--now", is_flag=True, help="Give pods one second to end.")
@click.option("--force", is_flag=True, help="Do not wait until a node has ended a pod: it may run on.")
@click.option(
    "--cascade",
    type=click.Choice(["background", "foreground", "orphan"]),
    default="background",
    show_default=True,
    help="What becomes of those that an object owns: they go after it, before it, or stay.",
)
@click.option(
    "--wait",
    type=bool,
    default=True,
    is_flag=False,
    flag_value=True,
    metavar="true|false",
    help="Wait until the objects are gone; by default so.",
)
@click.option(
    "--timeout", default="0s", callback=duration, metavar="DURATION", help="How long to wait; 0s is for ever."
)
@click.option("--ignore-not-found", is_flag=True, help="Do not mind objects that are not there.")
@dry_run_option
@click.option("-o", "--output", type=click.Choice(["", "name"]), default="", help="Print names only.")
def delete(session: Session, wanted: Sequence[str], **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Delete objects, and wait until they are gone.

    \b
    Examples:
      shoal delete pod web
      shoal delete -f my-job.yaml
      shoal delete dijob/cartpole tyjob/big
      shoal delete pods -l team=a --grace-period=5
      shoal delete jobs --all --wait=false
    """
    from shoal.cli.deleting import Manner, delete_all

    choice = {name: said.pop(name) for name in Choice.__struct_fields__ if name in said}
    manner = Manner(**said)
    if manner.force:
        click.echo(
            "Warning: Immediate deletion does not wait for confirmation that the running resource has been "
            "terminated. The resource may continue to run on the cluster indefinitely.",
            err=True,
        )
    delete_all(session, [*chosen(session, Choice(wanted=wanted, **choice))], manner)
