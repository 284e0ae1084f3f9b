"""`shoal manager`: run the scheduler and the controllers for a cluster."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from shoal.cli.input.connection import cluster_options, resolve_access
from shoal.cli.input.leader_election import leader_election_options, lease_options
from shoal.cli.input.options import config_option
from shoal.embedded.daemon import log_to_stderr, stop_event, tune_garbage_collection

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access
    from shoal.controllers.jobs.server_access import ServerAccess
    from shoal.election.leadership import Leadership
    from shoal.election.lease import LeaseOptions
    from shoal.engine.config import SchedulerConfig
    from shoal.manager import Manager

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
@leader_election_options
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
    **election: Any,  # noqa: ANN401 - the options of leader election
) -> None:
    r"""Run the scheduler and the controllers for a cluster.

    It schedules the pods that name it (`schedulerName: shoal`) and the jobs of Shoal's kinds, and maintains
    the status of jobs and pools. All its state is in the cluster: it can be stopped and started at any time.
    Run two or three per cluster: one leads, and another takes over within seconds when it fails.

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
    server, lease = _parse_server(server_url, server_ca_file), lease_options(**election)
    access = resolve_access(home, kubeconfig, context)
    settings = _Settings(
        access=access,
        # The elector runs in another thread, and credentials are bound to an event loop.
        elector_access=resolve_access(home, kubeconfig, context),
        scheduler=scheduler_config,
        lease=lease,
        record=record,
        server=server,
    )
    log_to_stderr()
    try:
        uvloop.run(_manage(settings, monitor_address))
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


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """What the command line says."""

    access: "Access"
    elector_access: "Access"
    scheduler: "SchedulerConfig"
    lease: "LeaseOptions | None"
    record: Path | None
    server: "ServerAccess | None"


async def _manage(settings: _Settings, monitor: tuple[str, int] | None) -> None:
    from shoal.manager import in_background
    from shoal.server.monitor import monitoring

    stop = stop_event()
    tune_garbage_collection()
    managing = _Managing(settings)
    async with AsyncExitStack() as stack:
        click.echo(f"Scheduling {settings.access.url}")
        if monitor:
            url = await stack.enter_async_context(monitoring(lambda: managing.manager, *monitor))
            click.echo(f"Metrics at {url}/metrics")
        await stack.enter_async_context(in_background(managing.run()))
        await stop.wait()
        click.echo("Stopping.")


class _Managing:
    """Runs a manager; with leader election, a new one whenever one has lost the Lease."""

    def __init__(self, settings: _Settings) -> None:
        self.manager: Manager | None = None
        """The current manager."""
        self._settings: Final = settings

    async def run(self) -> None:
        """Run until cancelled."""
        from msgspec.structs import replace

        from shoal.cluster.kubernetes.cluster import KubernetesCluster
        from shoal.controllers.jobs.tokens import fetch_key
        from shoal.manager import run_in_terms

        server = self._settings.server
        if server:
            cluster = KubernetesCluster(self._settings.access)
            try:
                server = replace(server, key=await fetch_key(cluster))
            finally:
                await cluster.close()
        if self._settings.lease:
            lease = self._settings.lease
            await run_in_terms(lambda: self._term(lease, server))
        async with self._running(server, None):
            await asyncio.Event().wait()

    @asynccontextmanager
    async def _term(
        self, lease: "LeaseOptions", server: "ServerAccess | None"
    ) -> "AsyncIterator[Leadership]":
        """Run a manager and its elector, which holds the Lease until all writes have ended."""
        from shoal.cluster.kubernetes.cluster import KubernetesCluster
        from shoal.election.elector import Elector, make_identity
        from shoal.election.leadership import Leadership
        from shoal.election.thread import electing_in_thread

        leadership = Leadership()
        async with (
            electing_in_thread(
                lambda: KubernetesCluster(self._settings.elector_access),
                lambda cluster: Elector(cluster, leadership, lease, make_identity()),
                leadership,
            ),
            self._running(server, leadership),
        ):
            yield leadership

    @asynccontextmanager
    async def _running(
        self, server: "ServerAccess | None", leadership: "Leadership | None"
    ) -> AsyncIterator[None]:
        from shoal.cluster.kubernetes.cluster import KubernetesCluster
        from shoal.manager import running

        settings = self._settings
        cluster = KubernetesCluster(settings.access, guard=leadership.check if leadership else None)
        try:
            async with running(
                cluster, settings.scheduler, record=settings.record, server=server, leadership=leadership
            ) as self.manager:
                yield
        finally:
            self.manager = None
            await cluster.close()
