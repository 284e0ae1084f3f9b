"""Node objects, node status and leases, as kubelets write them."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from shoal.cluster.errors import AlreadyExistsError, NotFoundError
from shoal.cluster.port import Cluster
from shoal.cluster.resources import LEASES, NODES, Object
from shoal.cluster.times import format_time

HEARTBEAT_SECONDS: Final = 10.0
"""Seconds between two renewals of a node's lease, as in kubelets."""
HOST_IP: Final = "127.0.0.1"
NODE_LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_DURATION_SECONDS: Final = 40


def make_condition(
    kind: str, *, holds: bool, since: float | None = None, reason: str = "", message: str = ""
) -> Object:
    """Return a condition of a pod or a node; without `since` for `set_condition`, which adds the time."""
    time = {} if since is None else {"lastTransitionTime": format_time(since)}
    optional = {name: text for name, text in (("reason", reason), ("message", message)) if text}
    return {"type": kind, "status": str(holds), **time, **optional}


def ready_node(name: str, capacity: Mapping[str, str], labels: Mapping[str, str], now: float) -> Object:
    """Return a node that is ready, and whose whole capacity is allocatable."""
    amounts = dict(capacity)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": HOST_IP}, {"type": "Hostname", "address": name}],
            "conditions": [make_condition("Ready", holds=True, since=now, reason="KubeletReady")],
        },
    }


class NodeStatusWriter:
    """Writes nodes, their status and their leases, as a kubelet does."""

    def __init__(self, cluster: Cluster, now: Callable[[], float]) -> None:
        self._cluster: Final = cluster
        self._now: Final = now

    async def register(self, body: Object) -> None:
        """Create a node, or update an existing one and make it ready again."""
        name = body["metadata"]["name"]
        try:
            await self._cluster.create(NODES, body)
        except AlreadyExistsError:
            await self._update(name, body)
        await self._remove_not_ready_taint(name)
        await self.renew_lease(name)

    async def _update(self, name: str, body: Object) -> None:
        """Update labels, annotations and status of a node; resources that it no longer has are removed."""
        before = (await self._cluster.get(NODES, name)).get("status", {})
        amounts = ("capacity", "allocatable")
        status = body["status"] | {
            kind: dict.fromkeys(before.get(kind, ())) | body["status"][kind] for kind in amounts
        }
        metadata = {part: body["metadata"].get(part, {}) for part in ("labels", "annotations")}
        await self._cluster.patch(NODES, name, patch={"metadata": metadata})
        await self._cluster.patch_status(NODES, name, patch={"status": status})

    async def _remove_not_ready_taint(self, name: str) -> None:
        """Remove the taint that Kubernetes puts on a new node."""
        taints = (await self._cluster.get(NODES, name)).get("spec", {}).get("taints", [])
        others = [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]
        if others != taints:
            await self._cluster.patch(NODES, name, patch={"spec": {"taints": others}})

    async def renew_lease(self, name: str) -> None:
        """Renew the lease of a node, or create it."""
        renewed = f"{format_time(self._now())[:-1]}.000000Z"
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": renewed}
        try:
            await self._cluster.patch(LEASES, name, NODE_LEASE_NAMESPACE, patch={"spec": spec})
        except NotFoundError:
            metadata = {"name": name, "namespace": NODE_LEASE_NAMESPACE}
            await self._cluster.create(LEASES, {"metadata": metadata, "spec": spec})

    async def set_ready(self, name: str, *, ready: bool) -> None:
        """Set the Ready condition of a node."""
        reason = "KubeletReady" if ready else "KubeletNotReady"
        condition = make_condition("Ready", holds=ready, since=self._now(), reason=reason)
        await self._cluster.patch_status(NODES, name, patch={"status": {"conditions": [condition]}})

    async def restore_ready(self, name: str) -> None:
        """Make a node ready again if the node controller has set its Ready condition to Unknown."""
        conditions = (await self._cluster.get(NODES, name))["status"].get("conditions", [])
        if any(one["type"] == "Ready" and one["status"] == "Unknown" for one in conditions):
            await self.set_ready(name, ready=True)

    async def remove(self, name: str) -> None:
        """Delete a node and its lease."""
        with contextlib.suppress(NotFoundError):
            await self._cluster.delete(NODES, name)
        with contextlib.suppress(NotFoundError):
            await self._cluster.delete(LEASES, name, NODE_LEASE_NAMESPACE)
