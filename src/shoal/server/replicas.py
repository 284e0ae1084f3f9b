"""Addresses of replicas: computed from the stores when something has changed, and waited for.

The list of a job is kept until the job or one of its pods changes. Its version is a hash of the list, so that
a caller that waits for another list need not remember anything else, and may ask another server.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from shoal.api.managed import ManagedPod
from shoal.cluster.object_store import Key
from shoal.engine.config import SchedulerConfig
from shoal.kinds.base import ReplicaApi
from shoal.server.jobs import KindJobs, ServedJob, ServedJobs

_VERSION_BYTES: Final = 8


class ReplicaList(msgspec.Struct, frozen=True):
    """The addresses of a job's replicas, and the version of the list."""

    addresses: tuple[str, ...]
    version: str


class ReplicaLists:
    """The address lists of the jobs of one kind."""

    def __init__(
        self, jobs: ServedJobs, own: KindJobs, api: ReplicaApi[Any], config: SchedulerConfig
    ) -> None:
        self._jobs: Final = jobs
        self._api: Final = api
        self._config: Final = config
        self._lists: Final[dict[str, ReplicaList]] = {}
        self._waiting: Final[dict[str, set[asyncio.Event]]] = {}
        own.store.subscribe(self._job_changed)
        jobs.pods.subscribe(self._pod_changed)

    def of(self, job: ServedJob) -> ReplicaList:
        """Return the present list of a job that is in the store."""
        uid = job.metadata.uid
        known = self._lists.get(uid)
        if known is None:
            known = self._lists[uid] = make_list(self._api, job, self._jobs.pods_of(job), self._config)
        return known

    async def wait_for_change(self, uid: str, event: asyncio.Event) -> None:
        """Wait until the job with a uid or one of its pods changes, or the event is set otherwise."""
        waiting = self._waiting.setdefault(uid, set())
        waiting.add(event)
        try:
            await event.wait()
        finally:
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(uid, None)

    def wake_all(self) -> None:
        """End all waiting."""
        for uid in list(self._waiting):
            self._changed(uid)

    def _job_changed(self, _: Key, old: ServedJob | None, new: ServedJob | None) -> None:
        for job in (old, new):
            if job is not None:
                self._changed(job.metadata.uid)

    def _pod_changed(self, _: Key, old: ManagedPod | None, new: ManagedPod | None) -> None:
        for pod in (old, new):
            owner = pod.metadata.controller if pod is not None else None
            if owner is not None:
                self._changed(owner.uid)

    def _changed(self, uid: str) -> None:
        self._lists.pop(uid, None)
        for event in self._waiting.get(uid, ()):
            event.set()


def make_list(
    api: ReplicaApi[Any], job: ServedJob, pods: Sequence[ManagedPod], config: SchedulerConfig
) -> ReplicaList:
    """Return the list of a job with its own pods."""
    addresses = api.addresses(job, pods, config)
    text = msgspec.json.encode(addresses)
    return ReplicaList(addresses, hashlib.blake2b(text, digest_size=_VERSION_BYTES).hexdigest())
