"""The agent: plays the nodes of this machine, and runs their pods as processes.

    agent = Agent(cluster, runtime, home, machines())
    task = asyncio.create_task(agent.run())  # cancel it to let go; what runs goes on
    await agent.ready.wait()

State lives in the objects and in the runtime's directories only. A node that is stopped is nothing but a part
of the agent that has not been started yet.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from shoal.cluster.errors import ClusterError, NotFoundError
from shoal.cluster.events import Recorder
from shoal.cluster.node_status import HEARTBEAT
from shoal.cluster.object_store import Change, Key, Put
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import Reflectors
from shoal.cluster.resources import JOBS, NODES, PODS, SERVICES, Object
from shoal.kubelet.context import COMPONENT, Station
from shoal.kubelet.environment import NODE
from shoal.kubelet.lifecycle import ENDED, Pace
from shoal.kubelet.names import Directory
from shoal.kubelet.nodes import STOPPED, Machine, Machines
from shoal.kubelet.pod import PodKeeper
from shoal.kubelet.queries import Meter, run_of
from shoal.kubelet.reporting import Reporter
from shoal.kubelet.runtime import Consumption, Run, Runtime

_LOG: Final = logging.getLogger(__name__)
_POWER: Final = "power"
_SYSTEM_HOSTS: Final = Path("/etc/hosts")


class Agent:
    """The kubelet of this machine."""

    def __init__(  # noqa: PLR0913 - the last three have their usual values
        self,
        cluster: Cluster,
        runtime: Runtime,
        home: Path,
        machines: Machines,
        *,
        clock: Callable[[], float] = time.time,
        pace: Pace | None = None,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self.ready: Final = asyncio.Event()
        """Set when the nodes are registered and all pods are looked after."""
        self._cluster: Final = cluster
        self._station: Final = Station(
            cluster=cluster,
            runtime=runtime,
            home=home,
            directory=Directory(home, _always()),
            recorder=Recorder(cluster, COMPONENT, clock),
            clock=clock,
            pace=pace or Pace(),
        )
        self._meter: Final = Meter(runtime)
        self._reporter: Final = Reporter(cluster, clock, machines, heartbeat)
        self._machines: Final = {machine.name: machine for machine in machines}
        self._stopped: Final[dict[str, str]] = {}
        """Nodes that are as if they were lost, and how."""
        self._pods: Final[dict[Key, Object]] = {}
        self._pods_changed: Final = asyncio.Event()
        self._keepers: Final[dict[str, tuple[PodKeeper, asyncio.Task[None]]]] = {}
        self._burials: Final[dict[str, asyncio.Task[None]]] = {}

    # --- asked by others ----------------------------------------------------------------------------------

    def run_of(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> Run:  # noqa: FBT001, FBT002 - read aloud it is clear
        """The last run of a container (of the first, if none is named), or the one before."""
        found = self._pods.get((namespace, pod))
        if found is None:
            raise NotFoundError(f'pods "{pod}" not found')
        container = container or found["spec"]["containers"][0]["name"]
        return run_of(self._station.runtime, found, container, previous=previous)

    def usage(self) -> Consumption:
        """What nodes and pods use just now."""
        heard = [name for name in self._machines if name not in self._stopped]
        return self._meter.measure(self._pods.values(), heard, self._station.clock())

    # --- life ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled; what runs then goes on."""
        reflectors = Reflectors(self._cluster)
        reflectors.follow(SERVICES, self._station.directory.hear_of_services)
        reflectors.follow(JOBS, self._station.directory.hear_of_jobs)
        reflectors.follow(NODES, self._hear_of_nodes)
        reflectors.follow(PODS, self._hear_of_pods)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(reflectors.run())
                await reflectors.synced()
                await self._take_over()
                group.create_task(self._reporter.run(self._stopped))
                await self._retire()
        finally:
            tasks = [task for _, task in self._keepers.values()] + list(self._burials.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take_over(self) -> None:
        """Begin where an earlier process left off."""
        self._station.directory.tidy()
        for uid in self._station.runtime.pods():
            for run in self._station.runtime.runs(uid):
                self._station.devices.restore(run.spec)
        await self._reporter.register(self._stopped)
        self.ready.set()
        for name, how in self._stopped.items():
            self._lose(name, how)
        self._keep(self._pods.values())
        self._bury_the_forgotten()

    async def say_goodbye(self) -> None:
        """Say of the pods that will have failed when everything is ended that it is not their fault."""
        for name in self._machines:
            for pod in self._on(name):
                if pod["spec"].get("restartPolicy") == "Never":
                    with contextlib.suppress(ClusterError):
                        await self._reporter.blame(pod, "The daemon was told to stop.")

    def living(self) -> list[Run]:
        """All runs of all pods that have not ended."""
        runtime = self._station.runtime
        return [run for uid in runtime.pods() for run in runtime.runs(uid) if run.exit is None]

    # --- pods ---------------------------------------------------------------------------------------------

    def _hear_of_pods(self, changes: Sequence[Change[Object]]) -> None:
        self._station.directory.hear_of_pods(changes)
        self._pods_changed.set()
        for change in changes:
            if isinstance(change, Put):
                self._pods[change.key] = change.item
                self._keep([change.item])
            else:
                gone = self._pods.pop(change.key)
                self._let_go(gone["metadata"]["uid"], gone["spec"].get("nodeName", ""))

    def _keep(self, pods: Iterable[Object]) -> None:
        """Look after pods that are ours, unless their node is as if it were lost."""
        for pod in pods:
            node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
            if not self.ready.is_set() or node in self._stopped or node not in self._reporter.played:
                continue
            if uid in self._keepers:
                self._keepers[uid][0].hear(pod)
            elif uid not in self._burials:
                machine = self._machines.get(node) or Machine(name=node, cpu=0, memory=0)
                keeper = PodKeeper(pod, machine, self._station)
                self._keepers[uid] = keeper, _begin(keeper.run())

    def _let_go(self, uid: str, node: str) -> None:
        """A pod is gone: so are its processes, unless its node does not know."""
        if not self.ready.is_set() or node in self._stopped:
            return
        keeper = self._keepers.pop(uid, None)
        if keeper:
            keeper[1].cancel()
        if self._station.directory_of(uid).exists() and uid not in self._burials:
            self._burials[uid] = _begin(self._bury(uid))

    async def _bury(self, uid: str) -> None:
        """End what is left of a pod, and remove it from the disk."""
        runs = self._station.runtime.runs(uid)
        for run in runs:
            if run.exit is None:
                run.stop(0)
        for run in runs:
            await run.ended()
        self._station.devices.release(uid)
        try:
            await self._station.runtime.remove(uid)
        except OSError as problem:
            _LOG.warning("the directory of pod %s cannot be removed: %s", uid, problem)
        del self._burials[uid]

    def _bury_the_forgotten(self) -> None:
        """Pods that have a directory and no object: they were removed while nobody looked."""
        there = {pod["metadata"]["uid"] for pod in self._pods.values()}
        for uid in self._station.runtime.pods() - there:
            runs = self._station.runtime.runs(uid)
            self._let_go(uid, runs[0].spec.env.get(NODE, "") if runs else "")

    # --- nodes --------------------------------------------------------------------------------------------

    def _hear_of_nodes(self, changes: Sequence[Change[Object]]) -> None:
        self._reporter.hear(changes)
        for change in changes:
            name = change.key[1]
            how = _stopped(change.item) if isinstance(change, Put) else ""
            before = self._stopped.get(name, "")
            if how == before or name not in self._reporter.played:
                continue
            if how:
                self._stopped[name] = how
                self._lose(name, how)
            else:
                self._find(name)

    def _lose(self, name: str, how: str) -> None:
        """A node is as if it were lost: nobody looks after its pods, and without power nothing runs."""
        if not self.ready.is_set():
            return
        for uid, (keeper, task) in list(self._keepers.items()):
            if keeper.machine.name == name:
                del self._keepers[uid]
                task.cancel()
        if how == _POWER:
            self._cut_power(name)

    def _cut_power(self, name: str) -> None:
        for run in self.living():
            if run.spec.env.get(NODE) == name:
                run.stop(0)

    def _find(self, name: str) -> None:
        """A node is back: it goes on where it was, and ends what is gone."""
        del self._stopped[name]
        if self.ready.is_set():
            self._reporter.announce()
            self._keep(self._pods.values())
            self._bury_the_forgotten()

    async def _retire(self) -> None:
        """Remove nodes that an earlier process played and that are no more; their pods are ended first."""
        for name in sorted(self._reporter.played - self._machines.keys()):
            try:
                await self._retire_one(name)
            except ClusterError as problem:
                _LOG.warning("node %s stays until the next start: %s", name, problem.message)

    async def _retire_one(self, name: str) -> None:
        await self._reporter.give_up(name, self._on(name))
        while self._on(name):
            self._pods_changed.clear()
            await self._pods_changed.wait()
        await self._reporter.remove(name)

    def _on(self, node: str) -> list[Object]:
        """The pods of a node that have not ended."""
        return [
            pod
            for pod in self._pods.values()
            if pod["spec"].get("nodeName") == node and pod.get("status", {}).get("phase") not in ENDED
        ]


def _stopped(node: Object) -> str:
    return str(node["metadata"].get("annotations", {}).get(STOPPED, ""))


def _begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)


def _always() -> str:
    """The hosts that the system knows."""
    with contextlib.suppress(OSError):
        return _SYSTEM_HOSTS.read_text()
    return "127.0.0.1 localhost\n"
