"""The slots of a job: the pods that it may have, and which of its pods is in which slot.

A slot is a rank of a DIJob, the leader or a worker of a TYJob, an instance of a role of a TrainingJob. It has
one pod at a time: the successor of a pod is created when nothing of the pod runs any more.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from functools import cached_property
from typing import Generic, TypeVar

import msgspec

from shoal.api.managed import ManagedPod
from shoal.controllers.jobs.ends import has_stopped, pod_end
from shoal.controllers.jobs.tracking import is_tracked

K = TypeVar("K", bound=Hashable)


class JobSlots(msgspec.Struct, Generic[K], frozen=True, eq=False, kw_only=True, dict=True):
    """The slots of a job at one time.

    `wanted` are the slots that the job is to have now, in the order of creation; completed ones stay wanted.
    `pods` has the pod of each slot: one that has not stopped, else the last that has.
    `others` are further pods: older ones of a slot, and pods that are in no slot.
    `abandoned` slots get no pod again and are not wanted; the pod that ended in such a slot stays.
    """

    wanted: tuple[K, ...]
    completed: frozenset[K]
    pods: dict[K, ManagedPod]
    others: tuple[ManagedPod, ...] = ()
    abandoned: frozenset[K] = frozenset()

    def is_live(self, slot: K) -> bool:
        """Return whether a slot has a pod that is neither finished nor terminating."""
        pod = self.pods.get(slot)
        return pod is not None and pod.active

    def is_ready(self, slot: K) -> bool:
        """Return whether a slot is completed, or its live pod is Ready."""
        pod = self.pods.get(slot)
        return slot in self.completed or (pod is not None and pod.active and pod.ready)

    def has_address(self, slot: K) -> bool:
        """Return whether a slot has a live pod with an address."""
        pod = self.pods.get(slot)
        return pod is not None and bool(pod.status.pod_ip) and pod.active

    @cached_property
    def missing(self) -> list[K]:
        """The wanted slots that have no live pod and are not completed."""
        return [slot for slot in self.wanted if slot not in self.completed and not self.is_live(slot)]

    @cached_property
    def surplus(self) -> list[K]:
        """The slots that have a pod and are neither wanted nor abandoned, the highest first."""
        return sorted(self.pods.keys() - {*self.wanted, *self.abandoned}, reverse=True)  # type: ignore[type-var]  # ordered


def pods_by_slot(
    pods: Iterable[ManagedPod], slot_of: Callable[[ManagedPod], K | None]
) -> tuple[dict[K, ManagedPod], tuple[ManagedPod, ...]]:
    """Return the pod of each slot, and the other pods."""
    current: dict[K, ManagedPod] = {}
    others: list[ManagedPod] = []
    for pod in pods:
        slot = slot_of(pod)
        if slot is None:
            others.append(pod)
            continue
        rival = current.setdefault(slot, pod)
        if rival is not pod:
            older, newer = sorted((rival, pod), key=_recency)
            others.append(older)
            current[slot] = newer
    return current, tuple(others)


def completed_slots(recorded: Collection[K], pods: dict[K, ManagedPod]) -> frozenset[K]:
    """Return the completed slots: those on record, and those whose pod succeeded and is not counted yet."""
    return frozenset(
        (*recorded, *(slot for slot, pod in pods.items() if pod.finished and _has_succeeded(pod)))
    )


def _has_succeeded(pod: ManagedPod) -> bool:
    return is_tracked(pod) and pod_end(pod) == "succeeded"


def _recency(pod: ManagedPod) -> tuple[bool, float]:
    created = pod.metadata.creation_timestamp
    return not has_stopped(pod), created.timestamp() if created else 0.0
