"""Followups: evictions that were recorded, but not carried out because the scheduler was stopped in between.

They are found from changed pods, so that an idle cluster costs nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from shoal.cache.changes import Key
from shoal.cache.world import World
from shoal.kinds.pods import EvictionRecord, PodRecord, is_owned_by
from shoal.scheduler.decisions import Decision, Evict


class Followups:
    """Finds evictions to continue. A pod that is to be deleted is checked until it has been."""

    def __init__(self, world: World, is_busy: Callable[[str], bool]) -> None:
        """`is_busy` returns whether writes of a workload are in progress; it then gets no evictions."""
        self._world, self._is_busy = world, is_busy
        self._open: set[Key] = set()

    def take(self, changes: Mapping[str, set[Key]]) -> list[Decision]:
        """The decisions that changed pods require, one per workload."""
        self._open |= changes["Pod"]
        due: dict[str, Decision] = {}
        for one in self._continued_evictions():
            due[one.workload] = _merged(due.get(one.workload), one)
        return list(due.values())

    def _continued_evictions(self) -> Iterator[Decision]:
        for key in sorted(self._open):
            pod = self._world.pods.get(key)
            if pod is None or pod.eviction is None:
                self._open.discard(key)
                continue
            workload = self._workload_key(pod)
            if self._is_busy(workload):
                continue
            evictions = tuple(self._evictions(pod, pod.eviction, workload))
            if evictions:
                yield Decision(workload=workload, pool="", evictions=evictions)
            else:
                self._open.discard(key)

    def _evictions(self, pod: PodRecord, record: EvictionRecord, workload: str) -> Iterator[Evict]:
        """The eviction of a pod, and those of the rest of its workload if all of it must go.

        A record names no other workload than the pod's own: annotations can be written by users. A pod that
        has ended keeps its record: later pods of its workload are not meant by it.
        """
        pods = (pod, *self._remaining(workload)) if record.whole == workload else (pod,)
        return (Evict(one.key, one.uid, record) for one in pods if not one.finished)

    def _remaining(self, workload: str) -> Iterator[PodRecord]:
        """The pods of a workload that have nodes and are not terminating."""
        for one in self._world.pods.values():
            if one.node and not one.leaving and self._workload_key(one) == workload:
                yield one

    def _workload_key(self, pod: PodRecord) -> str:
        """The key of a pod's workload."""
        if pod.owner and self._owned_by_job(pod, pod.owner.kind, pod.owner.name):
            return f"{pod.owner.kind}/{pod.namespace}/{pod.owner.name}"
        if pod.pod_class.gang:
            return f"Gang/{pod.namespace}/{pod.pod_class.gang}"
        return f"Pod/{pod.namespace}/{pod.name}"

    def _owned_by_job(self, pod: PodRecord, kind: str, name: str) -> bool:
        """Whether a pod is controlled by a job that is planned as a workload."""
        job: Any = self._world.jobs.get(kind, {}).get((pod.namespace, name))
        return job is not None and is_owned_by(pod, kind, job.metadata)


def _merged(one: Decision | None, other: Decision) -> Decision:
    """Two decisions about the same workload as one."""
    if one is None:
        return other
    evictions = {eviction.uid: eviction for eviction in (*one.evictions, *other.evictions)}
    return replace(one, evictions=tuple(evictions.values()))
