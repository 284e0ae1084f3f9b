"""Population: the pods of a world that count, and whose they are."""

from collections import defaultdict

from shoal.api.batch import Job
from shoal.api.core import Node
from shoal.api.meta import ObjectMeta
from shoal.scheduling.config import SchedulerConfig
from shoal.world.loose import pending_pods
from shoal.world.pods import PodRecord, owned_by
from shoal.world.world import Key, World


class Population:
    """Pods that exist, without those that went down with their node, and those batch Jobs will make."""

    def __init__(self, world: World, config: SchedulerConfig, now: float) -> None:
        """Count the pods of `world`."""
        self._config = config
        self.alive = {name for name, node in world.nodes.items() if not is_lost(node, now, config)}
        self.pods: dict[Key, PodRecord] = {k: pod for k, pod in world.pods.items() if self._counts(pod)}
        self._owned: defaultdict[tuple[str, str, str], list[PodRecord]] = defaultdict(list)
        for pod in self.pods.values():
            if pod.owner:
                self._owned[pod.owner.kind, pod.namespace, pod.owner.name].append(pod)
        self._jobs = world.jobs
        for job in world.batch_jobs.values():
            self._expect(job, world)

    def _expect(self, job: Job, world: World) -> None:
        """Count the pods that a batch Job will make; one may have the name of a pod of its that failed."""
        made = self.of("Job", job.metadata)
        failed = {pod.name for pod in made if pod.phase == "Failed"}

        def is_free(name: str) -> bool:
            return name in failed or (job.metadata.namespace, name) not in self.pods

        for pod in pending_pods(job, world.book, made, is_free, world.now):
            failed.discard(pod.name)
            self.pods[pod.namespace, pod.name] = pod

    def of(self, kind: str, meta: ObjectMeta) -> list[PodRecord]:
        """The pods that an object of a kind made."""
        pods = self._owned.get((kind, meta.namespace, meta.name), ())
        return [pod for pod in pods if owned_by(pod, kind, meta)]

    def loose(self) -> list[PodRecord]:
        """Pods that are ours to schedule and belong to no job of ours; those that are leaving are not."""
        return [
            pod
            for pod in self.pods.values()
            if not pod.leaving and self._config.schedules(pod.blueprint.scheduler) and not self.has_job(pod)
        ]

    def is_ours(self, pod: PodRecord) -> bool:
        """Whether a pod is ours to schedule; one of our jobs' pods that names no scheduler is."""
        scheduler = pod.blueprint.scheduler
        return self._config.schedules(scheduler) or (not scheduler and self.has_job(pod))

    def has_job(self, pod: PodRecord) -> bool:
        """Whether a job that we plan as a whole made a pod."""
        if pod.owner is None or pod.owner.kind not in self._jobs:
            return False
        job = self._jobs[pod.owner.kind].get((pod.namespace, pod.owner.name))
        return job is not None and owned_by(pod, pod.owner.kind, job.metadata)

    def _counts(self, pod: PodRecord) -> bool:
        """Whether a pod is there: it has ended, or has a live node, or waits for one."""
        if pod.finished:
            return True
        return pod.node in self.alive if pod.node else not pod.leaving


def is_lost(node: Node, now: float, config: SchedulerConfig) -> bool:
    """Whether a node has been silent for so long that its pods count as gone."""
    ready = node.ready
    if ready is None or ready.status != "Unknown" or ready.last_transition_time is None:
        return False
    return now - ready.last_transition_time.timestamp() > config.node_lost_seconds
