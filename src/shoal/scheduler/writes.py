"""Writes: how each decision becomes a change of an object, through the port. Each may be made twice.

What a cluster says to a write is one of three things. *Done*. *No*, for good: another decision is due. Or
nothing is known: the connection broke, or the server did; the write may have been made, or be made yet. As
long as nobody knows, the room it is about is neither given away nor given up: it is tried again until there
is an answer, however long that takes.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from shoal.api.meta import View
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
from shoal.kinds.pods import BROKEN_SINCE, DISRUPTION, EvictionRecord, doom_in
from shoal.scheduler.decisions import Bind, Evict, PatchJobStatus, PatchPod

T = TypeVar("T")


_USUAL_GRACE: Final = 30


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a write may take, and how often it is tried; times in seconds.

    A server that breaks over a write is asked `tries` times. One that does not answer is asked for ever.
    """

    answer: float = 30.0
    first: float = 0.2
    most: float = 10.0
    tries: int = 5


class _Metadata(View, frozen=True, kw_only=True):
    resource_version: str = ""


class _Headed(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_HEADED: Final = msgspec.json.Decoder(_Headed)


def version_of(text: Text) -> int:
    """The version of an object."""
    return version_number(_HEADED.decode(text).metadata.resource_version)


class Writes:
    """Makes writes. They raise ClusterError when the answer is no."""

    def __init__(
        self,
        cluster: Cluster,
        config: SchedulerConfig,
        clock: Callable[[], float],
        patience: Patience | None = None,
    ) -> None:
        self._cluster, self._config, self._clock = cluster, config, clock
        self._patience: Final = patience or Patience()

    def now(self) -> float:
        """The time that is written into objects."""
        return self._clock()

    async def bind(self, bind: Bind) -> None:
        """Give a pod its node. That it has that node already is as good."""
        namespace, name = bind.key
        try:
            await self._insist(lambda: self._cluster.bind(name, namespace, bind.node, uid=bind.uid))
        except ConflictError:
            if not await self._is_bound(bind):
                raise

    async def restate(self, write: PatchJobStatus) -> int:
        """Give a job its status; the version that says so.

        It is written on what it was read with: a request that is delivered a second time, when there is
        something newer, does no harm.
        """
        job = await self.amend(resource_of(write.kind), write.key, write.uid, lambda _: write.patch)
        return version_number(job["metadata"]["resourceVersion"])

    async def mark(self, mark: PatchPod) -> int:
        """Write on a pod; the version that says so."""
        version = 0
        if "broken_since" in mark.changes:
            since = mark.changes["broken_since"]
            text = None if since is None else format_time(since)
            patch = _meant(mark.uid, annotations={BROKEN_SINCE: text})
            version = await self._patch(mark, patch)
        if "nominated" in mark.changes:
            status = {"nominatedNodeName": mark.changes["nominated"] or None}
            version = await self._patch(mark, _meant(mark.uid) | {"status": status})
        return version

    async def evict(self, eviction: Evict) -> None:
        """Let a pod say why it must go, and delete it. One that is gone, or another by now, is done with."""
        namespace, name = eviction.key
        with suppress(NotFoundError, AnotherError):
            pod = await self.amend(PODS, eviction.key, eviction.uid, lambda pod: self._doomed(pod, eviction))
            how = Deletion(uid=eviction.uid, grace=self._grace(eviction, pod))
            await self._insist(lambda: self._cluster.delete(PODS.read_as(version_of), name, namespace, how))

    async def amend(
        self,
        resource: Resource[Object],
        where: tuple[str, str],
        uid: str,
        make: Callable[[Object], Object | None],
    ) -> Object:
        """Change a status that others write too: read it, and write it if it is still as it was read.

        `make` says what to patch, None for nothing. AnotherError if the object is not the one that is meant.
        """
        namespace, name = where
        for _ in range(self._patience.tries):
            thing = await self._insist(lambda: self._cluster.get(resource, name, namespace))
            if uid and thing["metadata"]["uid"] != uid:
                raise AnotherError(f"{resource.full_name} {namespace}/{name} is another one by now")
            status = make(thing)
            if status is None:
                return thing
            patch = {"metadata": {"resourceVersion": thing["metadata"]["resourceVersion"]}, "status": status}
            try:
                return await self._insist(
                    lambda: self._cluster.patch_status(resource, name, namespace, patch=patch)  # noqa: B023 - at once
                )
            except ConflictError:
                continue
        raise ConflictError(
            f"{resource.full_name} {namespace}/{name} is changed faster than it can be written"
        )

    async def _patch(self, mark: PatchPod, patch: Object) -> int:
        namespace, name = mark.key
        write = self._cluster.patch_status if "status" in patch else self._cluster.patch
        return await self._insist(lambda: write(PODS.read_as(version_of), name, namespace, patch=patch))

    async def _is_bound(self, bind: Bind) -> bool:
        """Whether a pod has the node that it is refused: then it was given it by an earlier try."""
        namespace, name = bind.key
        pod = await self._insist(lambda: self._cluster.get(PODS, name, namespace))
        return bool(pod["metadata"]["uid"] == bind.uid and pod["spec"].get("nodeName") == bind.node)

    def _doomed(self, pod: Object, eviction: Evict) -> Object | None:
        """The status of a pod that says why it must go; None if it says so, or goes anyway."""
        said = (c for c in pod.get("status", {}).get("conditions") or () if c["type"] == DISRUPTION)
        if pod["metadata"].get("deletionTimestamp") or any(doom_in(c.get("message", "")) for c in said):
            return None
        return {"conditions": with_condition(pod, disruption(eviction.doom), self._clock())}

    def _grace(self, eviction: Evict, pod: Object) -> int | None:
        """How long a pod may take to go; None for as long as it asks for itself."""
        most = self._config.reclaim_grace_period_seconds
        if eviction.doom.reason != "Reclaimed" or most is None:
            return None
        own: int = pod["spec"].get("terminationGracePeriodSeconds", _USUAL_GRACE)
        return min(math.ceil(most), own)

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until there is an answer."""
        patience, failures, broken = self._patience, 0, 0
        while True:
            try:
                async with asyncio.timeout(patience.answer):
                    return await attempt()
            except (TimeoutError, UnavailableError):
                later = None
            except (InternalError, TooManyRequestsError) as error:
                broken += 1
                if broken >= patience.tries:
                    raise
                later = error.retry_after
            wait = min(patience.first * 2.0 ** min(failures, 30), patience.most)
            failures += 1
            await asyncio.sleep(max(wait, min(later or 0.0, patience.most)))


class AnotherError(ClusterError):
    """Raised when the object that was meant is gone, and another has its name."""

    code = ConflictError.code
    reason = ConflictError.reason


def disruption(doom: EvictionRecord) -> Object:
    """The condition that tells a pod, and everybody else, why it must go."""
    rivals = doom.reason in ("Preempted", "Reclaimed")
    reason = "PreemptionByScheduler" if rivals else doom.reason
    return {"type": DISRUPTION, "status": "True", "reason": reason, "message": str(doom)}


def with_condition(thing: Object, condition: Object, now: float) -> list[Object] | None:
    """The conditions of an object with another one in its place; None if it says the same already."""
    conditions: list[Object] = thing.get("status", {}).get("conditions") or []
    before = next((one for one in conditions if one.get("type") == condition["type"]), None)
    if before is not None and condition.items() <= before.items():
        return None
    same = before is not None and (before.get("status"), before.get("reason")) == (
        condition["status"],
        condition.get("reason"),
    )
    since = before.get("lastTransitionTime") if before is not None and same else None
    made = {**(before or {}), **condition, "lastTransitionTime": since or format_time(now)}
    return [made if one is before else one for one in conditions] + ([] if before else [made])


def _meant(uid: str, **metadata: Any) -> Object:  # noqa: ANN401 - fields of metadata
    """What a patch must say so that no other object of the name is hit."""
    return {"metadata": ({"uid": uid} if uid else {}) | metadata}
