"""What a controller of jobs looks at: a job with the objects that belong to it, taken from the stores.

Ownership is established by the uid in the controller owner reference, never by labels or names: pods of a
deleted job of the same name are not the job's own.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec

from shoal.api.managed import ManagedConfigMap, ManagedMeta, ManagedPod, ManagedService
from shoal.cluster.object_store import Key
from shoal.cluster.port import Selector
from shoal.cluster.resources import Resource
from shoal.controllers.changes import Changes
from shoal.controllers.jobs.host_files import host_files_name
from shoal.controllers.jobs.owners import JOB_UID
from shoal.controllers.jobs.tracking import is_tracked
from shoal.controllers.resources import CONFIG_MAP, POD, SERVICE
from shoal.controllers.runtime import Controller, Watch
from shoal.controllers.stores import Stores

_OF_JOBS: Final = Selector(labels=JOB_UID)
"""Config maps of jobs: others may be large and many."""

_WITHOUT_OWNER = "uid/"
"""Prefix of the keys of pods without an owner: no object has a name with a slash."""


class Job(Protocol):
    """A job as its controller reads it.

    The specs of all kinds have `suspend` and `ttl_seconds_after_finished`; the statuses have `conditions`,
    `counted`, `start_time`, `completion_timestamp` and `observed_generation`.
    """

    @property
    def metadata(self) -> ManagedMeta: ...
    @property
    def spec(self) -> Any: ...  # noqa: ANN401 - each kind has its own
    @property
    def status(self) -> Any: ...  # noqa: ANN401 - each kind has its own
    @property
    def phase(self) -> str | None:
        """The phase or stage; None if the job is new."""

    @property
    def clean_pod_policy(self) -> Literal["Running", "All", "None"]:
        """Which pods are deleted when the job has finished: those that have not finished, all, or none."""


J = TypeVar("J", bound=Job)


class JobView(msgspec.Struct, Generic[J], frozen=True, kw_only=True):
    """A job with its own pods, its service and its host files.

    `job` is None if only pods of a deleted job are left.
    """

    job: J | None
    pods: tuple[ManagedPod, ...] = ()
    orphans: tuple[ManagedPod, ...] = ()
    """Pods of a deleted job."""
    service: ManagedService | None = None
    hosts: ManagedConfigMap | None = None
    pod_named: Callable[[str], ManagedPod | None] = lambda _: None
    """Returns the pod of a name in the job's namespace, whatever its owner is."""


def job_controller(
    name: str,
    resource: Resource[J],
    service_name: Callable[[ManagedMeta], str],
    reconcile: Callable[[JobView[J], float], Changes],
    stores: Stores,
) -> Controller[JobView[J]]:
    """Return the controller of a kind of jobs, given its pure reconcile."""
    jobs, pods, services = stores.of(resource), stores.of(POD), stores.of(SERVICE)
    maps = stores.of(CONFIG_MAP, _OF_JOBS)

    def keys(one: ManagedPod | ManagedService | ManagedConfigMap) -> Iterator[Key]:
        return _job_keys(one, resource.kind)

    pods_by_job = pods.index(keys)

    def get_view(key: Key) -> JobView[J] | None:
        job, found = jobs.items.get(key), pods_by_job[key]
        if job is None:
            return JobView(job=None, orphans=tuple(found)) if found else None
        uid = job.metadata.uid
        own = tuple(pod for pod in found if is_controlled(pod, uid))
        name = service_name(job.metadata)
        service = services.items.get((key[0], name))
        hosts = maps.items.get((key[0], host_files_name(job.metadata, name)))
        return JobView(
            job=job,
            pods=own,
            orphans=tuple(pod for pod in found if not is_controlled(pod, uid))
            if len(own) < len(found)
            else (),
            service=service if service and is_controlled(service, uid) else None,
            hosts=hosts if hosts and is_controlled(hosts, uid) else None,
            pod_named=lambda name: pods.items.get((key[0], name)),
        )

    return Controller(
        name=name,
        resource=resource,
        get_view=get_view,
        reconcile=reconcile,
        watches=tuple(Watch(resource=one, keys=keys) for one in (POD, SERVICE, CONFIG_MAP)),
        size=lambda view: len(view.pods),
    )


def is_controlled(one: ManagedPod | ManagedService | ManagedConfigMap, uid: str) -> bool:
    """Return whether the object of a uid is the controller of another object."""
    owner = one.metadata.controller
    return owner is not None and owner.uid == uid


def _job_keys(one: Any, kind: str) -> Iterator[Key]:  # noqa: ANN401 - a pod, service or config map
    """Yield the key of the job of an object. A pod that lost its owner is found by the uid in its label."""
    owner = one.metadata.controller
    if owner is not None:
        if owner.kind == kind:
            yield one.metadata.namespace, owner.name
    elif is_tracked(one) and JOB_UID in one.metadata.labels:
        yield one.metadata.namespace, f"{_WITHOUT_OWNER}{one.metadata.labels[JOB_UID]}"
