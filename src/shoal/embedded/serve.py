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
from shoal.apiserver.credentials import Credentials, names_of
from shoal.apiserver.http.server import serving
from shoal.apiserver.strategies.table import RULES
from shoal.cluster.resources import Object
from shoal.cluster.times import as_text
from shoal.embedded.admission import refusing
from shoal.embedded.daemon import LEAVE_PODS, STATUS_PAGE, remove_facts, told_to_stop, write_facts
from shoal.embedded.store import open_home
from shoal.engine.config import SchedulerConfig
from shoal.kubelet.admission import refuser
from shoal.kubelet.agent import Agent
from shoal.kubelet.nodes import Machines
from shoal.kubelet.runtime import Run, Runtime, opened_runtime
from shoal.kubelet.shim.records import write_whole
from shoal.manager import Manager, beside, running

_FILE: Final = "nodes.json"


class Layout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The nodes, as people say them; without a number it is one, named like the machine."""

    nodes: int = 0
    cpu: str = ""
    memory: str = ""
    gpus: int | None = None


def last(home: Path) -> Layout:
    """What the home was last; at first nothing in particular."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((home / _FILE).read_bytes(), type=Layout)
    return Layout()


def remember(home: Path, layout: Layout) -> None:
    """Keep what the home is now, for the next time."""
    if layout != last(home):
        write_whole(str(home / _FILE), msgspec.json.encode(layout), durable=True)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be served, and how."""

    home: Path
    settings: SchedulerConfig
    layout: Layout
    machines: Machines
    listen: str
    port: int | None
    keep_pods: bool


class Wishes:
    """What the process has been told: to stop, and whether its pods are to run on."""

    def __init__(self, *, keep_pods: bool) -> None:
        self.stop: Final = told_to_stop()
        self.keep_pods = keep_pods
        asyncio.get_running_loop().add_signal_handler(LEAVE_PODS, self._leave)

    def _leave(self) -> None:
        self.keep_pods = True
        self.stop.set()


async def serve(order: Order, ready: Callable[[str, Path], None], say: Callable[[str], None]) -> None:
    """Serve a home until told to stop; `ready` is told its address and its kubeconfig when it can be used."""
    wishes = Wishes(keep_pods=order.keep_pods)
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(
            # By the time that a pod comes there is a runtime to ask.
            open_home(order.home, rules=refusing(RULES, refuser(lambda: runtime.abilities, os.geteuid())))
        )
        remember(order.home, order.layout)
        runtime = await stack.enter_async_context(opened_runtime(order.home))
        agent = Agent(registry, runtime, order.home, order.machines)
        status = Status(order, runtime)
        credentials = Credentials(order.home, names_of(order.listen))
        port = credentials.last_port() if order.port is None else order.port
        url = await stack.enter_async_context(
            serving(
                registry,
                credentials,
                order.listen,
                port,
                kubelet=agent,
                pages={STATUS_PAGE: status.page},
            )
        )
        kubeconfig = credentials.write_kubeconfig(url)
        stack.push_async_callback(_end_pods, agent, wishes, say)
        await stack.enter_async_context(_at_work(agent))
        status.manager = await stack.enter_async_context(running(registry, order.settings, native=True))
        await status.manager.ready()
        stack.enter_context(_facts(order.home, url))
        ready(url, kubeconfig)
        await wishes.stop.wait()
        say("Stopping.")


class Status:
    """What `shoal status` is told by who serves."""

    def __init__(self, order: Order, runtime: Runtime) -> None:
        self.manager: Manager | None = None
        self._order: Final = order
        self._runtime: Final = runtime
        self._began: Final = time.time()

    def page(self) -> Object:
        able = self._runtime.abilities
        return {
            "home": str(self._order.home),
            "uptimeSeconds": round(time.time() - self._began),
            "abilities": msgspec.to_builtins(able),
            "naming": "hosts files" if able.mounts else "variables",
            "health": msgspec.to_builtins(self.manager.health()) if self.manager else {},
        }


@asynccontextmanager
async def _at_work(agent: Agent) -> AsyncIterator[None]:
    async with beside(agent.run()):
        await agent.ready.wait()
        yield


async def _end_pods(agent: Agent, wishes: Wishes, say: Callable[[str], None]) -> None:
    """End all processes of pods, each within its grace; at once when told to stop again.

    Whoever was not told to stop has failed: then pods run on, for the next one to find.
    """
    living = agent.living() if wishes.stop.is_set() and not wishes.keep_pods else []
    if not living:
        return
    say(f"Ending {many(len(living), 'container')}; once more to kill.")
    wishes.stop.clear()
    await agent.say_goodbye()
    for run in living:
        run.stop(run.spec.grace)
    async with beside(_kill_when_told(living, wishes)):
        for run in living:
            await run.ended()


async def _kill_when_told(living: Sequence[Run], wishes: Wishes) -> None:
    await wishes.stop.wait()
    for run in living:
        run.stop(0)


@contextmanager
def _facts(home: Path, url: str) -> Iterator[None]:
    write_facts(home, pid=os.getpid(), startTime=as_text(time.time()), url=url, version=shoal.__version__)
    try:
        yield
    finally:
        remove_facts(home)
