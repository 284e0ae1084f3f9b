"""`shoal version`: the versions of the client and of the server."""

from pathlib import Path
from typing import Any

import click

import shoal
from shoal.cli.input.connection import cluster_options
from shoal.cli.output.printing import print_object


@click.command()
@cluster_options
@click.option("--client", is_flag=True, help="Client version only.")
@click.option("-o", "--output", type=click.Choice(["", "json", "yaml"]), default="", help="Output format.")
def version(home: Path, kubeconfig: str, context: str, *, client: bool, output: str) -> None:
    r"""Print the client and server versions.

    \b
    Examples:
      shoal version
      shoal version --client -o json
    """
    server = {} if client else _server_version(home, kubeconfig, context)
    if output:
        versions = {"clientVersion": shoal.__version__} | ({"serverVersion": server} if server else {})
        print_object(versions, output)
        return
    click.echo(f"Client Version: {shoal.__version__}")
    if server:
        click.echo(f"Server Version: {server.get('gitVersion', '')}")


def _server_version(home: Path, kubeconfig: str, context: str) -> dict[str, Any]:
    from shoal.cli.input.session import open_session

    with open_session(home, kubeconfig, context, "") as session:
        return session.client.get_path("/version")
