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
            if pod and pod.eviction:
                yield from self._continue_eviction(pod, pod.eviction, self._workload_key(pod))
            else:
                self._open.discard(key)

    def _continue_eviction(self, pod: PodRecord, record: EvictionRecord, workload: str) -> Iterator[Decision]:
        """The deletion of a pod, and the evictions of the rest of its workload if all of it must go.

        A record names no other workload than the pod's own: annotations can be written by users.
        """
        if self._is_busy(workload):
            return
        along = [
            one
            for one in self._world.pods.values()
            if record.whole == workload
            and not one.leaving
            and one.node
            and self._workload_key(one) == workload
        ]
        evictions = tuple(Evict(one.key, one.uid, record) for one in (pod, *along) if not one.finished)
        yield Decision(workload=workload, pool="", evictions=evictions)

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
