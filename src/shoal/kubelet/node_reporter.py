"""Reports the nodes of this machine: registers them, sends heartbeats, and removes nodes that are gone."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

from shoal.api.conditions import set_condition
from shoal.api.disruption import DISRUPTION
from shoal.cluster.errors import ClusterError, NotFoundError
from shoal.cluster.node_status import NodeStatusWriter, make_condition
from shoal.cluster.object_store import Change, Put
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import NODES, PODS, Object
from shoal.cluster.times import format_time
from shoal.kubelet.nodes import MACHINE_ANNOTATION, LocalNodes, build_node

_LOG: Final = logging.getLogger(__name__)


class NodeReporter:
    """Writes the status of nodes."""

    def __init__(
        self, cluster: Cluster, clock: Callable[[], float], nodes: LocalNodes, heartbeat: float
    ) -> None:
        self._cluster: Final = cluster
        self._clock: Final = clock
        self._nodes: Final = NodeStatusWriter(cluster, clock)
        self._nodes_by_name: Final = {node.name: node for node in nodes}
        self._heartbeat: Final = heartbeat
        self._wake: Final = asyncio.Event()
        self._registered: Final[set[str]] = set()
        self.owned: Final[set[str]] = set(self._nodes_by_name)
        """Nodes of this agent: those of this machine, and those that an earlier process registered."""

    def on_node_changes(self, changes: Sequence[Change[Object]]) -> None:
        """Note which nodes an earlier process of this machine has registered."""
        for change in changes:
            if isinstance(change, Put) and MACHINE_ANNOTATION in change.item["metadata"].get(
                "annotations", {}
            ):
                self.owned.add(change.key[1])

    async def register(self, stopped: Collection[str]) -> None:
        """Create the nodes, or set them ready again; except stopped ones."""
        for name in self._nodes_by_name:
            if name not in stopped:
                await self._try_for(self._register, name)

    def report_now(self) -> None:
        """Send heartbeats at once: a stopped node has been restored."""
        self._wake.set()

    async def run(self, stopped: Collection[str]) -> None:
        """Send heartbeats until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat):
                    await self._wake.wait()
            self._wake.clear()
            for name in self._nodes_by_name:
                if name not in stopped:
                    await self._try_for(self._heartbeat_node, name)

    async def _heartbeat_node(self, name: str) -> None:
        """Renew the lease of a node; register it if it was deleted or could not be created before."""
        try:
            await self._nodes.restore_ready(name)
            await self._nodes.renew_lease(name)
        except NotFoundError:
            self._registered.discard(name)
        if name not in self._registered:
            await self._register(name)

    async def _register(self, name: str) -> None:
        await self._nodes.register(build_node(self._nodes_by_name[name], self._clock()))
        self._registered.add(name)

    async def _try_for(self, action: Callable[[str], Awaitable[None]], name: str) -> None:
        """Run an action; an error, e.g. of a full disk, is logged: the next heartbeat tries again."""
        try:
            await action(name)
        except ClusterError as error:
            _LOG.warning("node %s: %s", name, error.message)

    # --- removed nodes ------------------------------------------------------------------------------------

    async def drain(self, name: str, pods: Iterable[Object]) -> None:
        """Cordon a node and delete its pods."""
        with contextlib.suppress(NotFoundError):
            await self._cluster.patch(NODES, name, patch={"spec": {"unschedulable": True}})
        for pod in pods:
            await self._evict(pod)

    async def remove(self, name: str) -> None:
        """Delete a node."""
        self.owned.discard(name)
        await self._nodes.remove(name)

    async def _evict(self, pod: Object) -> None:
        metadata = pod["metadata"]
        with contextlib.suppress(ClusterError):
            await self.mark_disrupted(pod, f"Node {pod['spec']['nodeName']} was removed from this machine.")
            await self._cluster.delete(
                PODS, metadata["name"], metadata["namespace"], Deletion(uid=metadata["uid"])
            )

    async def mark_disrupted(self, pod: Object, message: str) -> None:
        """Set DisruptionTarget on a pod: its end is not its own failure."""
        metadata = pod["metadata"]
        disrupted = make_condition(DISRUPTION, holds=True, reason="TerminationByKubelet", message=message)
        before = pod.get("status", {}).get("conditions", [])
        conditions = set_condition(before, disrupted, format_time(self._clock())) or before
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": conditions}}
        await self._cluster.patch_status(PODS, metadata["name"], metadata["namespace"], patch=patch)
