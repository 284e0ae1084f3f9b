"""`shoal node`: plays that a node of the embedded home is lost, and found again."""

from pathlib import Path

import click

from shoal.cli.input.places import home_option
from shoal.cluster.resources import NODES
from shoal.embedded.daemon import must_be_up
from shoal.kubelet.nodes import OURS, STOPPED


@click.group()
def node() -> None:
    """Play that a node of the embedded cluster is lost, and found again."""


@node.command()
@home_option
@click.argument("name")
@click.option("--network", is_flag=True, help="Cut it off: its processes run on, unseen and unheard.")
def stop(home: Path, name: str, *, network: bool) -> None:
    r"""Take a node away: its processes are killed, and nothing more is heard of it.

    After `nodeLostSeconds` it is taken for lost, and its pods are given up.

    \b
    Examples:
      shoal node stop node-1
      shoal node stop node-1 --network
    """
    _set(home, name, "network" if network else "power")
    click.echo(f"node/{name} stopped")


@node.command()
@home_option
@click.argument("name")
def start(home: Path, name: str) -> None:
    r"""Bring a node back: it says that it is ready, and ends what was given up meanwhile.

    \b
    Example:
      shoal node start node-1
    """
    _set(home, name, None)
    click.echo(f"node/{name} started")


def _set(home: Path, name: str, how: str | None) -> None:
    from shoal.cli.input.session import opened

    must_be_up(home.absolute())
    with opened(home.absolute(), "", "", "") as session:
        if OURS not in session.client.get(NODES, name)["metadata"].get("annotations", {}):
            raise click.ClickException(f"node {name} is only described: nobody plays it")
        session.client.patch(NODES, name, patch={"metadata": {"annotations": {STOPPED: how}}})
