"""How pods end: by themselves, or because they were taken away."""

from datetime import datetime, timedelta

from shoal.controllers.views import DISRUPTION, Pod


def ended(pod: Pod) -> bool:
    """Whether nothing of a pod runs any more.

    Its node says so by its phase. A pod that is being deleted without any time left has no node, or its node
    has let go of it, or somebody has given both up.
    """
    return pod.finished or (pod.leaving and pod.metadata.deletion_grace_period_seconds in (0, None))


def taken(pod: Pod) -> bool:
    """Whether a pod was taken away: by the scheduler, with its node, or by somebody's hand.

    One whose containers had failed when it was deleted was not. Where both happened within one second, where
    the pod was given time to end, or where nobody knows, the deletion came first.
    """
    if pod.status.phase == "Succeeded":
        return False
    if pod.has(DISRUPTION):
        return True
    asked = pod.metadata.deletion_timestamp
    if asked is None or not pod.finished:
        return asked is not None
    if pod.metadata.deletion_grace_period_seconds:
        return True
    stopped = _containers_stopped(pod)
    return stopped is None or stopped >= asked


def end_time(pod: Pod) -> datetime | None:
    """When a pod ended, as far as it is known; when it was made, else."""
    unready = next((c for c in pod.status.conditions if c.type == "Ready" and c.status == "False"), None)
    known = (
        _containers_stopped(pod),
        unready.last_transition_time if unready else None,
        _asked_to_leave(pod),
        pod.metadata.creation_timestamp,
    )
    return next((time for time in known if time is not None), None)


def _containers_stopped(pod: Pod) -> datetime | None:
    """When the last container ended, if all have."""
    ends = [
        one.state.terminated.finished_at if one.state.terminated else None
        for one in pod.status.container_statuses
    ]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def _asked_to_leave(pod: Pod) -> datetime | None:
    metadata = pod.metadata
    if metadata.deletion_timestamp is None:
        return None
    return metadata.deletion_timestamp - timedelta(seconds=metadata.deletion_grace_period_seconds or 0)
