"""The pods of a job and its headless service, as they are created."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from shoal.api.managed import ManagedMeta
from shoal.api.names import JOB_DIRECTORY, TRACKING_FINALIZER
from shoal.api.podspec import Template
from shoal.api.pool import POOL_ANNOTATION
from shoal.cluster.events import ObjectEvent, ObjectReference
from shoal.cluster.resources import PODS, SERVICES, Object, Resource
from shoal.controllers.changes import Create
from shoal.controllers.jobs.ends import ATTEMPT
from shoal.controllers.jobs.frameworks import Member, member_variables
from shoal.controllers.jobs.host_files import JOB_MOUNT, host_files_name, job_volume
from shoal.controllers.jobs.names import qualified_host
from shoal.controllers.jobs.owners import JOB_UID, owner_reference
from shoal.engine.config import SchedulerConfig

_ANY_SCHEDULER: Final = "*"
_DEFAULT_SCHEDULER: Final = "shoal"
_SHOWN_NAMES: Final = 3
"""Names of pods that an Event lists."""


class NewPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is to be created: what its job adds to a template.

    `env` takes precedence over the variables of the template; those that follow from `member` do not.
    """

    name: str
    host: str
    service: str
    template: Template
    member: Member
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    env: Sequence[tuple[str, str]]
    attempt: int = 1
    volumes: Sequence[Object] = ()


def create_pod(resource: Resource[Any], job: ManagedMeta, pod: NewPod, config: SchedulerConfig) -> Create:
    """Return the creation of a pod for a job. What Shoal sets takes precedence over the template."""
    template = pod.template.get("metadata") or {}
    annotations = dict(template.get("annotations") or {})
    if POOL_ANNOTATION in job.annotations:
        annotations.setdefault(POOL_ANNOTATION, job.annotations[POOL_ANNOTATION])
    others = [one for one in template.get("finalizers") or () if one != TRACKING_FINALIZER]
    metadata = {
        "name": pod.name,
        "namespace": job.namespace,
        "labels": {**(template.get("labels") or {}), **pod.labels, JOB_UID: job.uid},
        "annotations": annotations | dict(pod.annotations) | {ATTEMPT: str(pod.attempt)},
        "finalizers": [*others, TRACKING_FINALIZER],
        "ownerReferences": [owner_reference(resource, job)],
    }
    return Create(resource=PODS, body={"metadata": metadata, "spec": _spec(job, pod, config)}, owner=job.uid)


def create_service(resource: Resource[Any], job: ManagedMeta, name: str) -> Create:
    """Return the creation of a job's headless service: its pods have names before they are ready."""
    body = {
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {JOB_UID: job.uid},
            "ownerReferences": [owner_reference(resource, job)],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {JOB_UID: job.uid}},
    }
    return Create(resource=SERVICES, body=body, owner=job.uid)


def is_ours(template: Template, config: SchedulerConfig) -> bool:
    """Return whether Shoal schedules the pods of a template; one that names no scheduler counts."""
    name = (template.get("spec") or {}).get("schedulerName")
    return not name or config.schedules(name)


def _spec(job: ManagedMeta, pod: NewPod, config: SchedulerConfig) -> Object:
    spec = dict(pod.template.get("spec") or {})
    first = config.scheduler_names[0]
    spec.setdefault("schedulerName", _DEFAULT_SCHEDULER if first == _ANY_SCHEDULER else first)
    if spec.get("hostNetwork"):
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    spec |= {"restartPolicy": "Never", "hostname": pod.host, "subdomain": pod.service}
    own = {volume.get("name") for volume in spec.get("volumes") or ()}
    added = (*pod.volumes, job_volume(host_files_name(job, pod.service)))
    spec["volumes"] = [
        *(spec.get("volumes") or ()),
        *(volume for volume in added if volume.get("name") not in own),
    ]
    host = qualified_host(pod.host, pod.service, job.namespace)
    defaults = _variables(member_variables(job, pod.member, host, spec).items())
    variables = _variables(pod.env)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_with_job(container, defaults, variables) for container in spec[field]]
    return spec


def _variables(pairs: Iterable[tuple[str, str]]) -> list[Object]:
    return [{"name": name, "value": value} for name, value in pairs]


def _with_job(container: Object, defaults: list[Object], variables: list[Object]) -> Object:
    """Return a container with the volume and the variables of its job.

    Of two variables of a name the last counts. A mount of the user at the same place counts, too.
    """
    env, mounts = container.get("env") or (), container.get("volumeMounts") or ()
    known = {variable.get("name") for variable in env}
    before = [variable for variable in defaults if variable["name"] not in known]
    is_taken = any(mount.get("mountPath", "").rstrip("/") == JOB_DIRECTORY for mount in mounts)
    added = {"env": [*before, *env, *variables]}
    return container | added | ({} if is_taken else {"volumeMounts": [*mounts, JOB_MOUNT]})


def pod_events(regarding: ObjectReference, verb: str, names: Sequence[str]) -> Iterator[ObjectEvent]:
    """Yield one Event about all pods that were created or deleted: `Created 5 pods: a-0, a-1, a-2, …`."""
    if not names:
        return
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
    text = f"{verb} pod: {shown}" if len(names) == 1 else f"{verb} {len(names)} pods: {shown}"
    yield ObjectEvent(regarding=regarding, reason=f"Successful{verb.removesuffix('d')}", message=text)
