"""Phases, conditions and Events of a job, and what happens to it once it has finished.

A job has one condition for each phase that it has ever entered; exactly one of these is True.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from shoal.api.conditions import FINISHED_PHASES, with_condition
from shoal.api.managed import ManagedMeta, ManagedPod, ManagedService
from shoal.api.meta import Condition
from shoal.cluster.events import ObjectEvent, ObjectReference
from shoal.cluster.resources import PODS, SERVICES, Resource
from shoal.cluster.times import to_datetime, to_seconds
from shoal.controllers.changes import Changes, Write, delete_object
from shoal.controllers.jobs.ends import has_stopped
from shoal.controllers.jobs.tracking import is_tracked, release

CleanPodPolicy = Literal["Running", "All", "None"]

SUSPENDED: Final = "Suspended"
_BESIDE_PHASES: Final = ("Scheduled", SUSPENDED)
"""Conditions that are not about a phase."""
_WARNED: Final = ("Failed", "Restarting", "Rescheduling")
IMAGE_PROBLEMS: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
"""Reasons of the kubelet for which a container cannot start."""


class Phase(NamedTuple):
    """A phase (or stage) of a job, and why it is in it."""

    name: str
    reason: str
    message: str = ""


def enter(conditions: Sequence[Condition], phase: Phase, now: float) -> tuple[Condition, ...]:
    """Return the conditions of a job that is in a phase now."""
    time = to_datetime(now)
    true = Condition(type=phase.name, status="True", reason=phase.reason, message=phase.message)
    others = (
        with_condition((one,), Condition(type=one.type, status="False", reason=one.reason), time)[0]
        if one.status == "True" and one.type not in (*_BESIDE_PHASES, phase.name)
        else one
        for one in conditions
    )
    return with_condition(tuple(others), true, time)


def suspend(conditions: Sequence[Condition], *, suspended: bool, now: float) -> tuple[Condition, ...]:
    """Return the conditions with Suspended as the spec says; a job that never was suspended has none."""
    if not suspended and condition(conditions, SUSPENDED) is None:
        return tuple(conditions)
    reason = "JobSuspended" if suspended else "JobResumed"
    wanted = Condition(type=SUSPENDED, status=str(suspended), reason=reason)
    return with_condition(conditions, wanted, to_datetime(now))


def condition(conditions: Iterable[Condition], name: str) -> Condition | None:
    """Return the condition of a type."""
    return next((one for one in conditions if one.type == name), None)


def entered_at(conditions: Iterable[Condition], phase: str) -> datetime | None:
    """Return when a job entered the phase that it is in; None if it is in another one."""
    found = condition(conditions, phase)
    return found.last_transition_time if found and found.status == "True" else None


def phase_events(
    regarding: ObjectReference, before: Sequence[Condition], after: Sequence[Condition]
) -> Iterator[ObjectEvent]:
    """Yield an Event for every phase that a job entered, in the order in which it did."""
    old = {one.type: one for one in before}
    for one in after:
        known = old.get(one.type)
        is_new = known is None or (known.status != "True" and one.status == "True")
        if one.type not in _BESIDE_PHASES and is_new:
            yield ObjectEvent(
                regarding=regarding,
                reason=f"Job{one.type}",
                message=one.message or f"Job is {one.type.lower()}",
                type="Warning" if one.type in _WARNED else "Normal",
            )
        elif one.type == SUSPENDED and (known is None or known.status != one.status):
            verb = "suspended" if one.status == "True" else "resumed"
            yield ObjectEvent(regarding=regarding, reason=verb.capitalize(), message=f"Job {verb}")


def image_problem(pods: Iterable[ManagedPod]) -> tuple[str, str] | None:
    """Return reason and message for the first pod whose image cannot be pulled; None if there is none."""
    for pod in pods:
        if pod.status.phase != "Pending" or not pod.spec.node_name:
            continue
        for container in pod.containers:
            waiting = container.state.waiting
            if waiting and waiting.reason in IMAGE_PROBLEMS:
                text = f"Pod {pod.metadata.name}: {waiting.message or waiting.reason}"
                return waiting.reason, text
    return None


# --- finished jobs -----------------------------------------------------------------------------------------


def clean_up(  # noqa: PLR0913 - what the kinds differ in
    resource: Resource[Any],
    job: ManagedMeta,
    pods: Sequence[ManagedPod],
    service: ManagedService | None,
    *,
    policy: CleanPodPolicy,
    completed: datetime | None,
    ttl: int | None,
    now: float,
) -> Changes:
    """Return the deletions of a finished job: pods by its policy, its service, and in the end itself."""
    deleted = [
        pod
        for pod in pods
        if not pod.terminating and (policy == "All" or (policy == "Running" and not pod.finished))
    ]
    writes: tuple[Write, ...] = (
        *(delete_object(PODS, pod.metadata) for pod in deleted),
        *(release(pod) for pod in pods if is_tracked(pod) and has_stopped(pod) and pod not in deleted),
        *((delete_object(SERVICES, service.metadata),) if service and not _is_leaving(service) else ()),
    )
    if ttl is None or completed is None:
        return Changes(stages=(writes,))
    due = to_seconds(completed) + ttl
    if now < due:
        return Changes(stages=(writes,), requeue_at=due)
    return Changes(stages=(writes, (delete_object(resource, job, propagation="Background"),)))


def _is_leaving(service: ManagedService) -> bool:
    return service.metadata.deletion_timestamp is not None


def is_finished(phase: str | None) -> bool:
    """Return whether a phase is final."""
    return phase in FINISHED_PHASES
