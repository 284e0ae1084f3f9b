"""`shoal uncordon`: nodes opened to pods again."""

import click

from shoal.cli.input.completing import names_of
from shoal.cli.input.connection import session_option
from shoal.cli.input.cordoning import cordon_all
from shoal.cli.input.options import dry_run_option, labels_option
from shoal.cli.input.session import Session


@click.command()
@click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=names_of("nodes"))
@session_option
@labels_option
@dry_run_option
def uncordon(session: Session, nodes: tuple[str, ...], selector: str, dry_run: str) -> None:
    r"""Let pods come to nodes again.

    \b
    Examples:
      shoal uncordon n1
      shoal uncordon -l rack=7
    """
    cordon_all(session, nodes, selector, closed=False, dry_run=dry_run)
