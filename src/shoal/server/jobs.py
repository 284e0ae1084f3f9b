"""The jobs that the server knows, kept up to date by reflectors, and the one way in which it changes them.

Reading needs no request to the cluster. A job that is not known yet, because the watch lags behind, is looked
up once. A change is one write of the status with the version that was read; if the job has changed since, it
is read and the change decided again. So changes by several servers, or by one that was killed, add up.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from shoal.api.managed import ManagedMeta, ManagedPod
from shoal.api.meta import View
from shoal.cluster.errors import ClusterError, ConflictError, NotFoundError, UnavailableError
from shoal.cluster.object_store import Key, version_number
from shoal.cluster.port import Cluster, Selector
from shoal.cluster.reflector import Reflector
from shoal.cluster.resources import Object, Resource, resource_of
from shoal.controllers.jobs.owners import JOB_UID
from shoal.controllers.resources import POD, reader
from shoal.controllers.stores import IndexedStore
from shoal.kinds.base import JobKind
from shoal.server.own_requests import own_request

_MAX_ATTEMPTS: Final = 1000
"""Attempts of one change. Each failure means that some other write succeeded in between."""


class ReportedStatus(View, frozen=True, kw_only=True):
    """What is common to the status of all kinds whose workers report to the server."""

    profilings: dict[str, Any] = {}
    generation: int | None = None


class ReportedJob(View, frozen=True, kw_only=True):
    """A job of a kind that has no replica API: only reports are of interest."""

    metadata: ManagedMeta
    status: ReportedStatus = ReportedStatus()


class ServedStatus(Protocol):
    """The status of a served job."""

    @property
    def profilings(self) -> dict[str, Any]:
        """What the workers reported."""

    @property
    def generation(self) -> int | None:
        """Number of restarts of ranks, where a kind counts them."""


class ServedJob(Protocol):
    """A job as the server reads it: of the view that its kind names."""

    @property
    def metadata(self) -> ManagedMeta:
        """Identity and version."""

    @property
    def status(self) -> ServedStatus:
        """At least the reports."""


class JobGoneError(Exception):
    """Raised when a job was deleted, or deleted and recreated, while it was being changed."""


class KindJobs:
    """The jobs of one kind."""

    def __init__(self, kind: JobKind[Any], cluster: Cluster) -> None:
        api = kind.replica_api
        self.kind: Final = kind
        view: type[Any] = api.view if api else ReportedJob
        self._resource: Final[Resource[ServedJob]] = resource_of(kind.kind).read_as(reader(view))
        self._cluster: Final = cluster
        self.store: Final = IndexedStore[ServedJob]()
        self._by_uid: Final = self.store.index(lambda job: (job.metadata.uid,))
        self._written: Final[dict[Key, ServedJob]] = {}
        """Results of own writes that the watch has not reported yet."""
        self._locks: Final = WeakValueDictionary[str, asyncio.Lock]()
        self.reflector: Final = Reflector(cluster, self._resource, self.store)
        self.store.subscribe(self._reported)

    def by_uid(self, uid: str) -> ServedJob | None:
        """Return the job with a uid, if the watch has reported it."""
        return next(iter(self._by_uid[uid]), None)

    async def find(self, key: Key) -> ServedJob | None:
        """Return a job; one that the watch has not reported is looked up."""
        return self.store.items.get(key) or await self.read(key)

    async def read(self, key: Key) -> ServedJob | None:
        """Return a job as the cluster has it now."""
        try:
            with own_request("the job cannot be read"):
                return await self._cluster.get(self._resource, key[1], key[0])
        except NotFoundError:
            return None

    async def present(self, job: ServedJob) -> ServedJob:
        """Return the present state of a job; JobGoneError if it no longer exists."""
        return self.by_uid(job.metadata.uid) or await self.read_again(job)

    async def change(self, job: ServedJob, decide: Callable[[ServedJob], Object]) -> ServedJob:
        """Patch the status of a job as `decide` says for its newest state, in one write; {} changes nothing.

        Raises what `decide` raises, without a write; JobGoneError if the job no longer exists.
        """
        lock = self._locks.setdefault(job.metadata.uid, asyncio.Lock())
        async with lock:  # the calls of one server need not conflict with each other
            return await self._change(self._newest(job), decide)

    async def _change(self, job: ServedJob, decide: Callable[[ServedJob], Object]) -> ServedJob:
        """Decide and write until the write succeeds.

        A write fails if its decision was made for an old state. So must a decision not to write: it is made
        again for the state that the cluster has.
        """
        try:
            patch = decide(job)
        except ClusterError:
            patch = {}
        for _ in range(_MAX_ATTEMPTS):
            changed = await self._try_write(job, patch) if patch else None
            if changed is not None:
                return changed
            job = await self.read_again(job)
            patch = decide(job)
            if not patch:
                return job
        raise UnavailableError(
            f"{self.kind.kind} {'/'.join(key_of(job))} changes all the time: try again later"
        )

    async def _try_write(self, job: ServedJob, patch: Object) -> ServedJob | None:
        """Patch the status of a job; None if the job has changed since it was read."""
        try:
            changed = await self._write(job, patch)
        except ConflictError:
            return None
        if _version(changed) > self.store.version(key_of(job)):
            self._written[key_of(job)] = changed
        return changed

    async def _write(self, job: ServedJob, patch: Object) -> ServedJob:
        meta = job.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": patch}
        try:
            with own_request("the job cannot be changed"):
                return await self._cluster.patch_status(self._resource, meta.name, meta.namespace, patch=body)
        except NotFoundError:
            raise JobGoneError from None

    async def read_again(self, job: ServedJob) -> ServedJob:
        """Return a job as the cluster has it now; JobGoneError if it no longer exists."""
        found = await self.read(key_of(job))
        if found is None or found.metadata.uid != job.metadata.uid:
            raise JobGoneError
        return found

    def _newest(self, job: ServedJob) -> ServedJob:
        """Return the newest known state of a job."""
        known = (self.store.items.get(key_of(job)), self._written.get(key_of(job)))
        same = (one for one in known if one is not None and one.metadata.uid == job.metadata.uid)
        return max((job, *same), key=_version)

    def _reported(self, key: Key, _: ServedJob | None, new: ServedJob | None) -> None:
        written = self._written.get(key)
        if written is None:
            return
        if new is None or new.metadata.uid != written.metadata.uid or _version(new) >= _version(written):
            del self._written[key]


class ServedJobs:
    """All jobs that are served, of all kinds, and their pods."""

    def __init__(self, kinds: list[JobKind[Any]], cluster: Cluster) -> None:
        self.kinds: Final = {kind.plural: KindJobs(kind, cluster) for kind in kinds}
        self.pods: Final = IndexedStore[ManagedPod]()
        self._pods_by_job: Final = self.pods.index(_uids_of_job)
        pods = Reflector(cluster, POD, self.pods, Selector(labels=JOB_UID))
        self._reflectors: Final[tuple[Reflector[Any], ...]] = (
            *(jobs.reflector for jobs in self.kinds.values()),
            pods,
        )

    def by_uid(self, uid: str) -> tuple[KindJobs, ServedJob] | None:
        """Return the job with a uid, with those of its kind, if the watch has reported it."""
        found = ((jobs, jobs.by_uid(uid)) for jobs in self.kinds.values())
        return next(((jobs, job) for jobs, job in found if job is not None), None)

    def pods_of(self, job: ServedJob) -> list[ManagedPod]:
        """Return the own pods of a job."""
        return self._pods_by_job[job.metadata.uid]

    async def run(self) -> None:
        """Follow all collections until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Wait until all collections have been listed."""
        for reflector in self._reflectors:
            await reflector.synced.wait()

    @property
    def is_synced(self) -> bool:
        """Whether all collections have been listed."""
        return all(reflector.synced.is_set() for reflector in self._reflectors)

    @property
    def troubles(self) -> list[str]:
        """The current errors of watches; a kind that is not installed is none."""
        errors = (reflector.last_error for reflector in self._reflectors)
        return [one.message for one in errors if one is not None and not isinstance(one, NotFoundError)]


def _uids_of_job(pod: ManagedPod) -> Iterator[str]:
    owner = pod.metadata.controller
    if owner is not None:
        yield owner.uid


def key_of(job: ServedJob) -> Key:
    """Return namespace and name of a job."""
    return job.metadata.namespace, job.metadata.name


def _version(job: ServedJob) -> int:
    return version_number(job.metadata.resource_version)
