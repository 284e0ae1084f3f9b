"""The simulated kubelet: runs nodes without containers, whose pods follow scripts.

    async with simulated_kubelet(cluster, ["n1", "n2"], script=lambda pod: runs_for(5)) as kubelet:
        await cluster.bind("a", "default", "n1")
        ...                                          # the pod runs, gets an IP, and succeeds 5 seconds later
        kubelet.script = lambda pod: PodScript()     # for pods that are bound from now on
        kubelet.partition("n1", 300)                 # n1 neither observes nor reports for five minutes

It uses the port only, so it works with every cluster: in simulated runs, and with a real API server that has
no kubelets. It registers its nodes (capacity, Ready, a Lease that it renews), and does to each pod that is
bound to one of them what a kubelet does: IP, phase, conditions, container statuses and restarts. A deleted
pod ends after its script's `shutdown` seconds, or its grace period if that is shorter, and is then removed.

All its state is in the objects: it can be stopped at any time, and another one continues. After the `with`
block the nodes' leases are no longer renewed and their pods no longer updated, as when a kubelet dies;
`remove_nodes` deletes the nodes. Times come from a clock, which a test may move.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

from shoal.cluster.errors import ClusterError
from shoal.cluster.node_status import HEARTBEAT_SECONDS, NodeStatusWriter, ready_node
from shoal.cluster.object_store import Change, Key, Put
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import Reflector, ReflectorOptions
from shoal.cluster.resources import PODS, Object
from shoal.simulator.kubelet import statuses
from shoal.simulator.kubelet.node import Clock, LoopClock, NodeContext, SimulatedNode
from shoal.simulator.kubelet.scripts import PodScript, ScriptSource


@contextlib.asynccontextmanager
async def simulated_kubelet(  # noqa: PLR0913 - all but two have defaults
    cluster: Cluster,
    nodes: Iterable[str],
    *,
    script: ScriptSource = lambda _: PodScript(),
    clock: Clock | None = None,
    capacity: Mapping[str, str] = statuses.CAPACITY,
    labels: Mapping[str, str] | None = None,
    heartbeat: float = HEARTBEAT_SECONDS,
    reflector_options: ReflectorOptions | None = None,
) -> AsyncIterator["SimulatedKubelet"]:
    """Run these nodes until the block ends. They are registered, and their pods known, when it begins.

    In a simulated run the clock is a LoopClock of the run, and the options have an rng of the run.
    """
    names = list(nodes)
    kubelet = SimulatedKubelet(cluster, names, script, clock or LoopClock(time.time))
    await kubelet.register(names, capacity, labels or {})
    async with kubelet.running(heartbeat, reflector_options):
        yield kubelet


class SimulatedKubelet:
    """Runs nodes. `script` may be replaced at any time; pods that have a script keep it."""

    def __init__(self, cluster: Cluster, nodes: Sequence[str], script: ScriptSource, clock: Clock) -> None:
        self._cluster: Final = cluster
        self._clock: Final = clock
        self._context: Final = NodeContext(cluster, clock, script)
        self._writer: Final = NodeStatusWriter(cluster, clock.now)
        self._nodes: Final = {name: SimulatedNode(name, self._context) for name in sorted(nodes)}
        self._node_of: Final[dict[Key, SimulatedNode]] = {}
        """The node of each pod."""

    @property
    def script(self) -> ScriptSource:
        """The source of scripts for new pods."""
        return self._context.script

    @script.setter
    def script(self, script: ScriptSource) -> None:
        self._context.script = script

    # --- nodes --------------------------------------------------------------------------------------------

    async def register(
        self, names: Iterable[str], capacity: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Create some of the nodes, or make existing ones ready again."""
        for name in names:
            await self._writer.register(ready_node(name, capacity, labels, self._clock.now()))

    async def set_ready(self, name: str, *, ready: bool) -> None:
        """Set the Ready condition of a node."""
        await self._writer.set_ready(name, ready=ready)

    async def remove_nodes(self) -> None:
        """Delete the nodes and their leases."""
        for name in self._nodes:
            await self._writer.remove(name)

    def partition(self, name: str, seconds: float) -> None:
        """Cut a node off from the API server: it neither observes nor writes, and its pods run on."""
        node = self._nodes[name]
        if node.partition(self._clock.now() + seconds):
            self._context.start(self._recover(node))

    async def _recover(self, node: SimulatedNode) -> None:
        """Wait for the end of a partition, and report the node ready."""
        await node.recover()
        with contextlib.suppress(ClusterError):
            await self._writer.renew_lease(node.name)
            await self._writer.set_ready(node.name, ready=True)

    async def _send_heartbeats(self, interval: float) -> None:
        due = self._clock.now()
        while True:
            due = await self._sleep_until(due + interval)
            for node in self._nodes.values():
                if not node.partitioned:
                    with contextlib.suppress(ClusterError):
                        await self._writer.renew_lease(node.name)
                        await self._writer.restore_ready(node.name)

    async def _sleep_until(self, due: float) -> float:
        """Wait until a time, and return it; if the clock is set back meanwhile, return its new time."""
        while (now := self._clock.now()) < due:
            await self._clock.sleep_until(due)
            if self._clock.now() < now:
                return self._clock.now()
        return due

    # --- pods ---------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(
        self, heartbeat: float = HEARTBEAT_SECONDS, reflector_options: ReflectorOptions | None = None
    ) -> AsyncIterator[None]:
        """Follow the pods and renew the leases until the block ends."""
        reflector = Reflector(self._cluster, PODS, self._handle, options=reflector_options)
        self._context.start(reflector.run())
        self._context.start(self._send_heartbeats(heartbeat))
        try:
            await reflector.synced.wait()
            yield
        finally:
            tasks = list(self._context.tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def observed(self, pod: Object) -> None:
        """Wait until the kubelet has observed this version of a pod, or a later one."""
        metadata = pod["metadata"]
        key = metadata["namespace"], metadata["name"]
        await self._node_of[key].observed(key, int(metadata["resourceVersion"]))

    def running_pods(self) -> dict[str, list[str]]:
        """Return the uids of the pods that run on each node in truth, also on partitioned ones."""
        return {name: node.running_pods() for name, node in self._nodes.items()}

    def _handle(self, changes: Sequence[Change[Object]]) -> None:
        for change in changes:
            node = self._node_of.pop(change.key, None)
            if isinstance(change, Put):
                node = self._nodes.get(change.item["spec"].get("nodeName"))
            if node is not None:
                if isinstance(change, Put):
                    self._node_of[change.key] = node
                node.handle(change)
