"""`shoal top`: what nodes and pods use, and what pools have."""

from pathlib import Path

import click

from shoal.cli import connection
from shoal.cli.completing import names_of
from shoal.cli.configuring import config_option
from shoal.cli.connection import session_option
from shoal.cli.options import everywhere_option, labels_option
from shoal.cli.session import Session

_ORDERS = click.Choice(["", "cpu", "memory"])


class _Singular(click.Group):
    """Knows its commands by the singular too: `top node`, `top no`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        full = {"node": "nodes", "no": "nodes", "pod": "pods", "po": "pods", "pool": "pools"}
        return super().get_command(ctx, full.get(cmd_name, cmd_name))


@click.group(cls=_Singular)
def top() -> None:
    r"""Print what nodes, pods and pools have and use.

    \b
    Examples:
      shoal top nodes
      shoal top pods -A --sort-by=memory
      shoal top pools --usage
    """


@top.command()
@click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=names_of("nodes"))
@session_option
@labels_option
@click.option("--sort-by", type=_ORDERS, default="", help="The largest first.")
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
def nodes(session: Session, names: tuple[str, ...], selector: str, *, sort_by: str, no_headers: bool) -> None:
    r"""Print what nodes use of what they have.

    \b
    Examples:
      shoal top nodes
      shoal top nodes -l rack=7 --sort-by=cpu
    """
    from shoal.cli.consumption import draw_nodes

    draw_nodes(session, names, selector, order=sort_by, headers=not no_headers)


@top.command()
@click.argument("names", nargs=-1, metavar="[POD]...", shell_complete=names_of("pods"))
@session_option
@labels_option
@everywhere_option
@click.option("--containers", is_flag=True, help="Print each container.")
@click.option("--sort-by", type=_ORDERS, default="", help="The largest first.")
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
def pods(  # noqa: PLR0913 - one parameter an option
    session: Session,
    names: tuple[str, ...],
    selector: str,
    *,
    all_namespaces: bool,
    containers: bool,
    sort_by: str,
    no_headers: bool,
) -> None:
    r"""Print what pods use.

    \b
    Examples:
      shoal top pods
      shoal top pods -A --containers --sort-by=memory
    """
    from shoal.cli.consumption import PodTable, draw_pods

    table = PodTable(everywhere=all_namespaces, containers=containers, order=sort_by, headers=not no_headers)
    draw_pods(session, names, selector, table)


@top.command()
@connection.options
@config_option
@click.option("--usage", is_flag=True, help="Also print what is really used, from the metrics of the nodes.")
def pools(home: Path, kubeconfig: str, context: str, config: Path | None, *, usage: bool) -> None:
    r"""Print what pools have, how it is used and by whom, and what waits for it.

    The table is that of `shoal plan`. What is used is what pods ask for; --usage adds what they really use.

    \b
    Examples:
      shoal top pools
      shoal top pools --usage
    """
    from shoal.cli.pooltop import draw_pools

    draw_pools(home, kubeconfig, context, config, usage=usage)
