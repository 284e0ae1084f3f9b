"""Jobs that random users submit, by kind, and what they do with them afterwards.

A kind is added as a function in `JOB_KINDS`: it returns the spec of a job that fits its pool, and changes of
it. Whatever the changes are, the job must be able to end: it is resumed, and scaled up again.
"""

import random
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from shoal.cluster.resources import Object

CHANGED_PART = 0.4
"""The part of all jobs that their users change."""
_MEAN_DELAY = 900.0
"""Seconds between two changes, on average."""


_STOPPED_PART = 0.2
"""The part of all resizes of a TYJob that stop it instead."""


class JobChange(NamedTuple):
    """A change of a job, some seconds after the one before: of its spec, its status, or one of its pods."""

    delay: float
    do: Literal["patch", "patch_status", "delete_pod"]
    body: Object


Resize = Iterator[tuple[Literal["patch", "patch_status"], Object]]
"""The writes by which a user changes the size of a job."""
JobMaker = Callable[[random.Random, Object], tuple[Object, list[JobChange]]]
"""Returns the spec of a job, given the template of its pods, and what its users change."""


def job_changes(rng: random.Random, resize: Callable[[], Resize]) -> list[JobChange]:
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

    def resize() -> Resize:
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

    def resize() -> Resize:
        yield "patch", {"spec": {"tasks": tasks()}}

    return spec | {"tasks": tasks()}, job_changes(rng, resize)


# --- TYJobs -------------------------------------------------------------------------------------------------


def tyjob(rng: random.Random, template: Object) -> tuple[Object, list[JobChange]]:
    """A TYJob with one set of workers or two, of any policy; some are stopped by their users."""
    names = ("actor", "player")[: rng.randint(1, 2)]

    def sizes() -> Object:
        counts = [rng.randint(1, 2) for _ in names]
        sets = [
            {"name": name, "counts": size, "template": template}
            for name, size in zip(names, counts, strict=True)
        ]
        return {"workerSets": sets, "minWorkersNum": rng.randint(1, sum(counts))}

    def resize() -> Resize:
        yield "patch", {"spec": {"terminating": True} if rng.random() < _STOPPED_PART else sizes()}

    policies = ("Gang", "BinPack", "LeaderFirst", "MinFragment", "JobAffinity", "JobAntiAffinity")
    spec = sizes() | {
        "leader": {"name": "learner", "template": template},
        "restartLimit": rng.choice((0, 1, 3)),
        "priority": rng.randint(1, 10),
        "schedulerPolicy": {"basicPolicy": rng.choice(policies)},
        "cleanPodPolicy": rng.choice(("Running", "All", "None")),
        "ttlSecondsAfterFinished": rng.choice((600, 7200)),
    }
    return spec, job_changes(rng, resize)


# --- TrainingJobs -------------------------------------------------------------------------------------------


def trainingjob(rng: random.Random, template: Object) -> tuple[Object, list[JobChange]]:
    """A TrainingJob, elastic or not, with or without the other roles, fault tolerant or not."""
    container = template["spec"]["containers"][0]
    command = shlex.join(container.get("command", ["true"]))
    role = {"resources": container["resources"], "entrypoint": f"exec {command}"}

    def sizes() -> Object:
        least = rng.randint(1, 3)
        return {"min-instance": least, "max-instance": least + rng.choice((0, 1, 3))}

    def resize() -> Resize:
        yield "patch", {"spec": {"trainer": sizes()}}

    spec: Object = {
        "trainer": {**role, **sizes()},
        "fault_tolerant": rng.random() < 0.5,
        "ttlSecondsAfterFinished": rng.choice((600, 7200)),
    }
    if "priorityClassName" in template["spec"]:
        spec["priorityClassName"] = template["spec"]["priorityClassName"]
    if rng.random() < 0.5:
        most = rng.randint(1, 2)
        sizes_of_pservers = {"min-instance": 1, "max-instance": most, "scaleWithTrainers": most > 1}
        spec["pserver"] = {**role, **sizes_of_pservers}
    if rng.random() < 0.3:
        spec["master"] = role
    return spec, job_changes(rng, resize)


JOB_KINDS: Final[Mapping[str, JobMaker]] = {"DIJob": dijob, "TYJob": tyjob, "TrainingJob": trainingjob}
"""The kinds of jobs that users submit, with equal probability."""
