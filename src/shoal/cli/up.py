"""`shoal up`: the embedded home, served until it is told to stop."""

import contextlib
import resource
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from shoal.cli.configuring import config_option, read_config
from shoal.cli.lasting import look_for_garbage_rarely, told_to_stop
from shoal.cli.places import home_option

if TYPE_CHECKING:
    from shoal.scheduling.config import SchedulerConfig

_LOOPBACK: Final = "127.0.0.1"


@click.command()
@home_option
@config_option
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
def up(home: Path, config: Path | None, listen: str, port: int | None) -> None:
    r"""Serve an embedded cluster: objects in SQLite, behind an API that kubectl speaks, and scheduled.

    The state is in one directory, and so is a kubeconfig to reach it with. It runs until Ctrl-C or SIGTERM;
    nothing that was acknowledged is lost, however it ends. Objects are kept, checked and watched, Jobs make
    their pods, and pods are given nodes; no pod is run yet.

    \b
    Examples:
      shoal up
      export KUBECONFIG=~/.shoal/kubeconfig
      kubectl apply -f examples/lab.yaml
      kubectl get pods -A -o wide
    """
    import uvloop

    from shoal.cluster.embedded.api.server import ListenError
    from shoal.cluster.embedded.credentials import CredentialsError
    from shoal.cluster.errors import StorageError

    settings = read_config(config, schedulerNames=["*"])
    try:
        uvloop.run(_serve(home.absolute(), settings, listen, port))
    except (StorageError, CredentialsError, ListenError) as problem:
        raise click.ClickException(str(problem)) from None


async def _serve(home: Path, settings: "SchedulerConfig", listen: str, port: int | None) -> None:
    from shoal.cluster.embedded.addresses import names_of
    from shoal.cluster.embedded.api.server import serving
    from shoal.cluster.embedded.credentials import Credentials
    from shoal.cluster.embedded.home import open_home
    from shoal.manager import running

    stop = told_to_stop()
    look_for_garbage_rarely()
    _allow_many_connections()
    async with open_home(home) as registry:
        credentials = Credentials(home, names_of(listen))
        chosen = credentials.last_port() if port is None else port
        async with serving(registry, credentials, listen, chosen) as url:
            kubeconfig = credentials.write_kubeconfig(url)
            async with running(registry, settings, native=True) as manager:
                await manager.ready()
                click.echo(f"Shoal is up at {url}\nexport KUBECONFIG={shlex.quote(str(kubeconfig))}")
                await stop.wait()
            click.echo("Stopping.")


def _allow_many_connections() -> None:
    """Every watch is a connection and every connection a file: have as many as the system lets us."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
