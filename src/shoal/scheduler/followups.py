"""Follow-ups: what is due because objects have changed, whatever the engine thinks of them.

A pod whose job has allocated it a node is bound there as soon as somebody has made it: the room is taken
already, and no plan need decide on it again. And a job's nomination for a pod that has its node by now is
dropped. Both are found from what has changed, so that a quiet cluster costs nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from shoal.api.dijob import DIJob
from shoal.api.tyjob import TYJob
from shoal.scheduler.decisions import Bind, Decision, Restate, restate
from shoal.world.changes import Key
from shoal.world.pods import PodRecord, owned_by
from shoal.world.world import JOB_KINDS, AnyJob, World

JobKey = tuple[str, Key]


class Followups:
    """Finds what is due; a pod that is to be bound is looked at until it has been."""

    def __init__(self, world: World) -> None:
        self._world: Final = world
        self._unbound: set[Key] = set()

    def take(self, changes: Mapping[str, set[Key]]) -> list[Decision]:
        """What is due now that these objects have changed, job by job."""
        self._unbound |= changes["Pod"]
        found = [due for key in sorted(self._unbound) if (due := self._allocated(key))]
        self._unbound = {bind.key for _, bind in found}
        binds: defaultdict[JobKey, list[Bind]] = defaultdict(list)
        for job, bind in found:
            binds[job].append(bind)
        tidied = {job: write for job in sorted(self._touched(changes)) if (write := self._tidied(job))}
        return [
            Decision(workload=_title(job), pool="", restate=tidied.get(job), binds=tuple(binds[job]))
            for job in dict.fromkeys((*binds, *tidied))
        ]

    def _allocated(self, key: Key) -> tuple[JobKey, Bind] | None:
        """The node that a pod was allocated and does not have yet."""
        pod = self._world.pods.get(key)
        if pod is None or pod.node or pod.leaving or pod.finished:
            return None
        found = self._job(pod)
        node = _allocation(found[1], pod) if found else ""
        if not found or node not in self._world.nodes:
            return None
        return found[0], Bind(key, pod.uid, node)

    def _job(self, pod: PodRecord) -> tuple[JobKey, AnyJob] | None:
        """The job that made a pod."""
        if pod.owner is None or pod.owner.kind not in JOB_KINDS:
            return None
        kind, key = pod.owner.kind, (pod.namespace, pod.owner.name)
        job = self._world.jobs[kind].get(key)
        return ((kind, key), job) if job and owned_by(pod, kind, job.metadata) else None

    def _tidied(self, where: JobKey) -> Restate | None:
        """A job that room was kept for, without those of its nominations that have come true."""
        kind, key = where
        job = self._world.jobs[kind].get(key)
        if job is None or not job.status.nominations:
            return None
        stale = set(self._seated(job))
        left = {pod: node for pod, node in job.status.nominations.items() if pod not in stale}
        return restate(kind, job, replace(job.status, nominations=left))

    def _touched(self, changes: Mapping[str, set[Key]]) -> set[JobKey]:
        """Jobs that have changed, and those of pods that have."""
        pods = (self._world.pods.get(key) for key in changes["Pod"])
        owners = {found[0] for pod in pods if pod and (found := self._job(pod))}
        return owners | {(kind, key) for kind in JOB_KINDS for key in changes[kind]}

    def _seated(self, job: AnyJob) -> Iterable[str]:
        """Pods that are nominated, and have a node."""
        namespace = job.metadata.namespace
        for name in job.status.nominations:
            pod = self._world.pods.get((namespace, name))
            if pod and pod.node and not pod.leaving:
                yield name


def _allocation(job: AnyJob, pod: PodRecord) -> str:
    """The node that a job's status has for a pod."""
    if isinstance(job, TYJob):
        return job.status.allocations.get(pod.name, "")
    if isinstance(job, DIJob) and job.spec.preemptible and pod.rank is not None:
        nodes = job.status.allocation
        return nodes[pod.rank] if pod.rank < len(nodes) else ""
    return ""


def _title(job: JobKey) -> str:
    kind, (namespace, name) = job
    return f"{kind}/{namespace}/{name}"
