"""Follow-ups: writes that changed objects require, independent of the plan.

A pod with an allocated node is bound there as soon as it is created: the room is reserved already, and no
plan needs to decide again. A nomination whose pod is bound is dropped. A pod whose eviction was recorded, but
which was not deleted because the scheduler was stopped in between, is deleted. All of this is found from
changes, so that an idle cluster costs nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from shoal.cache.changes import Key
from shoal.cache.world import World
from shoal.kinds.base import job_kinds
from shoal.kinds.pods import EvictionRecord, PodRecord, is_owned_by
from shoal.scheduler.decisions import Bind, Decision, Evict, status_change

JobKey = tuple[str, Key]


class Followups:
    """Finds follow-ups. A pod that is to be bound or deleted is checked until it has been."""

    def __init__(self, world: World, is_busy: Callable[[str], bool]) -> None:
        """`is_busy` returns whether writes of a workload are in progress; it then gets no evictions."""
        self._world, self._is_busy = world, is_busy
        self._open: set[Key] = set()

    def take(self, changes: Mapping[str, set[Key]]) -> list[Decision]:
        """The decisions that changed objects require, one per workload."""
        self._open |= changes["Pod"]
        found = [*self._of_pods(), *self._fulfilled_nominations(changes)]
        due: dict[str, Decision] = {}
        for one in found:
            due[one.workload] = _merged(due.get(one.workload), one)
        return list(due.values())

    def _of_pods(self) -> Iterator[Decision]:
        """Decisions about pods."""
        for key in sorted(self._open):
            pod = self._world.pods.get(key)
            job = self._job(pod) if pod else None
            if pod and pod.eviction:
                yield from self._continue_eviction(pod, pod.eviction, _workload_key(pod, job))
            elif pod and job and (bind := self._bind(pod, job[0][0], job[1])):
                yield Decision(workload=_key_of(job[0]), pool="", binds=(bind,))
            else:
                self._open.discard(key)

    def _bind(self, pod: PodRecord, kind: str, job: Any) -> Bind | None:  # noqa: ANN401 - a job of any kind
        """The binding of a pod to its allocated node, if it is not bound yet."""
        if pod.node or pod.leaving or pod.finished:
            return None
        node = job_kinds()[kind].allocated_node(job, pod)
        return Bind(pod.key, pod.uid, node) if node in self._world.nodes else None

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
            and _workload_key(one, self._job(one)) == workload
        ]
        evictions = tuple(Evict(one.key, one.uid, record) for one in (pod, *along) if not one.finished)
        yield Decision(workload=workload, pool="", evictions=evictions)

    def _job(self, pod: PodRecord) -> tuple[JobKey, Any] | None:
        """The job that controls a pod, if it is planned as a workload."""
        if pod.owner is None or pod.owner.kind not in self._world.jobs:
            return None
        kind, key = pod.owner.kind, (pod.namespace, pod.owner.name)
        job = self._world.jobs[kind].get(key)
        return ((kind, key), job) if job and is_owned_by(pod, kind, job.metadata) else None

    def _fulfilled_nominations(self, changes: Mapping[str, set[Key]]) -> Iterator[Decision]:
        """Drop nominations of jobs whose pods are bound."""
        for kind, key in sorted(self._touched(changes)):
            job = self._world.jobs[kind].get(key)
            if job is None or not job.status.nominations:
                continue
            stale = set(self._bound_nominees(job))
            left = {pod: node for pod, node in job.status.nominations.items() if pod not in stale}
            write = status_change(kind, job, replace(job.status, nominations=left))
            if write:
                yield Decision(workload=_key_of((kind, key)), pool="", job_status=write)

    def _touched(self, changes: Mapping[str, set[Key]]) -> set[JobKey]:
        """Changed jobs, and jobs of changed pods."""
        pods = (self._world.pods.get(key) for key in changes["Pod"])
        owners = {found[0] for pod in pods if pod and (found := self._job(pod))}
        return owners | {(kind, key) for kind in self._world.jobs for key in changes[kind]}

    def _bound_nominees(self, job: Any) -> Iterable[str]:  # noqa: ANN401 - a job of any kind
        """Names of nominated pods that are bound."""
        namespace = job.metadata.namespace
        for name in job.status.nominations:
            pod = self._world.pods.get((namespace, name))
            if pod and pod.node and not pod.leaving:
                yield name


def _workload_key(pod: PodRecord, job: tuple[JobKey, Any] | None) -> str:
    """The key of a pod's workload."""
    if job:
        return _key_of(job[0])
    if pod.pod_class.gang:
        return f"Gang/{pod.namespace}/{pod.pod_class.gang}"
    return f"Pod/{pod.namespace}/{pod.name}"


def _key_of(job: JobKey) -> str:
    kind, (namespace, name) = job
    return f"{kind}/{namespace}/{name}"


def _merged(one: Decision | None, other: Decision) -> Decision:
    """Two decisions about the same workload as one."""
    if one is None:
        return other
    evictions = {eviction.uid: eviction for eviction in (*one.evictions, *other.evictions)}
    return replace(
        one,
        job_status=one.job_status or other.job_status,
        binds=one.binds + other.binds,
        evictions=tuple(evictions.values()),
    )
