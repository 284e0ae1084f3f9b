"""Expectations: the pods that batch Jobs are still to make.

They have names that are free. Where two Jobs may want the same one, the Job whose own name comes first has
the choice, so that it does not matter in which order they were told of.

A scheduler at work expects those of gangs only, so that it is known how large a gang will be. Others are
served when they are there: room for them could be written down nowhere.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from shoal.cache.changes import Key
from shoal.cache.world import World
from shoal.kinds.base import job_kinds
from shoal.kinds.pods import PodRecord

_SUFFIXES: Final = 2
"""How many numbers a Job may put behind its own name to make that of a pod."""


class MissingPods:
    """Pods that are to come, by their names."""

    def __init__(self, world: World, *, gangs_only: bool = False) -> None:
        """Expect nobody yet, and of pods that are in no gang, if only those of gangs matter, nobody ever."""
        self._world, self._gangs_only = world, gangs_only
        self.pods: dict[Key, PodRecord] = {}
        self._names: dict[Key, list[Key]] = {}

    def of(self, job: Key) -> list[PodRecord]:
        """The pods that a Job is still to make."""
        return [self.pods[key] for key in self._names.get(job, ())]

    def update(
        self, jobs: Iterable[Key], made: Callable[[Key], list[PodRecord]], is_present: Callable[[Key], bool]
    ) -> dict[Key, PodRecord | None]:
        """Look at some Jobs again; the pods whose expectation changed, as they were expected before.

        `made` are the pods of a Job that there are, `is_present` tells of any name whether it is taken.
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
        """Name the pods of a Job anew; yields the names that it takes up or gives up."""
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
        """The pods that a Job wants; one may have the name of a pod of its that failed."""
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
        """Whether pods of a Job are expected."""
        job = self._world.batch_jobs.get(key)
        if job is None or not self._gangs_only:
            return job is not None
        return bool(self._world.pod_classes.of_template(key[0], job.spec.template).gang)

    def _holder(self, key: Key) -> Key:
        owner = self.pods[key].owner if key in self.pods else None
        return key[0], owner.name if owner else ""


def possible_jobs(key: Key) -> Iterator[Key]:
    """Jobs that could give a pod this name: it is theirs with numbers behind it."""
    namespace, name = key
    for _ in range(_SUFFIXES):
        name, dash, number = name.rpartition("-")
        if not dash or not number.isdigit():
            return
        yield namespace, name
