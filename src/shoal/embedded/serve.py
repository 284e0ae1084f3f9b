"""What nodes a machine is to be: as `shoal up` is told, or as it was told last time.

Pods are on nodes. A home that came back as other nodes would have lost those that its pods run on.

The embedded home, put together: objects, the API over them, the agent that runs pods, and the manager.
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
from shoal.api.fields import many
from shoal.apiserver.credentials import Credentials, certificate_hosts
from shoal.apiserver.http.server import serving
from shoal.apiserver.strategies.table import strategies
from shoal.cluster.resources import Object
from shoal.cluster.times import format_time
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

_FILE: Final = "nodes.json"


class NodeLayout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes, as people say them; without a number it is one, named like the machine."""

    nodes: int = 0
    cpu: str = ""
    memory: str = ""
    gpus: int | None = None


def load_layout(home: Path) -> NodeLayout:
    """What the home was last; at first nothing in particular."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((home / _FILE).read_bytes(), type=NodeLayout)
    return NodeLayout()


def save_layout(home: Path, layout: NodeLayout) -> None:
    """Keep what the home is now, for the next time."""
    if layout != load_layout(home):
        write_atomically(str(home / _FILE), msgspec.json.encode(layout), durable=True)


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be served, and how."""

    home: Path
    config: SchedulerConfig
    layout: NodeLayout
    nodes: LocalNodes
    listen: str
    port: int | None
    keep_pods: bool


class StopRequest:
    """What the process has been told: to stop, and whether its pods are to run on."""

    def __init__(self, *, keep_pods: bool) -> None:
        self.stop: Final = stop_event()
        self.keep_pods = keep_pods
        asyncio.get_running_loop().add_signal_handler(KEEP_PODS_SIGNAL, self._keep_pods)

    def _keep_pods(self) -> None:
        self.keep_pods = True
        self.stop.set()


async def serve(
    options: ServeOptions, ready: Callable[[str, Path], None], say: Callable[[str], None]
) -> None:
    """Serve a home until told to stop; `ready` is told its address and its kubeconfig when it can be used."""
    stop_request = StopRequest(keep_pods=options.keep_pods)
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(
            # By the time that a pod comes there is a runtime to ask.
            open_home(
                options.home,
                rules=with_pod_validation(strategies(), pod_validator(lambda: runtime.features, os.geteuid())),
            )
        )
        save_layout(options.home, options.layout)
        runtime = await stack.enter_async_context(open_runtime(options.home))
        agent = Agent(registry, runtime, options.home, options.nodes)
        status = StatusPage(options, runtime)
        credentials = Credentials(options.home, certificate_hosts(options.listen))
        port = credentials.last_port() if options.port is None else options.port
        url = await stack.enter_async_context(
            serving(
                registry,
                credentials,
                options.listen,
                port,
                kubelet=agent,
                pages={STATUS_PATH: status.page},
            )
        )
        kubeconfig = credentials.write_kubeconfig(url)
        stack.push_async_callback(_stop_pods, agent, stop_request, say)
        await stack.enter_async_context(_running_agent(agent))
        status.manager = await stack.enter_async_context(running(registry, options.config, native=True))
        await status.manager.ready()
        stack.enter_context(_daemon_info(options.home, url))
        ready(url, kubeconfig)
        await stop_request.stop.wait()
        say("Stopping.")


class StatusPage:
    """What `shoal status` is told by who serves."""

    def __init__(self, options: ServeOptions, runtime: Runtime) -> None:
        self.manager: Manager | None = None
        self._options: Final = options
        self._runtime: Final = runtime
        self._started_at: Final = time.time()

    def page(self) -> Object:
        features = self._runtime.features
        return {
            "home": str(self._options.home),
            "uptimeSeconds": round(time.time() - self._started_at),
            "abilities": msgspec.to_builtins(features),
            "naming": "hosts files" if features.mounts else "variables",
            "health": msgspec.to_builtins(self.manager.health()) if self.manager else {},
        }


@asynccontextmanager
async def _running_agent(agent: Agent) -> AsyncIterator[None]:
    async with in_background(agent.run()):
        await agent.ready.wait()
        yield


async def _stop_pods(agent: Agent, stop_request: StopRequest, say: Callable[[str], None]) -> None:
    """End all processes of pods, each within its grace; at once when told to stop again.

    Whoever was not told to stop has failed: then pods run on, for the next one to find.
    """
    running_containers = (
        agent.running_runs() if stop_request.stop.is_set() and not stop_request.keep_pods else []
    )
    if not running_containers:
        return
    say(f"Ending {many(len(running_containers), 'container')}; once more to kill.")
    stop_request.stop.clear()
    await agent.mark_pods_disrupted()
    for run in running_containers:
        run.stop(run.spec.grace)
    async with in_background(_kill_on_second_signal(running_containers, stop_request)):
        for run in running_containers:
            await run.wait()


async def _kill_on_second_signal(running_containers: Sequence[Run], stop_request: StopRequest) -> None:
    await stop_request.stop.wait()
    for run in running_containers:
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
