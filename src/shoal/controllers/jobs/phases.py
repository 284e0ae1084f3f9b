"""Phases, conditions and Events of a job.

A job has one condition for each phase that it has ever entered; exactly one of these is True.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from shoal.api.conditions import FINISHED_PHASES, with_condition
from shoal.api.managed import ManagedPod
from shoal.api.meta import Condition
from shoal.cluster.events import ObjectEvent, ObjectReference
from shoal.cluster.times import to_datetime

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


SUSPENDED_PHASE: Final = Phase("Pending", "Suspended", "The job is suspended")


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


def bound_at(pod: ManagedPod) -> datetime | None:
    """Return when a pod was bound to its node; None if it is not bound, or that is not known."""
    scheduled = condition(pod.status.conditions, "PodScheduled")
    return scheduled.last_transition_time if scheduled and scheduled.status == "True" else None


def is_finished(phase: str | None) -> bool:
    """Return whether a phase is final."""
    return phase in FINISHED_PHASES
