"""What is said about the nodes of this machine: that they are there and live, and that some are no more."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

from shoal.cache.pods import DISRUPTION
from shoal.cluster.errors import ClusterError, NotFoundError
from shoal.cluster.node_status import Nodes, condition
from shoal.cluster.object_store import Change, Put
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import NODES, PODS, Object
from shoal.kubelet.nodes import OURS, Machines, node_of

_LOG: Final = logging.getLogger(__name__)


class Reporter:
    """Speaks for nodes."""

    def __init__(
        self, cluster: Cluster, clock: Callable[[], float], machines: Machines, heartbeat: float
    ) -> None:
        self._cluster: Final = cluster
        self._clock: Final = clock
        self._nodes: Final = Nodes(cluster, clock)
        self._machines: Final = {machine.name: machine for machine in machines}
        self._heartbeat: Final = heartbeat
        self._news: Final = asyncio.Event()
        self._registered: Final[set[str]] = set()
        self.played: Final[set[str]] = set(self._machines)
        """Nodes that are ours: those of this machine, and those that an earlier process made."""

    def hear(self, changes: Sequence[Change[Object]]) -> None:
        """Nodes came or changed; those that we made once are ours."""
        for change in changes:
            if isinstance(change, Put) and OURS in change.item["metadata"].get("annotations", {}):
                self.played.add(change.key[1])

    async def register(self, stopped: Collection[str]) -> None:
        """Make the nodes, or make them ready again; not those that are as if they were lost."""
        for name in self._machines:
            if name not in stopped:
                await self._try(self._register, name)

    def announce(self) -> None:
        """A node is back: say so at once."""
        self._news.set()

    async def run(self, stopped: Collection[str]) -> None:
        """Give signs of life for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat):
                    await self._news.wait()
            self._news.clear()
            for name in self._machines:
                if name not in stopped:
                    await self._try(self._beat, name)

    async def _beat(self, name: str) -> None:
        """Say that a node lives; one that could not be made, or that somebody has deleted, is made."""
        try:
            await self._nodes.contradict(name)
            await self._nodes.renew(name)
        except NotFoundError:
            self._registered.discard(name)
        if name not in self._registered:
            await self._register(name)

    async def _register(self, name: str) -> None:
        await self._nodes.register(node_of(self._machines[name], self._clock()))
        self._registered.add(name)

    async def _try(self, say: Callable[[str], Awaitable[None]], name: str) -> None:
        """What cannot be said now, because the disk is full perhaps, is said with the next sign of life."""
        try:
            await say(name)
        except ClusterError as problem:
            _LOG.warning("node %s: %s", name, problem.message)

    # --- nodes that are no more ---------------------------------------------------------------------------

    async def give_up(self, name: str, pods: Iterable[Object]) -> None:
        """Keep new pods away from a node, and delete those that it has."""
        with contextlib.suppress(NotFoundError):
            await self._cluster.patch(NODES, name, patch={"spec": {"unschedulable": True}})
        for pod in pods:
            await self._give_up(pod)

    async def remove(self, name: str) -> None:
        """A node is no more."""
        self.played.discard(name)
        await self._nodes.remove(name)

    async def _give_up(self, pod: Object) -> None:
        metadata = pod["metadata"]
        with contextlib.suppress(ClusterError):
            await self.blame(pod, f"Node {pod['spec']['nodeName']} is not part of this machine any more.")
            await self._cluster.delete(
                PODS, metadata["name"], metadata["namespace"], Deletion(uid=metadata["uid"])
            )

    async def blame(self, pod: Object, message: str) -> None:
        """Say why a pod is ended, so that nobody takes it for a failure."""
        metadata = pod["metadata"]
        why = condition(
            DISRUPTION, holds=True, since=self._clock(), reason="TerminationByKubelet", message=message
        )
        others = [one for one in pod.get("status", {}).get("conditions", ()) if one["type"] != DISRUPTION]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [*others, why]}}
        await self._cluster.patch_status(PODS, metadata["name"], metadata["namespace"], patch=patch)
