"""Missing pods: the pods that batch Jobs are still to create, for planning ahead.

They get free names. Where two Jobs could use the same name, the Job whose own name sorts first gets it, so
that the result does not depend on the order of events.

The live scheduler plans ahead for gangs only, so that the size of a gang is known. Other pods are placed once
they exist: there is no object in which room for them could be reserved.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from shoal.cache.changes import Key
from shoal.cache.world import World
from shoal.kinds.base import job_kinds
from shoal.kinds.pods import PodRecord

_SUFFIXES: Final = 2
"""How many numbers may follow the name of a Job in the name of its pod."""


class MissingPods:
    """Pods that are still to be created, by name."""

    def __init__(self, world: World, *, gangs_only: bool = False) -> None:
        """Start empty. With `gangs_only` the pods of Jobs without a gang are left out."""
        self._world, self._gangs_only = world, gangs_only
        self.pods: dict[Key, PodRecord] = {}
        self._names: dict[Key, list[Key]] = {}

    def of(self, job: Key) -> list[PodRecord]:
        """The pods that a Job is still to create."""
        return [self.pods[key] for key in self._names.get(job, ())]

    def update(
        self, jobs: Iterable[Key], made: Callable[[Key], list[PodRecord]], is_present: Callable[[Key], bool]
    ) -> dict[Key, PodRecord | None]:
        """Compute the missing pods of some Jobs again; return those that changed, with their old records.

        `made` returns the existing pods of a Job, `is_present` whether a pod of a name exists.
        """
        queue, before = sorted(set(jobs)), dict[Key, PodRecord | None]()
        while queue:
            job = heapq.heappop(queue)
            for key in self._expect(job, made(job), is_present, before):
                for other in possible_jobs(key):
                    if other > job and other in self._world.batch_jobs and other not in queue:
                        heapq.heappush(queue, other)
        return {key: pod for key, pod in before.items() if pod != self.pods.get(key)}

    def _expect(
        self,
        job: Key,
        made: list[PodRecord],
        is_present: Callable[[Key], bool],
        before: dict[Key, PodRecord | None],
    ) -> Iterator[Key]:
        """Name the missing pods of a Job again; yield names that it starts or stops using."""
        old = {key: self.pods.pop(key) for key in self._names.pop(job, ()) if self._holder(key) == job}
        for key, pod in old.items():
            before.setdefault(key, pod)
        new = self._wanted(job, made, is_present)
        for key, pod in new.items():
            before.setdefault(key, self.pods.get(key))
            self.pods[key] = pod
        if new:
            self._names[job] = list(new)
        yield from old.keys() ^ new.keys()

    def _wanted(
        self, job: Key, made: list[PodRecord], is_present: Callable[[Key], bool]
    ) -> dict[Key, PodRecord]:
        """The missing pods of a Job; one may reuse the name of a failed pod of the same Job."""
        found: dict[Key, PodRecord] = {}
        if not self._matters(job):
            return found
        failed = {pod.name for pod in made if pod.phase == "Failed"}

        def is_free(name: str) -> bool:
            key = job[0], name
            if key in found or (key in self.pods and self._holder(key) < job):
                return False
            return name in failed or not is_present(key)

        world = self._world
        batch = job_kinds()["Job"]
        for pod in batch.missing_pods(world.batch_jobs[job], world.pod_classes, made, is_free, world.now):
            found[pod.key] = pod
        return found

    def _matters(self, key: Key) -> bool:
        """Whether missing pods of a Job are planned."""
        job = self._world.batch_jobs.get(key)
        if job is None or not self._gangs_only:
            return job is not None
        return bool(self._world.pod_classes.of_template(key[0], job.spec.template).gang)

    def _holder(self, key: Key) -> Key:
        owner = self.pods[key].owner if key in self.pods else None
        return key[0], owner.name if owner else ""


def possible_jobs(key: Key) -> Iterator[Key]:
    """Jobs that could name a pod so: `<job>-<number>` or `<job>-<number>-<number>`."""
    namespace, name = key
    for _ in range(_SUFFIXES):
        name, dash, number = name.rpartition("-")
        if not dash or not number.isdigit():
            return
        yield namespace, name
