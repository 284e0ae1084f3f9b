"""`shoal version`: which Shoal this is, and which server it speaks to."""

from pathlib import Path
from typing import Any

import click

import shoal
from shoal.cli.input.connection import cluster_options
from shoal.cli.output.printing import print_object


@click.command()
@cluster_options
@click.option("--client", is_flag=True, help="Do not ask the server.")
@click.option("-o", "--output", type=click.Choice(["", "json", "yaml"]), default="", help="For programs.")
def version(home: Path, kubeconfig: str, context: str, *, client: bool, output: str) -> None:
    r"""Print the versions of this program and of the server.

    \b
    Examples:
      shoal version
      shoal version --client -o json
    """
    server = {} if client else _server(home, kubeconfig, context)
    if output:
        found = {"clientVersion": shoal.__version__} | ({"serverVersion": server} if server else {})
        print_object(found, output)
        return
    click.echo(f"Client Version: {shoal.__version__}")
    if server:
        click.echo(f"Server Version: {server.get('gitVersion', '')}")


def _server(home: Path, kubeconfig: str, context: str) -> dict[str, Any]:
    from shoal.cli.input.session import open_session

    with open_session(home, kubeconfig, context, "") as session:
        return session.client.ask("/version")
