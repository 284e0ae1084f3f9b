"""What is said about the nodes of this machine: that they are there and live, and that some are no more."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

from shoal.cluster.errors import ClusterError, NotFoundError
from shoal.cluster.node_status import NodeStatusWriter, make_condition
from shoal.cluster.object_store import Change, Put
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import NODES, PODS, Object
from shoal.kinds.pods import DISRUPTION
from shoal.kubelet.nodes import MACHINE_ANNOTATION, LocalNodes, build_node

_LOG: Final = logging.getLogger(__name__)


class NodeReporter:
    """Speaks for nodes."""

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
        """Nodes that are ours: those of this machine, and those that an earlier process made."""

    def on_node_changes(self, changes: Sequence[Change[Object]]) -> None:
        """Nodes came or changed; those that we made once are ours."""
        for change in changes:
            if isinstance(change, Put) and MACHINE_ANNOTATION in change.item["metadata"].get(
                "annotations", {}
            ):
                self.owned.add(change.key[1])

    async def register(self, stopped: Collection[str]) -> None:
        """Make the nodes, or make them ready again; not those that are as if they were lost."""
        for name in self._nodes_by_name:
            if name not in stopped:
                await self._try_for(self._register, name)

    def report_now(self) -> None:
        """A node is back: say so at once."""
        self._wake.set()

    async def run(self, stopped: Collection[str]) -> None:
        """Give signs of life for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat):
                    await self._wake.wait()
            self._wake.clear()
            for name in self._nodes_by_name:
                if name not in stopped:
                    await self._try_for(self._heartbeat_node, name)

    async def _heartbeat_node(self, name: str) -> None:
        """Say that a node lives; one that could not be made, or that somebody has deleted, is made."""
        try:
            await self._nodes.contradict(name)
            await self._nodes.renew(name)
        except NotFoundError:
            self._registered.discard(name)
        if name not in self._registered:
            await self._register(name)

    async def _register(self, name: str) -> None:
        await self._nodes.register(build_node(self._nodes_by_name[name], self._clock()))
        self._registered.add(name)

    async def _try_for(self, action: Callable[[str], Awaitable[None]], name: str) -> None:
        """What cannot be said now, because the disk is full perhaps, is said with the next sign of life."""
        try:
            await action(name)
        except ClusterError as error:
            _LOG.warning("node %s: %s", name, error.message)

    # --- nodes that are no more ---------------------------------------------------------------------------

    async def drain(self, name: str, pods: Iterable[Object]) -> None:
        """Keep new pods away from a node, and delete those that it has."""
        with contextlib.suppress(NotFoundError):
            await self._cluster.patch(NODES, name, patch={"spec": {"unschedulable": True}})
        for pod in pods:
            await self._evict(pod)

    async def remove(self, name: str) -> None:
        """A node is no more."""
        self.owned.discard(name)
        await self._nodes.remove(name)

    async def _evict(self, pod: Object) -> None:
        metadata = pod["metadata"]
        with contextlib.suppress(ClusterError):
            await self.mark_disrupted(
                pod, f"Node {pod['spec']['nodeName']} is not part of this machine any more."
            )
            await self._cluster.delete(
                PODS, metadata["name"], metadata["namespace"], Deletion(uid=metadata["uid"])
            )

    async def mark_disrupted(self, pod: Object, message: str) -> None:
        """Say why a pod is ended, so that nobody takes it for a failure."""
        metadata = pod["metadata"]
        why = make_condition(
            DISRUPTION, holds=True, since=self._clock(), reason="TerminationByKubelet", message=message
        )
        others = [one for one in pod.get("status", {}).get("conditions", ()) if one["type"] != DISRUPTION]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [*others, why]}}
        await self._cluster.patch_status(PODS, metadata["name"], metadata["namespace"], patch=patch)
