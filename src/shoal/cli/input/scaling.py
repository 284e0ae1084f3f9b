"""How each kind is given another size.

Job           spec.parallelism
DIJob         of a template: the size that is decided, or, if it is preemptible, asked for
of tasks: the replicas of one task
TYJob         the counts of one worker set
TrainingJob   not at all: the autoscaler sizes it, between bounds that its author says
others        by their scale subresource, where they have one
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from shoal.cluster.resources import DIJOBS, JOBS, TRAININGJOBS, TYJOBS, Object, Resource


class CannotScaleError(ValueError):
    """Raised when an object cannot be given that size; says what can be done instead."""


class Rescaling(msgspec.Struct, frozen=True):
    """A merge patch that changes a size, and the part of the object that it is sent to."""

    patch: Object
    part: str = ""


def rescaling(resource: Resource[Any], thing: Object, replicas: int, role: str) -> Rescaling:
    """What changes the size of an object; CannotScaleError if that cannot be changed, or not like this."""
    known = _KINDS.get(resource.full_name)
    return (
        Rescaling({"spec": {"replicas": replicas}}, "scale")
        if known is None
        else known(thing, replicas, role)
    )


def _job(_: Object, replicas: int, __: str) -> Rescaling:
    return Rescaling({"spec": {"parallelism": replicas}})


def _dijob(job: Object, replicas: int, role: str) -> Rescaling:
    spec = job["spec"]
    if spec.get("tasks"):
        titles = [task.get("name") or task.get("type", "") for task in spec["tasks"]]
        return _member(job, "tasks", titles, "replicas", replicas, role)
    if not spec.get("preemptible"):
        return Rescaling({"status": {"replicas": replicas}}, "status")
    least = spec.get("minReplicas", 1)
    most = spec.get("maxReplicas") or max(least, 1)
    if not least <= replicas <= most:
        raise CannotScaleError(
            f"must be between minReplicas, {least}, and maxReplicas, {most}: change these in its file "
            "and `shoal apply` it"
        )
    return Rescaling({"status": {"requestedReplicas": replicas}}, "status")


def _tyjob(job: Object, replicas: int, role: str) -> Rescaling:
    titles = [workers["name"] for workers in job["spec"]["workerSets"]]
    return _member(job, "workerSets", titles, "counts", replicas, role)


def _member(  # noqa: PLR0913, PLR0917 - which number of which member
    job: Object, field: str, titles: Sequence[str], number: str, replicas: int, role: str
) -> Rescaling:
    """Change a number of one member of a list; lists are replaced whole, so the object must be as it was."""
    if not role and len(titles) == 1:
        role = titles[0]
    if role not in titles:
        raise CannotScaleError(f"has {' and '.join(titles)}: say which with --role")
    members = [
        {**member, number: replicas} if title == role else member
        for title, member in zip(titles, job["spec"][field], strict=True)
    ]
    version = job["metadata"]["resourceVersion"]
    return Rescaling({"metadata": {"resourceVersion": version}, "spec": {field: members}})


def _trainingjob(job: Object, _: int, __: str) -> Rescaling:
    trainer = job["spec"]["trainer"]
    raise CannotScaleError(
        f"is sized by the autoscaler, between min-instance, {trainer['min-instance']}, and max-instance, "
        f"{trainer['max-instance']}: change these in its file and `shoal apply` it"
    )


_KINDS: Final[dict[str, Callable[[Object, int, str], Rescaling]]] = {
    JOBS.full_name: _job,
    DIJOBS.full_name: _dijob,
    TYJOBS.full_name: _tyjob,
    TRAININGJOBS.full_name: _trainingjob,
}
