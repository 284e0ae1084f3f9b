"""`shoal server`: run the DI server for a cluster."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from shoal.cli.input.connection import cluster_options, resolve_access
from shoal.cli.input.options import config_option
from shoal.embedded.daemon import log_to_stderr, stop_event, tune_garbage_collection

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access
    from shoal.engine.config import SchedulerConfig
    from shoal.server.serving import Listener

_DEFAULT_PORT: Final = 8081


@click.command()
@cluster_options
@config_option
@click.option(
    "--listen",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on; 0.0.0.0 in a pod, for its service.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_DEFAULT_PORT,
    show_default=True,
    metavar="PORT",
    help="Port to listen on; 0 is any free port.",
)
@click.option(
    "--tls-cert-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Certificate (PEM) to serve HTTPS with; default plain HTTP.",
)
@click.option(
    "--tls-private-key-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Private key of the certificate; default in the same file.",
)
def server(  # noqa: PLR0913 - one parameter an option
    *,
    home: Path,
    kubeconfig: str,
    context: str,
    config: Path | None,
    listen: str,
    port: int,
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
) -> None:
    r"""Run the DI server for a cluster: workers of jobs report to it, and ask for more or fewer workers.

    `shoal manager --server-url` gives its address to the pods of jobs. Callers have the token of their job or
    one of a user of the cluster. All its state is in the cluster: it can be stopped and started at any time,
    and several may run at once. `shoal up` includes it.

    \b
    Examples:
      shoal server --context lab --listen 0.0.0.0
      shoal server --listen 0.0.0.0 --tls-cert-file tls.crt --tls-private-key-file tls.key
    """
    import ssl

    import uvloop

    from shoal.apiserver.http.server import ListenError
    from shoal.cli.input.planning import read_config
    from shoal.cluster.errors import ClusterError
    from shoal.server.serving import Listener

    if tls_private_key_file and not tls_cert_file:
        raise click.UsageError("--tls-private-key-file needs --tls-cert-file")
    given = read_config(config) if config else None
    access = resolve_access(home, kubeconfig, context)
    listener = Listener(host=listen, port=port, certificate=tls_cert_file, key=tls_private_key_file)
    log_to_stderr()
    try:
        uvloop.run(_serve(access, given, listener))
    except ssl.SSLError as problem:
        raise click.ClickException(f"{tls_cert_file}: not a certificate with its key: {problem}") from None
    except ClusterError as problem:
        raise click.ClickException(f"{access.url}: {problem.message}") from None
    except ListenError as problem:
        raise click.ClickException(str(problem)) from None


async def _serve(access: "Access", given: "SchedulerConfig | None", listener: "Listener") -> None:
    from shoal.cli.input.planning import cluster_config
    from shoal.cluster.kubernetes.cluster import KubernetesCluster
    from shoal.controllers.jobs.tokens import fetch_key
    from shoal.server.callers import KubernetesUsers
    from shoal.server.serving import ServerOptions, serving_jobs

    stop = stop_event()
    tune_garbage_collection()
    async with AsyncExitStack() as stack:
        cluster = KubernetesCluster(access)
        stack.push_async_callback(cluster.close)
        options = ServerOptions(
            key=await fetch_key(cluster),
            users=KubernetesUsers(cluster),
            config=given or await cluster_config(cluster),
        )
        running = await stack.enter_async_context(serving_jobs(cluster, options, listener))
        click.echo(f"Serving the jobs of {access.url} at {running.url}")
        await stop.wait()
        click.echo("Stopping.")
