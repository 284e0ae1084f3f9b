"""A kubelet without containers: plays nodes, and gives their pods the lives that a script says.

    async with kubelet(cluster, ["n1", "n2"], script=lambda pod: runs_for(5)) as playing:
        await cluster.bind("a", "default", "n1")
        ...                                     # the pod runs, gets an IP, and succeeds 5 seconds later
        playing.script = lambda pod: Life()     # for pods that come from now on
        playing.lose("n1", 300)                 # n1 neither hears nor reports anything for five minutes

It speaks the port and nothing else, so it works wherever objects live: in simulated runs, and beside a real
API server that has no kubelets. It registers its nodes (capacity, Ready, a Lease that it renews), and does to
each pod that is bound to one of them what a kubelet does: IP, phase, conditions, container statuses and
restarts. A pod that is deleted ends after its life's `dying` seconds, or its grace if that is less, and is
then removed.

All that it knows of a pod it reads from the pod: it can be stopped at any moment, and another one goes on
where it was. After the `with` block nobody renews the nodes' leases and nobody tends their pods, as when a
kubelet dies; `remove_nodes` deletes them. Times come from a clock, which may be one that a test moves.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

from shoal.cluster.errors import ClusterError
from shoal.cluster.node_status import HEARTBEAT, Nodes, node
from shoal.cluster.object_store import Change, Key, Put
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import Reflector, ReflectorOptions
from shoal.cluster.resources import PODS, Object
from shoal.simulator.kubelet import statuses
from shoal.simulator.kubelet.lives import PodScript, ScriptSource
from shoal.simulator.kubelet.machine import Clock, LoopClock, SimulatedNode, NodeContext


@contextlib.asynccontextmanager
async def simulated_kubelet(  # noqa: PLR0913 - all have their usual values
    cluster: Cluster,
    nodes: Iterable[str],
    *,
    script: ScriptSource = lambda _: PodScript(),
    clock: Clock | None = None,
    capacity: Mapping[str, str] = statuses.CAPACITY,
    labels: Mapping[str, str] | None = None,
    heartbeat: float = HEARTBEAT,
    pace: ReflectorOptions | None = None,
) -> AsyncIterator["Kubelet"]:
    """Play these nodes until the block ends. They are registered, and their pods known, when it begins.

    In a simulated run the clock is a LoopClock of the run's own, and the pace has dice of the run's own.
    """
    names = list(nodes)
    playing = SimulatedKubelet(cluster, names, script, clock or LoopClock(time.time))
    await playing.register(names, capacity, labels or {})
    async with playing.at_work(heartbeat, pace):
        yield playing


class SimulatedKubelet:
    """Plays nodes. `script` may be replaced at any time; pods that have a life keep it."""

    def __init__(self, cluster: Cluster, nodes: Sequence[str], script: ScriptSource, clock: Clock) -> None:
        self._cluster: Final = cluster
        self._clock: Final = clock
        self._around: Final = NodeContext(cluster, clock, script)
        self._nodes: Final = Nodes(cluster, clock.now)
        self._machines: Final = {name: SimulatedNode(name, self._around) for name in sorted(nodes)}
        self._at: Final[dict[Key, SimulatedNode]] = {}
        """Who has a pod."""

    @property
    def script(self) -> ScriptSource:
        """What says which life a pod has that comes now."""
        return self._around.script

    @script.setter
    def script(self, script: ScriptSource) -> None:
        self._around.script = script

    # --- nodes --------------------------------------------------------------------------------------------

    async def register(
        self, names: Iterable[str], capacity: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Make some of the nodes, or make them ready again if they are there."""
        for name in names:
            await self._nodes.register(node(name, capacity, labels, self._clock.now()))

    async def set_ready(self, name: str, *, ready: bool) -> None:
        """Say whether a node is ready."""
        await self._nodes.set_ready(name, ready=ready)

    async def remove_nodes(self) -> None:
        """Delete the nodes and their leases, as if the machines had never been there."""
        for name in self._machines:
            await self._nodes.remove(name)

    def lose(self, name: str, seconds: float) -> None:
        """Cut a node off: it hears nothing and says nothing for so long, and its pods live on unseen."""
        machine = self._machines[name]
        if machine.cut_off(self._clock.now() + seconds):
            self._around.begin(self._find(machine))

    async def _find(self, machine: SimulatedNode) -> None:
        """Wait until a node is back, and let it say that it is well."""
        await machine.back()
        with contextlib.suppress(ClusterError):
            await self._nodes.renew(machine.name)
            await self._nodes.set_ready(machine.name, ready=True)

    async def _heartbeats(self, every: float) -> None:
        due = self._clock.now()
        while True:
            due = await self._passed(due + every)
            for machine in self._machines.values():
                if not machine.lost:
                    with contextlib.suppress(ClusterError):
                        await self._nodes.renew(machine.name)
                        await self._nodes.contradict(machine.name)

    async def _passed(self, due: float) -> float:
        """Wait until then, and return when that was: sooner by a clock that is set back meanwhile."""
        while (now := self._clock.now()) < due:
            await self._clock.sleep_until(due)
            if self._clock.now() < now:
                return self._clock.now()
        return due

    # --- pods ---------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def at_work(
        self, heartbeat: float = HEARTBEAT, pace: ReflectorOptions | None = None
    ) -> AsyncIterator[None]:
        """Follow the pods and renew the leases until the block ends."""
        reflector = Reflector(self._cluster, PODS, self._hear, options=pace)
        self._around.begin(reflector.run())
        self._around.begin(self._heartbeats(heartbeat))
        try:
            await reflector.synced.wait()
            yield
        finally:
            tasks = list(self._around.tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def heard_of(self, thing: Object) -> None:
        """Come back when the kubelet knows of this version of a pod, or of a later one."""
        metadata = thing["metadata"]
        key = metadata["namespace"], metadata["name"]
        await self._at[key].heard_of(key, int(metadata["resourceVersion"]))

    def running(self) -> dict[str, list[str]]:
        """The uids of the pods that run on each node in truth, also on those that are cut off."""
        return {name: machine.running() for name, machine in self._machines.items()}

    def _hear(self, changes: Sequence[Change[Object]]) -> None:
        for change in changes:
            machine = self._at.pop(change.key, None)
            if isinstance(change, Put):
                machine = self._machines.get(change.item["spec"].get("nodeName"))
            if machine is not None:
                if isinstance(change, Put):
                    self._at[change.key] = machine
                machine.hear(change)
