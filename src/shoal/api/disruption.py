"""When a pod was asked to stop: by its DisruptionTarget condition, or by its deletion.

A pod that ends after that has neither succeeded nor failed, whatever its exit code. Scheduler and controllers
read pods through different views, and both judge by these functions.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from shoal.api.core import ContainerStatus
from shoal.api.meta import Condition, PartialObjectMeta

DISRUPTION: Final = "DisruptionTarget"
"""The pod condition that marks a deletion as a disruption: the pod has not failed."""


def was_asked_first(
    metadata: PartialObjectMeta, conditions: Iterable[Condition], containers: Iterable[ContainerStatus]
) -> bool:
    """Return whether a pod was asked to stop before its last container ended. Within one second, it was."""
    disruption = next((one for one in conditions if one.type == DISRUPTION and one.status == "True"), None)
    asked = (disruption.last_transition_time if disruption else None, deletion_requested_at(metadata))
    requests = [time for time in asked if time is not None]
    if not requests:
        return disruption is not None
    ended = containers_finished_at(containers)
    return ended is None or ended >= min(requests)


def deletion_requested_at(metadata: PartialObjectMeta) -> datetime | None:
    """Return when the deletion was requested: the deletion timestamp is later by the grace period."""
    if metadata.deletion_timestamp is None:
        return None
    return metadata.deletion_timestamp - timedelta(seconds=metadata.deletion_grace_period_seconds or 0)


def containers_finished_at(containers: Iterable[ContainerStatus]) -> datetime | None:
    """Return when the last container terminated; None unless all have."""
    ends = [one.state.terminated.finished_at if one.state.terminated else None for one in containers]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None
