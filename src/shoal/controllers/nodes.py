"""The controller of lost nodes: nodes that are gone or send no heartbeat, and their pods.

A node has two heartbeats: that of its Ready condition and the renewal of its Lease. When there was none for
`nodeLostSeconds`, the node is lost: its conditions become Unknown, taints keep new pods away, and its pods
are force-deleted, without waiting for a node that does not answer, so that their controllers can recreate
them elsewhere. A node that has been gone for as long is lost too.

Kubernetes has its own controller of nodes. There a node is lost when Kubernetes has set its Ready condition
to Unknown and it has stayed so for `nodeLostSeconds`. Conditions and taints are left to Kubernetes, and only
pods with our finalizer are force-deleted: Kubernetes leaves them terminating, and their names in use, until
the node comes back.

This is the one exception to "a task never runs twice at once": a partitioned node may still run pods that
were deleted. When it comes back it reports itself ready and finds that these pods are gone: it has to stop
their containers, and the pods do not come back. Until then it cannot be told from a dead node.

The time without a heartbeat is measured by this process, by a monotonic clock, from one observed heartbeat to
the next: nodes are not lost because clocks differ or jump, and after a restart each node has the full time to
send a heartbeat. A process that observes no heartbeats may itself be cut off: each write about a lost node is
made only if the node's Lease (on Kubernetes the node, whose heartbeats need not be watched there) still has
the version that was observed last. A node that never sent a heartbeat is ignored.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from shoal.api.conditions import with_condition
from shoal.api.core import NodeCondition
from shoal.api.disruption import DISRUPTION
from shoal.api.managed import Lease, ManagedNode, ManagedPod, NodeTaint, PodCondition
from shoal.api.names import TRACKING_FINALIZER
from shoal.cluster.events import ObjectEvent
from shoal.cluster.node_status import NODE_LEASE_NAMESPACE
from shoal.cluster.object_store import Key
from shoal.cluster.resources import LEASES, NODES, PODS
from shoal.cluster.times import to_datetime
from shoal.controllers.changes import (
    NO_CHANGES,
    Changes,
    Delete,
    Patch,
    PatchStatus,
    delete_object,
    patch_object,
    patch_status_of,
    reference_to,
)
from shoal.controllers.resources import LEASE, NODE, POD
from shoal.controllers.runtime import Controller, Watch
from shoal.controllers.stores import Stores

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_EFFECTS: Final[tuple[Literal["NoSchedule", "NoExecute"], ...]] = ("NoSchedule", "NoExecute")
_REPORTED_BY_NODE: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that only the node itself can know."""
_LOST_MESSAGE: Final = "The node has sent no heartbeat for too long."
_GONE: Final = datetime.min.replace(tzinfo=UTC)
"""Stands for the last heartbeat of a node that is gone: its silence begins when this is observed."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node, its pods, and its heartbeat; times in seconds."""

    node: ManagedNode | None
    """None if the node is gone."""
    pods: tuple[ManagedPod, ...] = ()
    lease: Lease | None = None
    silent_for: float | None
    """Time since the last heartbeat was observed; None if the node is not silent, or never sent one."""
    lost_after: float
    """After which time without a heartbeat the node is lost."""


def reconcile(view: NodeView, now: float) -> Changes:
    """Handle a lost or recovered node: one step at a time, so that a node that comes back is noticed."""
    if view.silent_for is None:
        return NO_CHANGES
    if view.silent_for < view.lost_after:
        recovery = NO_CHANGES if view.node is None else _recover(view.node)
        return replace(recovery, requeue_at=now + view.lost_after - view.silent_for)
    precondition = patch_object(LEASES, view.lease.metadata, {}) if view.lease else None
    return _if_still_lost(precondition, _handle_lost(view, to_datetime(now)))


def reconcile_in_kubernetes(view: NodeView, now: float) -> Changes:
    """Delete the pods of a lost node; the node itself is left to Kubernetes."""
    if view.silent_for is None:
        return NO_CHANGES
    if view.silent_for < view.lost_after:
        return Changes(requeue_at=now + view.lost_after - view.silent_for)
    precondition = patch_object(NODES, view.node.metadata, {}) if view.node else None
    return _if_still_lost(precondition, _delete_pods(view.pods, to_datetime(now)))


def _handle_lost(view: NodeView, now: datetime) -> Changes:
    node = view.node
    if node is None:
        return _delete_pods(view.pods, now)
    regarding = reference_to(NODES, node.metadata)
    if any(_is_reported(one) for one in node.status.conditions):
        event = ObjectEvent(regarding=regarding, reason="NodeLost", message=_LOST_MESSAGE, type="Warning")
        return Changes(regarding=regarding, stages=((_mark_unknown(node, now),),), events=(event,))
    present = {taint.effect for taint in node.spec.taints if taint.key == UNREACHABLE}
    missing = [effect for effect in _EFFECTS if effect not in present]
    if missing:
        added = [NodeTaint(key=UNREACHABLE, effect=effect, time_added=now) for effect in missing]
        return Changes(regarding=regarding, stages=((_set_taints(node, [*node.spec.taints, *added]),),))
    return replace(_delete_pods(view.pods, now), regarding=regarding)


# --- nodes -------------------------------------------------------------------------------------------------


def _if_still_lost(precondition: Patch | None, changes: Changes) -> Changes:
    """Precede writes by an empty patch, refused if the object has changed and this was not observed here."""
    if precondition is None or not any(changes.stages):
        return changes
    return replace(changes, stages=((precondition,), *changes.stages))


def _recover(node: ManagedNode) -> Changes:
    """Remove the taints of a node that reports its Ready condition again."""
    reported = any(one.type == "Ready" and one.status != "Unknown" for one in node.status.conditions)
    kept = [taint for taint in node.spec.taints if taint.key != UNREACHABLE]
    if not reported or len(kept) == len(node.spec.taints):
        return NO_CHANGES
    return Changes(regarding=reference_to(NODES, node.metadata), stages=((_set_taints(node, kept),),))


def _set_taints(node: ManagedNode, taints: list[NodeTaint]) -> Patch:
    return patch_object(NODES, node.metadata, {"spec": {"taints": msgspec.to_builtins(taints) or None}})


def _is_reported(one: NodeCondition) -> bool:
    return one.type in _REPORTED_BY_NODE and one.status != "Unknown"


def _mark_unknown(node: ManagedNode, now: datetime) -> PatchStatus:
    """Set the conditions that the node reports to Unknown; their heartbeat times are kept."""
    conditions = node.status.conditions
    for one in filter(_is_reported, node.status.conditions):
        unknown = replace(one, status="Unknown", reason="NodeStatusUnknown", message=_LOST_MESSAGE)
        conditions = with_condition(conditions, unknown, now)
    return patch_status_of(NODES, node.metadata, {"conditions": msgspec.to_builtins(conditions)})


# --- pods --------------------------------------------------------------------------------------------------


def _delete_pods(pods: tuple[ManagedPod, ...], now: datetime) -> Changes:
    """First write to each pod why it is deleted, then delete it; finished pods are left alone."""
    lost = [pod for pod in pods if not pod.finished]
    return Changes(
        stages=(
            tuple(_mark_disrupted(pod, now) for pod in lost if not pod.has_condition(DISRUPTION)),
            tuple(_force_delete(pod) for pod in lost if pod.metadata.deletion_grace_period_seconds != 0),
        )
    )


def _mark_disrupted(pod: ManagedPod, now: datetime) -> PatchStatus:
    """Write the DisruptionTarget condition, so that the deletion is not counted as a failure."""
    condition = PodCondition(
        type=DISRUPTION,
        status="True",
        reason="DeletionByTaintManager",
        message=f"Node {pod.spec.node_name} is lost: the pod is deleted, to be recreated on another node.",
    )
    conditions = with_condition(pod.status.conditions, condition, now)
    return patch_status_of(PODS, pod.metadata, {"conditions": msgspec.to_builtins(conditions)})


def _force_delete(pod: ManagedPod) -> Delete:
    """Delete a pod without waiting for its node."""
    return delete_object(PODS, pod.metadata, grace=0)


# --- the controller ----------------------------------------------------------------------------------------


class HeartbeatTracker:
    """Remembers when the last heartbeat of each node was observed, by a monotonic clock."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """Use the event loop's clock, unless another one is given."""
        self._clock: Final = clock or (lambda: asyncio.get_running_loop().time())
        self._observed: Final[dict[str, tuple[datetime, float]]] = {}

    def silent_for(self, name: str, heartbeat: datetime | None) -> float | None:
        """Return the seconds since the last heartbeat was first observed; None if there is none."""
        if heartbeat is None:
            self._observed.pop(name, None)
            return None
        now = self._clock()
        known = self._observed.get(name)
        if known is None or known[0] != heartbeat:
            known = self._observed[name] = heartbeat, now
        return now - known[1]


def last_heartbeat(node: ManagedNode, lease: Lease | None) -> datetime | None:
    """Return the time of the last heartbeat, by the node's own clock."""
    times = [one.last_heartbeat_time for one in node.status.conditions if one.type == "Ready"]
    times.append(lease.spec.renew_time if lease else None)
    return max((time for time in times if time is not None), default=None)


def unknown_since(node: ManagedNode) -> datetime | None:
    """Return since when the Ready condition of a node has been Unknown; None if it is not."""
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    return ready.last_transition_time if ready and ready.status == "Unknown" else None


def node_controller(
    stores: Stores, lost_after: float, heartbeats: HeartbeatTracker | None = None, *, native: bool = True
) -> Controller[NodeView]:
    """Return the controller of lost nodes; `lost_after` is `nodeLostSeconds`.

    Without `native`, where Kubernetes' own controllers run, it only deletes the pods that we track.
    """
    nodes, pods = stores.of(NODE), stores.of(POD)
    leases = stores.of(LEASE).items if native else {}
    pods_on = pods.index(lambda pod: _node_names(pod) if native or _is_tracked(pod) else ())
    heartbeats = heartbeats or HeartbeatTracker()

    def last_sign(node: ManagedNode | None, lease: Lease | None) -> datetime | None:
        if node is None:
            return _GONE
        return last_heartbeat(node, lease) if native else unknown_since(node)

    def get_view(key: Key) -> NodeView | None:
        node, found = nodes.items.get(key), tuple(pods_on[key[1]])
        if node is None and not found:
            heartbeats.silent_for(key[1], None)
            return None
        lease = leases.get((NODE_LEASE_NAMESPACE, key[1])) if node else None
        silent_for = heartbeats.silent_for(key[1], last_sign(node, lease))
        return NodeView(node=node, pods=found, lease=lease, silent_for=silent_for, lost_after=lost_after)

    of_pods, of_leases = Watch(resource=POD, keys=_node_of_pod), Watch(resource=LEASE, keys=_node_of_lease)
    return Controller(
        name="node-controller",
        resource=NODE,
        get_view=get_view,
        reconcile=reconcile if native else reconcile_in_kubernetes,
        watches=(of_pods, of_leases) if native else (of_pods,),
    )


def _is_tracked(pod: ManagedPod) -> bool:
    return TRACKING_FINALIZER in pod.metadata.finalizers


def _node_of_lease(lease: Lease) -> Iterator[Key]:
    if lease.metadata.namespace == NODE_LEASE_NAMESPACE:
        yield "", lease.metadata.name


def _node_of_pod(pod: ManagedPod) -> Iterator[Key]:
    if pod.spec.node_name:
        yield "", pod.spec.node_name


def _node_names(pod: ManagedPod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
