"""`shoal up`: the embedded home, served until it is told to stop."""

import asyncio
import contextlib
import resource
import shlex
import signal
from pathlib import Path
from typing import Final

import click

from shoal.cli.places import home_option

_LOOPBACK: Final = "127.0.0.1"


@click.command()
@home_option
@click.option(
    "--listen",
    default=_LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. Any but a loopback address lets other machines knock.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="The port to listen on, 0 for any that is free; by default the one of last time.",
)
def up(home: Path, listen: str, port: int | None) -> None:
    r"""Serve an embedded cluster: objects in SQLite, behind an API that kubectl speaks.

    The state is in one directory, and so is a kubeconfig to reach it with. It runs until Ctrl-C or SIGTERM;
    nothing that was acknowledged is lost, however it ends. Objects are kept, checked and watched; no pods are
    run yet.

    \b
    Examples:
      shoal up
      export KUBECONFIG=~/.shoal/kubeconfig
      kubectl get pools
    """
    import uvloop

    from shoal.cluster.embedded.api.server import ListenError
    from shoal.cluster.embedded.credentials import CredentialsError
    from shoal.cluster.errors import StorageError

    try:
        uvloop.run(_serve(home.absolute(), listen, port))
    except (StorageError, CredentialsError, ListenError) as problem:
        raise click.ClickException(str(problem)) from None


async def _serve(home: Path, listen: str, port: int | None) -> None:
    from shoal.cluster.embedded.api.server import serving
    from shoal.cluster.embedded.credentials import Credentials
    from shoal.cluster.embedded.home import open_home

    told_to_stop = _told_to_stop()
    _allow_many_connections()
    async with open_home(home) as registry:
        credentials = Credentials(home, [listen])
        chosen = credentials.last_port() if port is None else port
        async with serving(registry, credentials, listen, chosen) as url:
            kubeconfig = credentials.write_kubeconfig(url)
            click.echo(f"Shoal is up at {url}\nexport KUBECONFIG={shlex.quote(str(kubeconfig))}")
            await told_to_stop.wait()
            click.echo("Stopping.")


def _allow_many_connections() -> None:
    """Every watch is a connection and every connection a file: have as many as the system lets us."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _told_to_stop() -> asyncio.Event:
    """Is set when the process is told to stop, from now on."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    return told
