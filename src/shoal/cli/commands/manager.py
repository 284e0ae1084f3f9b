"""`shoal manager`: run the scheduler and the controllers for a cluster."""

import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from shoal.cli.input.connection import cluster_options, resolve_access
from shoal.cli.input.options import config_option
from shoal.embedded.daemon import stop_event, tune_garbage_collection

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access
    from shoal.controllers.jobs.server_access import ServerAccess
    from shoal.engine.config import SchedulerConfig

_SERVER_URL: Final = re.compile(r"https?://[^/?#\s]+/?")


@click.command()
@cluster_options
@config_option
@click.option(
    "--monitor",
    metavar="ADDRESS:PORT",
    help="Serve metrics and health here (/metrics, /healthz, /readyz); default not at all.",
)
@click.option(
    "--record",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Record the last cycles: the input of each, for `shoal plan -f`, and its decisions.",
)
@click.option(
    "--server-url",
    default="",
    metavar="URL",
    help="Where pods reach `shoal server`: jobs' pods get it, and a token; default none.",
)
@click.option(
    "--server-ca-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Certificates (PEM) that pods have to trust for that URL.",
)
def manager(  # noqa: PLR0913 - one parameter an option
    *,
    home: Path,
    kubeconfig: str,
    context: str,
    config: Path | None,
    monitor: str | None,
    record: Path | None,
    server_url: str,
    server_ca_file: Path | None,
) -> None:
    r"""Run the scheduler and the controllers for a cluster.

    It schedules the pods that name it (`schedulerName: shoal`) and the jobs of Shoal's kinds, and maintains
    the status of jobs and pools. All its state is in the cluster: it can be stopped and started at any time.
    Run one per cluster.

    \b
    Examples:
      shoal crds | kubectl apply -f -
      shoal manager --context lab
      shoal manager --config scheduler.yaml --monitor 127.0.0.1:9090 --record /tmp/cycles
      shoal manager --server-url http://shoal-server.kube-system:8081
    """
    import uvloop

    from shoal.apiserver.http.server import ListenError
    from shoal.cli.input.planning import read_config
    from shoal.cluster.errors import ClusterError

    scheduler_config, monitor_address = read_config(config), _parse_address(monitor)
    server = _parse_server(server_url, server_ca_file)
    access = resolve_access(home, kubeconfig, context)
    try:
        uvloop.run(_manage(access, scheduler_config, monitor_address, record, server))
    except ListenError as problem:
        raise click.ClickException(str(problem)) from None
    except ClusterError as problem:
        raise click.ClickException(f"{access.url}: {problem.message}") from None


def _parse_address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal():
        raise click.BadParameter(f"'{text}' is not an address and a port such as 127.0.0.1:9090")
    return host.strip("[]"), int(port)


def _parse_server(url: str, authority: Path | None) -> "ServerAccess | None":
    """Return the access of pods to the server, without the key, which is in the cluster."""
    from shoal.controllers.jobs.server_access import ServerAccess

    if not url:
        return None
    if not _SERVER_URL.fullmatch(url):
        raise click.BadParameter(f"'{url}' is not the URL of a server such as http://shoal-server:8081")
    return ServerAccess(url.rstrip("/"), b"", authority.read_bytes() if authority else b"")


async def _manage(
    access: "Access",
    scheduler_config: "SchedulerConfig",
    monitor: tuple[str, int] | None,
    record: Path | None,
    server: "ServerAccess | None",
) -> None:
    from msgspec.structs import replace

    from shoal.cluster.kubernetes.cluster import KubernetesCluster
    from shoal.controllers.jobs.tokens import fetch_key
    from shoal.manager import running
    from shoal.server.monitor import monitoring

    stop = stop_event()
    tune_garbage_collection()
    async with AsyncExitStack() as stack:
        cluster = KubernetesCluster(access)
        stack.push_async_callback(cluster.close)
        if server:
            server = replace(server, key=await fetch_key(cluster))
        running_manager = await stack.enter_async_context(
            running(cluster, scheduler_config, record=record, server=server)
        )
        click.echo(f"Scheduling {access.url}")
        if monitor:
            url = await stack.enter_async_context(monitoring(running_manager, *monitor))
            click.echo(f"Metrics at {url}/metrics")
        await stop.wait()
        click.echo("Stopping.")
