"""`shoal manager`: the scheduler and the controllers, at work on a cluster."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.input.connection import cluster_options, resolve_access
from shoal.cli.input.options import config_option
from shoal.cli.input.planning import read_config
from shoal.embedded.daemon import stop_event, tune_garbage_collection

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access
    from shoal.engine.config import SchedulerConfig


@click.command()
@cluster_options
@config_option
@click.option(
    "--monitor",
    metavar="ADDRESS:PORT",
    help="Where to tell of metrics and health (/metrics, /healthz, /readyz); by default nowhere.",
)
@click.option(
    "--record",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the last cycles down there: what each saw, for `shoal plan -f`, and what it decided.",
)
def manager(  # noqa: PLR0913 - one parameter an option
    *,
    home: Path,
    kubeconfig: str,
    context: str,
    config: Path | None,
    monitor: str | None,
    record: Path | None,
) -> None:
    r"""Schedule a cluster: give pods nodes, make room, tell who waits and why, and keep the status of pools.

    It works on the pods that name it (`schedulerName: shoal`) and on the jobs of Shoal's kinds; all that it
    knows is in the cluster, and it may be stopped and started at any time. One at a time for each cluster.

    \b
    Examples:
      shoal crds | kubectl apply -f -
      shoal manager --context lab
      shoal manager --config scheduler.yaml --monitor 127.0.0.1:9090 --record /tmp/cycles
    """
    import uvloop

    from shoal.apiserver.http.server import ListenError

    settings, where = read_config(config), _parse_address(monitor)
    access = resolve_access(home, kubeconfig, context)
    try:
        uvloop.run(_manage(access, settings, where, record))
    except ListenError as problem:
        raise click.ClickException(str(problem)) from None


def _parse_address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal():
        raise click.BadParameter(f"'{text}' is not an address and a port such as 127.0.0.1:9090")
    return host.strip("[]"), int(port)


async def _manage(
    access: "Access", settings: "SchedulerConfig", monitor: tuple[str, int] | None, record: Path | None
) -> None:
    from shoal.cluster.kubernetes.home import KubernetesCluster
    from shoal.manager import running
    from shoal.server.monitor import monitoring

    stop = stop_event()
    tune_garbage_collection()
    async with AsyncExitStack() as stack:
        cluster = KubernetesCluster(access)
        stack.push_async_callback(cluster.close)
        at_work = await stack.enter_async_context(running(cluster, settings, record=record))
        click.echo(f"Scheduling {access.url}")
        if monitor:
            url = await stack.enter_async_context(monitoring(at_work, *monitor))
            click.echo(f"Metrics at {url}/metrics")
        await stop.wait()
        click.echo("Stopping.")
