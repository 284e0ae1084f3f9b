"""Tracking: the end of each pod is counted exactly once.

Pods have a finalizer. The end of a pod is counted in one write of the job's status, which also adds its uid
to `status.counted`; then the finalizer is removed; the uid is dropped later. So no end is lost and none is
counted twice, whenever the controller is killed.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from shoal.api.managed import ManagedPod
from shoal.api.names import TRACKING_FINALIZER
from shoal.cluster.resources import PODS
from shoal.controllers.changes import Patch, patch_object
from shoal.controllers.jobs.ends import has_stopped

MAX_COUNTED: Final = 500
"""Uids in `status.counted`: so that the status stays small."""


class CountedEnds(msgspec.Struct, frozen=True):
    """Ends of pods. `new` are counted now; once `uids` are written, `release` may lose their finalizers."""

    new: tuple[ManagedPod, ...]
    uids: tuple[str, ...]
    release: tuple[ManagedPod, ...]

    def recorded(self, before: tuple[str, ...]) -> tuple[str, ...]:
        """Return the uids to record. Dropping old ones alone is not worth a write, unless there are many."""
        drops_only = not self.new and set(self.uids) <= set(before)
        return before if drops_only and len(before) < MAX_COUNTED else self.uids


def is_tracked(pod: ManagedPod) -> bool:
    """Return whether a pod has the finalizer: its end may still have to be counted."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def count_ends(counted: tuple[str, ...], pods: Iterable[ManagedPod]) -> CountedEnds:
    """Return the ends that are to be counted, given the uids that were counted before."""
    before = set(counted)
    stopped = [pod for pod in pods if has_stopped(pod) and is_tracked(pod)]
    kept = [pod for pod in stopped if pod.metadata.uid in before]
    fresh = [pod for pod in stopped if pod.metadata.uid not in before][: MAX_COUNTED - len(kept)]
    return CountedEnds(
        new=tuple(fresh),
        uids=tuple(pod.metadata.uid for pod in (*kept, *fresh)),
        release=(*kept, *fresh),
    )


def release(pod: ManagedPod) -> Patch:
    """Return the patch that removes the finalizer of a pod."""
    left = [one for one in pod.metadata.finalizers if one != TRACKING_FINALIZER]
    return patch_object(PODS, pod.metadata, {"metadata": {"finalizers": left or None}})
