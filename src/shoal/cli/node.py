"""`shoal node`: plays that a node of the embedded home is lost, and found again."""

from pathlib import Path
from typing import Final

import click

from shoal.cli.daemon import ask, must_be_up
from shoal.cli.places import home_option

STOPPED: Final = "shoal.io/stopped"


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
    home = home.absolute()
    url = must_be_up(home)["url"]
    patch = {"metadata": {"annotations": {STOPPED: how}}}
    ask(home, url, f"/api/v1/nodes/{name}", method="PATCH", body=patch)
