"""Jobs that random users submit, by kind, and what they do with them afterwards.

A kind is added as a function in `JOB_KINDS`: it returns the spec of a job that fits its pool, and changes of
it. Whatever the changes are, the job must be able to end: it is resumed, and scaled up again.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from shoal.cluster.resources import Object

CHANGED_PART = 0.4
"""The part of all jobs that their users change."""
_MEAN_DELAY = 900.0
"""Seconds between two changes, on average."""


class JobChange(NamedTuple):
    """A change of a job, some seconds after the one before: of its spec, its status, or one of its pods."""

    delay: float
    do: Literal["patch", "patch_status", "delete_pod"]
    body: Object


JobMaker = Callable[[random.Random, Object], tuple[Object, list[JobChange]]]
"""Returns the spec of a job, given the template of its pods, and what its users change."""


def job_changes(
    rng: random.Random, resize: Callable[[], Iterator[tuple[Literal["patch", "patch_status"], Object]]]
) -> list[JobChange]:
    """Return random changes: resizes, suspensions that end, and deletions of pods."""
    if rng.random() > CHANGED_PART:
        return []
    changes: list[JobChange] = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(("resize", "resize", "suspend", "delete"))
        if kind == "suspend":
            changes += [_change(rng, "patch", {"spec": {"suspend": True}})]
            changes += [_change(rng, "patch", {"spec": {"suspend": False}})]
        elif kind == "resize":
            changes += [_change(rng, do, body) for do, body in resize()]
        else:
            changes += [_change(rng, "delete_pod", {"number": rng.randint(0, 9)})]
    return changes


def _change(
    rng: random.Random, do: Literal["patch", "patch_status", "delete_pod"], body: Object
) -> JobChange:
    return JobChange(round(rng.expovariate(1 / _MEAN_DELAY), 3), do, body)


# --- DIJobs -------------------------------------------------------------------------------------------------


def dijob(rng: random.Random, template: Object) -> tuple[Object, list[JobChange]]:
    """A DIJob of any shape: of a template or of tasks, preemptible or not."""
    spec: Object = {
        "backoffLimit": rng.choice((0, 1, 3, 20)),
        "preemptible": rng.random() < 0.4,
        "cleanPodPolicy": rng.choice(("Running", "All", "None")),
        "ttlSecondsAfterFinished": rng.choice((600, 7200)),
    }
    if rng.random() < 0.1:
        spec["activeDeadlineSeconds"] = rng.choice((900, 7200))
    if rng.random() < 0.3:
        return _with_tasks(rng, spec, template)
    least = rng.randint(1, 4)
    topology = rng.choice(("star", "alone", "mesh"))
    spec |= {"minReplicas": least, "maxReplicas": least + rng.randint(0, 2), "template": template}
    spec |= {"engineFields": {"topology": topology, "parallelWorkers": rng.randint(1, 2)}}

    def resize() -> Iterator[tuple[Literal["patch", "patch_status"], Object]]:
        size = rng.randint(least, spec["maxReplicas"])
        if spec["preemptible"]:
            yield "patch_status", {"status": {"requestedReplicas": rng.choice((None, size))}}
            return
        if rng.random() < 0.3:
            yield "patch_status", {"status": {"replicas": 0}}
        yield "patch_status", {"status": {"replicas": size}}

    return spec, job_changes(rng, resize)


def _with_tasks(rng: random.Random, spec: Object, template: Object) -> tuple[Object, list[JobChange]]:
    def tasks() -> list[Object]:
        return [
            {"type": "learner", "replicas": 1, "template": template},
            {"type": "collector", "replicas": rng.randint(1, 3), "template": template},
        ]

    def resize() -> Iterator[tuple[Literal["patch", "patch_status"], Object]]:
        yield "patch", {"spec": {"tasks": tasks()}}

    return spec | {"tasks": tasks()}, job_changes(rng, resize)


JOB_KINDS: Final[Mapping[str, JobMaker]] = {"DIJob": dijob}
"""The kinds of jobs that users submit, with equal probability."""
