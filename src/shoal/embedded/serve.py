"""The composition root of `shoal up`: objects, the API server, the agent that runs pods, and the manager.

The layout of nodes is stored in the home and used again by default: pods are bound to nodes, and a home that
came back with other nodes would lose its pods.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import msgspec

import shoal
from shoal.api.fields import pluralize
from shoal.apiserver.credentials import Credentials, certificate_hosts
from shoal.apiserver.http.server import serving
from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.strategies.table import strategies
from shoal.cluster.resources import Object
from shoal.cluster.times import format_time
from shoal.controllers.jobs.server_access import ServerAccess
from shoal.controllers.jobs.tokens import fetch_key
from shoal.embedded.daemon import (
    KEEP_PODS_SIGNAL,
    STATUS_PATH,
    remove_daemon_info,
    stop_event,
    write_daemon_info,
)
from shoal.embedded.store import open_home, with_pod_validation
from shoal.engine.config import SchedulerConfig
from shoal.kubelet.admission import pod_validator
from shoal.kubelet.agent import Agent
from shoal.kubelet.nodes import LocalNodes
from shoal.kubelet.runtime import Run, Runtime, open_runtime
from shoal.kubelet.shim.records import write_atomically
from shoal.manager import Manager, in_background, running
from shoal.server.callers import Administrator
from shoal.server.serving import Listener, RunningServer, ServerOptions, serving_jobs

_LAYOUT_FILE: Final = "nodes.json"
_SERVER_FILE: Final = "di-server.json"


class NodeLayout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes of a home, as given on the command line; 0 nodes means one, named like the machine."""

    nodes: int = 0
    cpu: str = ""
    memory: str = ""
    gpus: int | None = None


def load_layout(home: Path) -> NodeLayout:
    """The stored layout of a home; the default if there is none."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((home / _LAYOUT_FILE).read_bytes(), type=NodeLayout)
    return NodeLayout()


def save_layout(home: Path, layout: NodeLayout) -> None:
    """Store the layout of a home if it has changed."""
    if layout != load_layout(home):
        write_atomically(str(home / _LAYOUT_FILE), msgspec.json.encode(layout), durable=True)


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the DI server of a home listens: pods know its port, so that it stays the same over restarts."""

    port: int = 0


def last_server_port(home: Path) -> int:
    """The port that the DI server of a home had; 0 if it never ran."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((home / _SERVER_FILE).read_bytes(), type=ServerAddress).port
    return 0


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to serve, and how."""

    home: Path
    config: SchedulerConfig
    layout: NodeLayout
    nodes: LocalNodes
    listen: str
    port: int | None
    server_port: int | None
    keep_pods: bool


class StopRequest:
    """Whether the process was asked to stop, and whether its pods shall continue to run."""

    def __init__(self, *, keep_pods: bool) -> None:
        self.requested: Final = stop_event()
        self.keep_pods = keep_pods
        asyncio.get_running_loop().add_signal_handler(KEEP_PODS_SIGNAL, self._keep_pods)

    def _keep_pods(self) -> None:
        self.keep_pods = True
        self.requested.set()


async def serve(
    options: ServeOptions, ready: Callable[[str, Path], None], echo: Callable[[str], None]
) -> None:
    """Serve a home until asked to stop; `ready` is called with its URL and kubeconfig when it can be used."""
    stop_request = StopRequest(keep_pods=options.keep_pods)
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(
            # The runtime is opened below, before any pod can be submitted.
            open_home(
                options.home,
                strategies=with_pod_validation(
                    strategies(), pod_validator(lambda: runtime.features, os.geteuid())
                ),
            )
        )
        save_layout(options.home, options.layout)
        runtime = await stack.enter_async_context(open_runtime(options.home))
        agent = Agent(registry, runtime, options.home, options.nodes)
        status_page = StatusPage(options, runtime)
        credentials = Credentials(options.home, certificate_hosts(options.listen))
        port = credentials.last_port() if options.port is None else options.port
        url = await stack.enter_async_context(
            serving(
                registry,
                credentials,
                options.listen,
                port,
                kubelet=agent,
                pages={STATUS_PATH: status_page.render},
            )
        )
        kubeconfig = credentials.write_kubeconfig(url)
        key = await fetch_key(registry)
        server = await stack.enter_async_context(_running_server(registry, key, credentials.token, options))
        status_page.server_url = server.url
        stack.push_async_callback(_stop_pods, agent, stop_request, echo)  # they may report until they end
        await stack.enter_async_context(_running_agent(agent))
        status_page.manager = await stack.enter_async_context(
            running(registry, options.config, native=True, server=ServerAccess(server.url, key))
        )
        await status_page.manager.ready()
        await server.jobs.synced()
        stack.enter_context(_daemon_info(options.home, url))
        ready(url, kubeconfig)
        await stop_request.requested.wait()
        echo("Stopping.")


class StatusPage:
    """The status page of the daemon, which `shoal status` shows."""

    def __init__(self, options: ServeOptions, runtime: Runtime) -> None:
        self.manager: Manager | None = None
        self.server_url = ""
        self._options: Final = options
        self._runtime: Final = runtime
        self._started_at: Final = time.time()

    def render(self) -> Object:
        """The page as JSON data."""
        features = self._runtime.features
        return {
            "home": str(self._options.home),
            "uptimeSeconds": round(time.time() - self._started_at),
            "abilities": msgspec.to_builtins(features),
            "naming": "hosts files" if features.mounts else "variables",
            "server": self.server_url,
            "health": msgspec.to_builtins(self.manager.health()) if self.manager else {},
        }


@asynccontextmanager
async def _running_server(
    registry: Registry, key: bytes, token: str, options: ServeOptions
) -> AsyncIterator[RunningServer]:
    """Run the DI server on the loopback address, for the pods and users of this machine."""
    port = last_server_port(options.home) if options.server_port is None else options.server_port
    server_options = ServerOptions(key=key, users=Administrator(token), config=options.config)
    async with serving_jobs(registry, server_options, Listener(port=port)) as server:
        address = msgspec.json.encode(ServerAddress(port=server.port))
        write_atomically(str(options.home / _SERVER_FILE), address, durable=True)
        yield server


@asynccontextmanager
async def _running_agent(agent: Agent) -> AsyncIterator[None]:
    async with in_background(agent.run()):
        await agent.ready.wait()
        yield


async def _stop_pods(agent: Agent, stop_request: StopRequest, echo: Callable[[str], None]) -> None:
    """Stop all containers, each within its grace period; kill them at a second stop request.

    If serving failed without a stop request, containers continue to run, for the next daemon to adopt.
    """
    runs = agent.active_runs() if stop_request.requested.is_set() and not stop_request.keep_pods else []
    if not runs:
        return
    echo(f"Stopping {pluralize(len(runs), 'container')}; interrupt again to kill.")
    stop_request.requested.clear()
    await agent.mark_pods_disrupted()
    for run in runs:
        run.stop(run.spec.grace)
    async with in_background(_kill_on_second_signal(runs, stop_request)):
        for run in runs:
            await run.wait()


async def _kill_on_second_signal(runs: Sequence[Run], stop_request: StopRequest) -> None:
    await stop_request.requested.wait()
    for run in runs:
        run.stop(0)


@contextmanager
def _daemon_info(home: Path, url: str) -> Iterator[None]:
    write_daemon_info(
        home, pid=os.getpid(), startTime=format_time(time.time()), url=url, version=shoal.__version__
    )
    try:
        yield
    finally:
        remove_daemon_info(home)
