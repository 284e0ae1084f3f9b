"""Follow-ups: what is due because objects have changed, whatever the engine thinks of them.

A pod whose job has allocated it a node is bound there as soon as somebody has made it: the room is taken
already, and no plan need decide on it again. A job's nomination for a pod that has its node by now is
dropped. And a pod that was told to leave, and not deleted, is deleted: whoever told it was stopped in
between. All are found from what has changed, so that a quiet cluster costs nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from shoal.cache.changes import Key
from shoal.cache.world import World
from shoal.kinds.base import job_kinds
from shoal.kinds.pods import EvictionRecord, PodRecord, owned_by
from shoal.scheduler.decisions import Bind, Decision, Evict, restate

JobKey = tuple[str, Key]


class Followups:
    """Finds what is due. A pod that is to be bound, or deleted, is looked at until it has been."""

    def __init__(self, world: World, is_busy: Callable[[str], bool]) -> None:
        """Of a workload that is busy, being written already, nothing more is found."""
        self._world, self._is_busy = world, is_busy
        self._open: set[Key] = set()

    def take(self, changes: Mapping[str, set[Key]]) -> list[Decision]:
        """What is due now that these objects have changed, workload by workload."""
        self._open |= changes["Pod"]
        found = [*self._of_pods(), *self._tidied(changes)]
        due: dict[str, Decision] = {}
        for one in found:
            due[one.workload] = _both(due.get(one.workload), one)
        return list(due.values())

    def _of_pods(self) -> Iterator[Decision]:
        """What is to be done about pods."""
        for key in sorted(self._open):
            pod = self._world.pods.get(key)
            job = self._job(pod) if pod else None
            if pod and pod.doomed:
                yield from self._exodus(pod, pod.doomed, _party(pod, job))
            elif pod and job and (bind := self._bind(pod, job[0][0], job[1])):
                yield Decision(workload=_title(job[0]), pool="", binds=(bind,))
            else:
                self._open.discard(key)

    def _bind(self, pod: PodRecord, kind: str, job: Any) -> Bind | None:
        """The node that a pod was allocated and does not have yet."""
        if pod.node or pod.leaving or pod.finished:
            return None
        node = job_kinds()[kind].allocated_node(job, pod)
        return Bind(pod.key, pod.uid, node) if node in self._world.nodes else None

    def _exodus(self, pod: PodRecord, doom: EvictionRecord, party: str) -> Iterator[Decision]:
        """A pod that was told to leave, and all who must leave with it."""
        if self._is_busy(party):
            return
        along = [
            one
            for one in self._world.pods.values()
            if doom.whole and not one.leaving and one.node and _party(one, self._job(one)) == doom.whole
        ]
        evictions = tuple(Evict(one.key, one.uid, doom) for one in (pod, *along) if not one.finished)
        yield Decision(workload=party, pool="", evictions=evictions)

    def _job(self, pod: PodRecord) -> tuple[JobKey, Any] | None:
        """The job that made a pod."""
        if pod.owner is None or pod.owner.kind not in self._world.jobs:
            return None
        kind, key = pod.owner.kind, (pod.namespace, pod.owner.name)
        job = self._world.jobs[kind].get(key)
        return ((kind, key), job) if job and owned_by(pod, kind, job.metadata) else None

    def _tidied(self, changes: Mapping[str, set[Key]]) -> Iterator[Decision]:
        """Jobs that room was kept for, without those of their nominations that have come true."""
        for kind, key in sorted(self._touched(changes)):
            job = self._world.jobs[kind].get(key)
            if job is None or not job.status.nominations:
                continue
            stale = set(self._seated(job))
            left = {pod: node for pod, node in job.status.nominations.items() if pod not in stale}
            write = restate(kind, job, replace(job.status, nominations=left))
            if write:
                yield Decision(workload=_title((kind, key)), pool="", restate=write)

    def _touched(self, changes: Mapping[str, set[Key]]) -> set[JobKey]:
        """Jobs that have changed, and those of pods that have."""
        pods = (self._world.pods.get(key) for key in changes["Pod"])
        owners = {found[0] for pod in pods if pod and (found := self._job(pod))}
        return owners | {(kind, key) for kind in self._world.jobs for key in changes[kind]}

    def _seated(self, job: Any) -> Iterable[str]:
        """Pods that are nominated, and have a node."""
        namespace = job.metadata.namespace
        for name in job.status.nominations:
            pod = self._world.pods.get((namespace, name))
            if pod and pod.node and not pod.leaving:
                yield name


def _party(pod: PodRecord, job: tuple[JobKey, Any] | None) -> str:
    """What the workload of a pod is called."""
    if job:
        return _title(job[0])
    if pod.pod_class.gang:
        return f"Gang/{pod.namespace}/{pod.pod_class.gang}"
    return f"Pod/{pod.namespace}/{pod.name}"


def _title(job: JobKey) -> str:
    kind, (namespace, name) = job
    return f"{kind}/{namespace}/{name}"


def _both(one: Decision | None, other: Decision) -> Decision:
    """Two decisions about the same workload."""
    if one is None:
        return other
    evictions = {eviction.uid: eviction for eviction in (*one.evictions, *other.evictions)}
    return replace(
        one,
        restate=one.restate or other.restate,
        binds=one.binds + other.binds,
        evictions=tuple(evictions.values()),
    )
