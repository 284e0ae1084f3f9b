"""What a kubelet says about its nodes: that they are there, what they have, and that they live."""

import contextlib
from collections.abc import Mapping
from typing import Final

from shoal.cluster.errors import AlreadyExistsError, NotFoundError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import LEASES, NODES
from shoal.cluster.simulated.machines import statuses
from shoal.cluster.simulated.machines.clocks import Clock
from shoal.cluster.times import as_text

LEASES_LIVE_IN: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40


class Nodes:
    """Writes nodes and their leases."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster: Final = cluster
        self._clock: Final = clock

    async def register(self, name: str, capacity: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Make a node, or make it ready again if it is there."""
        body = statuses.node(name, capacity, labels, self._clock.now())
        try:
            await self._cluster.create(NODES, body)
        except AlreadyExistsError:
            await self._cluster.patch(NODES, name, patch={"metadata": {"labels": body["metadata"]["labels"]}})
            await self._cluster.patch_status(NODES, name, patch={"status": body["status"]})
        await self._admit(name)
        await self.renew(name)

    async def _admit(self, name: str) -> None:
        """Take away the taint with which Kubernetes greets a new node."""
        taints = (await self._cluster.get(NODES, name)).get("spec", {}).get("taints", [])
        others = [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]
        if others != taints:
            await self._cluster.patch(NODES, name, patch={"spec": {"taints": others}})

    async def renew(self, name: str) -> None:
        """Say that a node lives: write its Lease, or make it."""
        renewed = f"{as_text(self._clock.now())[:-1]}.000000Z"
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed}
        try:
            await self._cluster.patch(LEASES, name, LEASES_LIVE_IN, patch={"spec": spec})
        except NotFoundError:
            metadata = {"name": name, "namespace": LEASES_LIVE_IN}
            await self._cluster.create(LEASES, {"metadata": metadata, "spec": spec})

    async def set_ready(self, name: str, *, ready: bool) -> None:
        """Say whether a node is ready."""
        reason = "KubeletReady" if ready else "KubeletNotReady"
        condition = statuses.condition("Ready", holds=ready, since=self._clock.now(), reason=reason)
        await self._cluster.patch_status(NODES, name, patch={"status": {"conditions": [condition]}})

    async def contradict(self, name: str) -> None:
        """Say that a node is ready if somebody has said meanwhile that nobody knows."""
        said = (await self._cluster.get(NODES, name))["status"].get("conditions", [])
        if any(one["type"] == "Ready" and one["status"] == "Unknown" for one in said):
            await self.set_ready(name, ready=True)

    async def remove(self, name: str) -> None:
        """Delete a node and its lease."""
        with contextlib.suppress(NotFoundError):
            await self._cluster.delete(NODES, name)
        with contextlib.suppress(NotFoundError):
            await self._cluster.delete(LEASES, name, LEASES_LIVE_IN)
