"""How a pod ended, and when its successor may be created.

A pod *succeeded*, *failed* for its own reasons, or was *disrupted*: it was asked to stop, or its node refused
or lost it. Only failures cost anything. After a failure, and after a refusal by a node, the successor waits:
the time is computed from the ended pod, which stays until then.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from shoal.api.disruption import (
    DISRUPTION,
    containers_finished_at,
    deletion_requested_at,
    was_asked_first,
)
from shoal.api.managed import ManagedPod
from shoal.api.names import parse_small_int
from shoal.cluster.backoff import Backoff
from shoal.cluster.times import to_seconds

ATTEMPT: Final = "shoal.io/attempt"
"""Annotation of a pod: which attempt in a row it is, from 1."""

_BACKOFF: Final = Backoff(1.0, 60.0)
_LONG_RUN: Final = timedelta(minutes=10)
"""After a run of this length, the next attempt is the first again."""
_SIGTERM_EXIT: Final = 143
_SHOWN_ENDS: Final = 3
"""Pods that a message names."""
_REFUSALS: Final = ("unexpectedadmissionerror", "topologyaffinityerror", "nodeaffinity")
_DISRUPTIONS: Final = (
    *("evicted", "preempting", "shutdown", "terminated", "nodeshutdown", "nodelost"),
    *_REFUSALS,
)
"""Values of `status.reason` of failed pods, in lower case."""

PodEnd = Literal["succeeded", "failed", "disrupted"]


def has_stopped(pod: ManagedPod) -> bool:
    """Return whether no container of a pod runs any more.

    The phase says so. A terminating pod without a grace period was never bound, or its node has released it,
    or it was force-deleted.
    """
    return pod.finished or (pod.terminating and pod.metadata.deletion_grace_period_seconds in (0, None))


def pod_end(pod: ManagedPod) -> PodEnd:
    """Return how a stopped pod ended."""
    if not pod.finished or _was_asked_first(pod):
        return "disrupted"
    if pod.status.phase == "Succeeded":
        return "succeeded"
    codes = {one.state.terminated.exit_code for one in pod.containers if one.state.terminated} - {0}
    disrupted = codes == {_SIGTERM_EXIT} or _was_refused(pod) or pod.status.reason.lower() in _DISRUPTIONS
    return "disrupted" if disrupted else "failed"


def describe_end(pod: ManagedPod) -> str:
    """Return why a pod ended, in a few words: `exit 3`, `Evicted`, `Preempted`."""
    codes = [one.state.terminated.exit_code for one in pod.containers if one.state.terminated]
    if pod_end(pod) == "failed" and any(codes):
        return f"exit {next(filter(None, codes))}"
    disruption = next((one for one in pod.status.conditions if one.type == DISRUPTION), None)
    return (
        (disruption.reason if disruption else "")
        or pod.status.reason
        or ("Deleted" if pod.terminating else f"exit {next(filter(None, codes), 0)}")
    )


def describe_ends(pods: Sequence[ManagedPod]) -> str:
    """Return why pods ended: `job-0: exit 3, job-1: OutOfcpu, …`."""
    shown = ", ".join(f"{pod.metadata.name}: {describe_end(pod)}" for pod in pods[:_SHOWN_ENDS])
    return f"{shown}, …" if len(pods) > _SHOWN_ENDS else shown


def next_attempt(pod: ManagedPod) -> int:
    """Return the number of the attempt after a stopped pod."""
    return 1 if not _costs_time(pod) or _ran_long(pod) else attempt(pod) + 1


def retry_time(pod: ManagedPod) -> float:
    """Return from when on the successor of a stopped pod may be created; 0 if at once."""
    ended = finish_time(pod) if _costs_time(pod) else None
    row = 1 if _ran_long(pod) else attempt(pod)
    return to_seconds(ended) + _BACKOFF.delay(row) if ended else 0.0


def attempt(pod: ManagedPod) -> int:
    """Return which attempt in a row a pod is."""
    return parse_small_int(pod.metadata.annotations.get(ATTEMPT, "")) or 1


def finish_time(pod: ManagedPod) -> datetime | None:
    """Return when a pod ended, as far as it is known; else its creation time."""
    unready = next((c for c in pod.status.conditions if c.type == "Ready" and c.status == "False"), None)
    known = (
        containers_finished_at(pod.status.container_statuses),
        unready.last_transition_time if unready else None,
        deletion_requested_at(pod.metadata),
        pod.metadata.creation_timestamp,
    )
    return next((time for time in known if time is not None), None)


def _was_asked_first(pod: ManagedPod) -> bool:
    return was_asked_first(pod.metadata, pod.status.conditions, pod.status.container_statuses)


def _was_refused(pod: ManagedPod) -> bool:
    """Return whether a node refused to run a pod."""
    reason = pod.status.reason.lower()
    return pod.status.phase == "Failed" and (reason.startswith("outof") or reason in _REFUSALS)


def _costs_time(pod: ManagedPod) -> bool:
    return pod_end(pod) == "failed" or (_was_refused(pod) and not _was_asked_first(pod))


def _ran_long(pod: ManagedPod) -> bool:
    starts = [
        one.state.terminated.started_at for one in pod.status.container_statuses if one.state.terminated
    ]
    began, ended = (
        min(filter(None, starts), default=None),
        containers_finished_at(pod.status.container_statuses),
    )
    return began is not None and ended is not None and ended - began >= _LONG_RUN
