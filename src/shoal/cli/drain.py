"""`shoal drain`: nodes emptied, for somebody to work on them."""

from typing import Any

import click

from shoal.cli.completing import names_of
from shoal.cli.connection import session_option
from shoal.cli.options import dry_run_option, duration, grace_option, labels_option
from shoal.cli.session import Failures, Session


@click.command()
@click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=names_of("nodes"))
@session_option
@labels_option
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of daemon sets alone.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also send away pods that keep data on the node.")
@click.option("--force", is_flag=True, help="Also send away pods that nobody would make again.")
@click.option("--disable-eviction", is_flag=True, help="Delete pods, whatever their budgets say.")
@grace_option
@click.option(
    "--timeout", default="0s", callback=duration, metavar="DURATION", help="How long to try; 0s is for ever."
)
@click.option("--pod-selector", default="", metavar="LABELS", help="Only send away pods with such labels.")
@dry_run_option
def drain(session: Session, nodes: tuple[str, ...], selector: str, **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Empty nodes: close them to new pods, and send away those that are there.

    Pods are evicted, so that disruption budgets hold: what a budget refuses is tried again. If some pods may
    not be sent away it says which and why, and sends none.

    \b
    Examples:
      shoal drain n1
      shoal drain n1 --ignore-daemonsets --delete-emptydir-data --force
      shoal drain -l rack=7 --timeout=5m
      shoal uncordon n1                          when the work is done
    """
    from shoal.cli.cordoning import nodes_meant, set_cordon
    from shoal.cli.draining import Terms, drain_node

    failures, terms = Failures(), Terms(**said)
    for node in nodes_meant(session, nodes, selector, failures):
        with failures.noted():
            set_cordon(session, node, closed=True, dry_run=terms.dry_run)
            drain_node(session, node, terms, failures)
    failures.end()
