"""Nodes that fall silent, and what becomes of their pods.

A node gives signs of life: the heartbeat of its Ready condition, the renewal of its Lease. When none has
come for `nodeLostSeconds`, the node is lost: its conditions become Unknown, taints keep new pods away, and
its pods are given up. They are deleted at once, without waiting for a node that does not answer, so that
whoever made them can make them again elsewhere.

This is the one exception to "a task never runs twice at once": a node that is cut off may still run what was
given up. When it comes back it says itself that it is ready, and finds that these pods are gone: it has to
end them, and nobody makes them come back. Until then nothing tells a silent node from a dead one.

Silence is measured by whoever listens, from one sign of life to the next: clocks that differ or jump lose no
node, and after a restart every node has its time to be heard. Who hears nothing may be deaf: whatever is done
about a silent node is done only if its Lease is still the one that was heard of last. A node that never gave
a sign of life is nobody's to judge, and is left alone.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from shoal.cluster.events import Note
from shoal.cluster.object_store import Key
from shoal.cluster.port import Deletion
from shoal.cluster.resources import LEASES, NODES, PODS
from shoal.cluster.times import moment
from shoal.controllers.changes import NOTHING, Changes, Delete, Patch, PatchStatus
from shoal.controllers.runtime import Controller, Wake
from shoal.controllers.stores import Stores
from shoal.controllers.views import (
    DISRUPTION,
    LEASE,
    NODE,
    POD,
    Lease,
    Node,
    NodeCondition,
    NodeTaint,
    Pod,
    PodCondition,
    reference,
)

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_EFFECTS: Final = ("NoSchedule", "NoExecute")
_LEASES: Final = "kube-node-lease"
_JUDGED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that only the node itself can know."""
_SILENCE: Final = "Nothing has been heard of the node for too long."


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A node, the pods that it has, and for how many seconds it has been silent and may be."""

    node: Node
    pods: tuple[Pod, ...] = ()
    lease: Lease | None = None
    silent: float | None
    """None if it never gave a sign of life."""
    patience: float


def reconcile(view: View, now: float) -> Changes:
    """What is to be done about a node: one thing at a time, so that a node that comes back is seen."""
    if view.silent is None:
        return NOTHING
    if view.silent < view.patience:
        return replace(_found(view.node), again=now + view.patience - view.silent)
    lost = _about_lost(view, now)
    return replace(lost, stages=(_unless_it_lives(view.lease), *lost.stages)) if any(lost.stages) else lost


def _about_lost(view: View, now: float) -> Changes:
    node, about = view.node, reference(NODES, view.node.metadata)
    if any(_is_trusted(one) for one in node.status.conditions):
        note = Note(about=about, reason="NodeLost", message=_SILENCE, type="Warning")
        return Changes(about=about, stages=((_doubt(node, now),),), notes=(note,))
    missing = [effect for effect in _EFFECTS if effect not in _effects(node)]
    if missing:
        added = [NodeTaint(key=UNREACHABLE, effect=effect, time_added=moment(now)) for effect in missing]
        return Changes(about=about, stages=((_taint(node, [*node.spec.taints, *added]),),))
    return replace(_give_up(view.pods, now), about=about)


# --- nodes -------------------------------------------------------------------------------------------------


def _unless_it_lives(lease: Lease | None) -> tuple[Patch, ...]:
    """Changes nothing, and is refused if the node has given a sign of life that was not heard here."""
    if lease is None:
        return ()
    meta = lease.metadata
    return (
        Patch(
            resource=LEASES, name=meta.name, namespace=meta.namespace, patch={}, version=meta.resource_version
        ),
    )


def _found(node: Node) -> Changes:
    """A node that says itself how it is, is not kept away from any more."""
    heard = any(one.type == "Ready" and one.status != "Unknown" for one in node.status.conditions)
    kept = [taint for taint in node.spec.taints if taint.key != UNREACHABLE]
    if not heard or len(kept) == len(node.spec.taints):
        return NOTHING
    return Changes(about=reference(NODES, node.metadata), stages=((_taint(node, kept),),))


def _effects(node: Node) -> set[str]:
    return {taint.effect for taint in node.spec.taints if taint.key == UNREACHABLE}


def _taint(node: Node, taints: list[NodeTaint]) -> Patch:
    patch = {"spec": {"taints": msgspec.to_builtins(taints) or None}}
    metadata = node.metadata
    return Patch(resource=NODES, name=metadata.name, patch=patch, version=metadata.resource_version)


def _is_trusted(one: NodeCondition) -> bool:
    return one.type in _JUDGED and one.status != "Unknown"


def _doubt(node: Node, now: float) -> PatchStatus:
    """Say that nobody knows how a node is; when it was heard of last stays as it is."""
    doubted = {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": _SILENCE,
        "last_transition_time": moment(now),
    }
    conditions = [replace(one, **doubted) if _is_trusted(one) else one for one in node.status.conditions]
    return PatchStatus(
        resource=NODES,
        name=node.metadata.name,
        patch={"status": {"conditions": msgspec.to_builtins(conditions)}},
        version=node.metadata.resource_version,
    )


# --- pods --------------------------------------------------------------------------------------------------


def _give_up(pods: tuple[Pod, ...], now: float) -> Changes:
    """First say of each pod why it goes, then let it go; those that have ended are nobody's loss."""
    lost = [pod for pod in pods if not pod.finished]
    return Changes(
        stages=(
            tuple(_blame(pod, now) for pod in lost if not pod.has(DISRUPTION)),
            tuple(_let_go(pod) for pod in lost if pod.metadata.deletion_grace_period_seconds != 0),
        )
    )


def _blame(pod: Pod, now: float) -> PatchStatus:
    """Say why a pod goes, so that nobody takes it for a failure."""
    why = PodCondition(
        type=DISRUPTION,
        status="True",
        reason="DeletionByTaintManager",
        message=f"Node {pod.spec.node_name} is lost: the pod is given up, to be made again elsewhere.",
        last_transition_time=moment(now),
    )
    others = [one for one in pod.status.conditions if one.type != DISRUPTION]
    metadata = pod.metadata
    return PatchStatus(
        resource=PODS,
        name=metadata.name,
        namespace=metadata.namespace,
        patch={"status": {"conditions": msgspec.to_builtins([*others, why])}},
        version=metadata.resource_version,
    )


def _let_go(pod: Pod) -> Delete:
    """Delete a pod without waiting for its node."""
    metadata = pod.metadata
    how = Deletion(uid=metadata.uid, grace=0)
    return Delete(resource=PODS, name=metadata.name, namespace=metadata.namespace, how=how)


# --- the controller ----------------------------------------------------------------------------------------


class Ears:
    """Remembers when each node was heard of last, by a clock that never jumps."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """The clock is the event loop's, unless another is named."""
        self._clock: Final = clock or (lambda: asyncio.get_running_loop().time())
        self._heard: Final[dict[str, tuple[datetime, float]]] = {}

    def silence(self, name: str, beat: datetime | None) -> float | None:
        """For how long the last sign of life of a node has been its last; None if there was none ever."""
        if beat is None:
            self._heard.pop(name, None)
            return None
        now = self._clock()
        known = self._heard.get(name)
        if known is None or known[0] != beat:
            known = self._heard[name] = beat, now
        return now - known[1]


def last_beat(node: Node, lease: Lease | None) -> datetime | None:
    """The last sign of life of a node, as it says itself."""
    beats = [one.last_heartbeat_time for one in node.status.conditions if one.type == "Ready"]
    beats.append(lease.spec.renew_time if lease else None)
    return max((beat for beat in beats if beat is not None), default=None)


def node_controller(stores: Stores, patience: float, ears: Ears | None = None) -> Controller[View]:
    """The controller of silent nodes; `patience` is `nodeLostSeconds`."""
    nodes, leases, pods = stores.of(NODE), stores.of(LEASE), stores.of(POD)
    on_node = pods.index(lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])
    ears = ears or Ears()

    def look(key: Key) -> View | None:
        node, name = nodes.items.get(key), key[1]
        if node is None:
            ears.silence(name, None)
            return None
        lease = leases.items.get((_LEASES, name))
        silent = ears.silence(name, last_beat(node, lease))
        return View(node=node, pods=tuple(on_node[name]), lease=lease, silent=silent, patience=patience)

    return Controller(
        name="node-controller",
        resource=NODE,
        look=look,
        reconcile=reconcile,
        wakes=(Wake(resource=LEASE, keys=_of_lease), Wake(resource=POD, keys=_of_pod)),
    )


def _of_lease(lease: Lease) -> Iterator[Key]:
    if lease.metadata.namespace == _LEASES:
        yield "", lease.metadata.name


def _of_pod(pod: Pod) -> Iterator[Key]:
    if pod.spec.node_name:
        yield "", pod.spec.node_name
