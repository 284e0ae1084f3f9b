"""Runs the DI server on one cluster, whichever implementation of the port that is.

async with serving_jobs(cluster, ServerOptions(key=key, users=Administrator(token))) as server:
    ...  # server.url
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from shoal.apiserver.http.server import listening, make_server, run_server
from shoal.cluster.port import Cluster
from shoal.engine.config import SchedulerConfig
from shoal.kinds.base import job_kinds
from shoal.manager import in_background
from shoal.server.access import Admission
from shoal.server.app import ServerApp
from shoal.server.callers import UserAuthority
from shoal.server.jobs import ServedJobs
from shoal.server.metrics import ServerMetrics


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to serve: the key of job tokens, and the users.

    `config` is the scheduler's: it says which jobs Shoal sizes.
    """

    key: bytes
    users: UserAuthority
    config: SchedulerConfig = SchedulerConfig()


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """Where to serve; port 0 chooses a free port. With a certificate (a file) the server speaks HTTPS."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: str | None = None
    key: str | None = None


LOOPBACK: Final = Listener()


class RunningServer(msgspec.Struct, frozen=True):
    """A server that runs: its URL, and the jobs that it knows."""

    url: str
    port: int
    jobs: ServedJobs


def make_app(cluster: Cluster, options: ServerOptions) -> tuple[ServerApp, ServedJobs]:
    """Return the application on a cluster, and its jobs, which the caller has to run."""
    kinds = [kind for kind in job_kinds().values() if kind.reports]
    jobs = ServedJobs(kinds, cluster)
    admission = Admission(jobs, options.key, options.users)
    return ServerApp(jobs, admission, options.config, ServerMetrics()), jobs


@contextlib.asynccontextmanager
async def serving_jobs(
    cluster: Cluster, options: ServerOptions, listener: Listener = LOOPBACK
) -> AsyncIterator[RunningServer]:
    """Serve until the block ends. Raises ListenError if the address cannot be listened on."""
    app, jobs = make_app(cluster, options)
    tls = {"ssl_certfile": listener.certificate, "ssl_keyfile": listener.key}
    with listening(listener.host, listener.port) as socket:
        server = make_server(app, **(tls if listener.certificate else {}))
        async with in_background(jobs.run()), run_server(server, socket):
            host, port = socket.getsockname()[:2]
            scheme = "https" if listener.certificate else "http"
            name = f"[{host}]" if ":" in host else host
            try:
                yield RunningServer(f"{scheme}://{name}:{port}", port, jobs)
            finally:
                app.stop()
