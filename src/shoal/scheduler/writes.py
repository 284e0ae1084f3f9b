"""Writes: how each decision changes objects through the port. Every write is idempotent.

A write has one of three results: it was made; it was refused, and another decision is due; or the result is
not known, because the connection or the server failed: it may have been made, or may still be made. As long
as the result is not known, the room is neither given away nor given up: the write is retried until there is
an answer, however long that takes.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import msgspec

from shoal.api.conditions import FINISHED_PHASES, set_condition
from shoal.api.disruption import DISRUPTION
from shoal.api.meta import View
from shoal.cluster.backoff import Backoff
from shoal.cluster.errors import (
    ClusterError,
    ConflictError,
    InternalError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from shoal.cluster.object_store import version_number
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import PODS, Object, Resource, Text, resource_of
from shoal.cluster.times import format_time
from shoal.engine.config import SchedulerConfig
from shoal.kinds.pods import BROKEN_SINCE, EVICTION, EvictionRecord, eviction_in
from shoal.scheduler.decisions import Bind, Evict, PatchJobStatus, PatchPod

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)

_USUAL_GRACE: Final = 30


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Timeout of a request in seconds, back-off between retries, and number of tries.

    After a server error a write is tried `tries` times; without an answer it is retried for ever.
    """

    timeout: float = 30.0
    backoff: Backoff = Backoff(0.2, 10.0)
    tries: int = 5


class _Metadata(View, frozen=True, kw_only=True):
    resource_version: str = ""


class _Headed(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_HEADED: Final = msgspec.json.Decoder(_Headed)


def version_of(text: Text) -> int:
    """The number of an object's resourceVersion."""
    return version_number(_HEADED.decode(text).metadata.resource_version)


class Writes:
    """Makes writes. They raise ClusterError when they are refused."""

    def __init__(
        self,
        cluster: Cluster,
        config: SchedulerConfig,
        clock: Callable[[], float],
        options: WriteOptions | None = None,
    ) -> None:
        self._cluster, self._config, self._clock = cluster, config, clock
        self._options: Final = options or WriteOptions()
        self._unanswered = 0

    def now(self) -> float:
        """The time for timestamps in objects."""
        return self._clock()

    async def bind(self, bind: Bind) -> None:
        """Bind a pod. A pod that is bound to that node already counts as success."""
        namespace, name = bind.key
        try:
            await self._retry(lambda: self._cluster.bind(name, namespace, bind.node, uid=bind.uid))
        except ConflictError:
            if not await self._is_bound(bind):
                raise

    async def patch_job_status(self, write: PatchJobStatus) -> int:
        """Write the status of a job; return the new version.

        The write carries the resourceVersion that was read: a request that is delivered twice does no harm.
        """
        job = await self.update_status(
            resource_of(write.kind), write.key, write.uid, lambda _: {"status": write.patch}
        )
        return version_number(job["metadata"]["resourceVersion"])

    async def patch_pod(self, mark: PatchPod) -> int:
        """Write fields of a pod; return the new version."""
        version = 0
        if "broken_since" in mark.changes:
            since = mark.changes["broken_since"]
            text = None if since is None else format_time(since)
            patch = _uid_precondition(mark.uid, annotations={BROKEN_SINCE: text})
            version = await self._patch(mark, patch)
        if "nominated" in mark.changes:
            status = {"nominatedNodeName": mark.changes["nominated"] or None}
            version = await self._patch(mark, _uid_precondition(mark.uid) | {"status": status})
        return version

    async def evict(self, eviction: Evict) -> None:
        """Record the eviction of a pod and set DisruptionTarget, in one write; then delete it.

        A pod that is gone, or was deleted and recreated, needs nothing. Nor does a pod that has ended by
        itself: with the condition its success would count as a disruption, and the work would be repeated.
        """
        namespace, name = eviction.key
        with suppress(NotFoundError, RecreatedError):
            pod = await self.update_status(
                PODS, eviction.key, eviction.uid, lambda pod: self._eviction_patch(pod, eviction)
            )
            if _has_ended_by_itself(pod):
                return
            how = Deletion(uid=eviction.uid, grace=self._grace(eviction, pod))
            await self._retry(lambda: self._cluster.delete(PODS.read_as(version_of), name, namespace, how))

    async def update_status(
        self,
        resource: Resource[Object],
        where: tuple[str, str],
        uid: str,
        make: Callable[[Object], Object | None],
    ) -> Object:
        """Read-modify-write of a status that other components write too.

        `make` returns a merge patch with the new `status`, None for no change. RecreatedError if the object
        of that name has another uid.
        """
        namespace, name = where
        for _ in range(self._options.tries):
            obj = await self._retry(lambda: self._cluster.get(resource, name, namespace))
            if uid and obj["metadata"]["uid"] != uid:
                raise RecreatedError(f"{resource.full_name} {namespace}/{name} was deleted and recreated")
            change = make(obj)
            if change is None:
                return obj
            version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            patch = {**change, "metadata": {**change.get("metadata", {}), **version}}
            try:
                return await self._retry(
                    lambda: self._cluster.patch_status(resource, name, namespace, patch=patch)  # noqa: B023 - at once
                )
            except ConflictError:
                continue
        raise ConflictError(f"{resource.full_name} {namespace}/{name} changes faster than it can be written")

    async def _patch(self, mark: PatchPod, patch: Object) -> int:
        namespace, name = mark.key
        write = self._cluster.patch_status if "status" in patch else self._cluster.patch
        return await self._retry(lambda: write(PODS.read_as(version_of), name, namespace, patch=patch))

    async def _is_bound(self, bind: Bind) -> bool:
        """Whether a pod has the node already, from an earlier try of the same write."""
        namespace, name = bind.key
        pod = await self._retry(lambda: self._cluster.get(PODS, name, namespace))
        return bool(pod["metadata"]["uid"] == bind.uid and pod["spec"].get("nodeName") == bind.node)

    def _eviction_patch(self, pod: Object, eviction: Evict) -> Object | None:
        """The patch that records an eviction; None if it is recorded, or the pod is being deleted or ended.

        The annotation goes with the condition in one write: the API server accepts changes of annotations
        through the status of a pod.
        """
        metadata, conditions = pod["metadata"], pod.get("status", {}).get("conditions") or ()
        recorded = _is_disrupted(pod) and eviction_in(metadata.get("annotations") or {}) is not None
        if metadata.get("deletionTimestamp") or recorded or _has_ended_by_itself(pod):
            return None
        changed = set_condition(conditions, disruption(eviction.record), format_time(self._clock()))
        return {
            "metadata": {"annotations": {EVICTION: eviction.record.annotation()}},
            "status": {"conditions": list(conditions) if changed is None else changed},
        }

    def _grace(self, eviction: Evict, pod: Object) -> int | None:
        """The grace period of an eviction in seconds; None for the pod's own."""
        most = self._config.reclaim_grace_period_seconds
        if eviction.record.reason != "Reclaimed" or most is None:
            return None
        own: int = pod["spec"].get("terminationGracePeriodSeconds", _USUAL_GRACE)
        return min(math.ceil(most), own)

    async def _retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until there is an answer."""
        options, failures, errors = self._options, 0, 0
        with self._unanswered_writes() as unanswered:
            while True:
                try:
                    async with asyncio.timeout(options.timeout):
                        return await attempt()
                except (TimeoutError, UnavailableError) as error:
                    later = None
                    unanswered(error)
                except (InternalError, TooManyRequestsError) as error:
                    errors += 1
                    if errors >= options.tries:
                        raise
                    later = error.retry_after
                failures += 1
                await asyncio.sleep(options.backoff.delay(failures, retry_after=later))

    @contextmanager
    def _unanswered_writes(self) -> Iterator[Callable[[Exception], None]]:
        """Log the first of all requests that gets no answer, and when none is left without one."""
        counted = False

        def unanswered(error: Exception) -> None:
            nonlocal counted
            if not counted and not self._unanswered:
                _LOG.warning("a request got no answer, and is retried until it gets one: %s", error)
            self._unanswered += not counted
            counted = True

        try:
            yield unanswered
        finally:
            self._unanswered -= counted
            if counted and not self._unanswered:
                _LOG.info("no request is without an answer any more")


class RecreatedError(ClusterError):
    """Raised when an object was deleted and recreated: another uid has its name."""

    code = ConflictError.code
    reason = ConflictError.reason


def disruption(record: EvictionRecord) -> Object:
    """The DisruptionTarget condition of an eviction."""
    preempted = record.reason in ("Preempted", "Reclaimed")
    reason = "PreemptionByScheduler" if preempted else record.reason
    return {"type": DISRUPTION, "status": "True", "reason": reason, "message": str(record)}


def _is_disrupted(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == DISRUPTION and one["status"] == "True" for one in conditions)


def _has_ended_by_itself(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in FINISHED_PHASES and not _is_disrupted(pod)


def _uid_precondition(uid: str, **metadata: Any) -> Object:  # noqa: ANN401 - fields of metadata
    """Metadata of a patch that fails if the object was deleted and recreated."""
    return {"metadata": ({"uid": uid} if uid else {}) | metadata}
