"""What a kubelet says about its nodes: that they are there, what they have, and that they live."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from shoal.cluster.errors import AlreadyExistsError, NotFoundError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import LEASES, NODES, Object
from shoal.cluster.times import as_text

HEARTBEAT: Final = 10.0
"""Seconds from one sign of life to the next, as kubelets have it."""
HOST_IP: Final = "127.0.0.1"
LEASES_LIVE_IN: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40


def condition(kind: str, *, holds: bool, since: float, reason: str = "", message: str = "") -> Object:
    """A condition of a pod or a node."""
    why = {name: text for name, text in (("reason", reason), ("message", message)) if text}
    return {"type": kind, "status": str(holds), "lastTransitionTime": as_text(since), **why}


def node(name: str, capacity: Mapping[str, str], labels: Mapping[str, str], now: float) -> Object:
    """A node that is ready, with everything it has to give."""
    amounts = dict(capacity)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": HOST_IP}, {"type": "Hostname", "address": name}],
            "conditions": [condition("Ready", holds=True, since=now, reason="KubeletReady")],
        },
    }


class Nodes:
    """Writes nodes and their leases."""

    def __init__(self, cluster: Cluster, now: Callable[[], float]) -> None:
        self._cluster: Final = cluster
        self._now: Final = now

    async def register(self, body: Object) -> None:
        """Make a node, or make it ready again if it is there."""
        name = body["metadata"]["name"]
        try:
            await self._cluster.create(NODES, body)
        except AlreadyExistsError:
            await self._renew(name, body)
        await self._admit(name)
        await self.renew(name)

    async def _renew(self, name: str, body: Object) -> None:
        """Say anew what a node is and has; what it has no longer is taken away."""
        before = (await self._cluster.get(NODES, name)).get("status", {})
        amounts = ("capacity", "allocatable")
        status = body["status"] | {
            kind: dict.fromkeys(before.get(kind, ())) | body["status"][kind] for kind in amounts
        }
        metadata = {part: body["metadata"].get(part, {}) for part in ("labels", "annotations")}
        await self._cluster.patch(NODES, name, patch={"metadata": metadata})
        await self._cluster.patch_status(NODES, name, patch={"status": status})

    async def _admit(self, name: str) -> None:
        """Take away the taint with which Kubernetes greets a new node."""
        taints = (await self._cluster.get(NODES, name)).get("spec", {}).get("taints", [])
        others = [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]
        if others != taints:
            await self._cluster.patch(NODES, name, patch={"spec": {"taints": others}})

    async def renew(self, name: str) -> None:
        """Say that a node lives: write its Lease, or make it."""
        renewed = f"{as_text(self._now())[:-1]}.000000Z"
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed}
        try:
            await self._cluster.patch(LEASES, name, LEASES_LIVE_IN, patch={"spec": spec})
        except NotFoundError:
            metadata = {"name": name, "namespace": LEASES_LIVE_IN}
            await self._cluster.create(LEASES, {"metadata": metadata, "spec": spec})

    async def set_ready(self, name: str, *, ready: bool) -> None:
        """Say whether a node is ready."""
        reason = "KubeletReady" if ready else "KubeletNotReady"
        said = condition("Ready", holds=ready, since=self._now(), reason=reason)
        await self._cluster.patch_status(NODES, name, patch={"status": {"conditions": [said]}})

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
