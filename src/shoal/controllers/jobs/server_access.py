"""Access of a job's pods to the server: a secret with the job's token, and variables that refer to it.

It is added to the changes that a controller has decided on, so that no reconcile depends on a server. The
secret is created before the pods. It is not read back: an existing one has the same token. It is deleted
before the service when a job has finished, so that the service, while there is one, stands for both.
"""

import base64
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from shoal.api.managed import ManagedMeta
from shoal.cluster.resources import PODS, SECRETS, SERVICES, Object, Resource
from shoal.controllers.changes import Changes, Create, Delete, Write
from shoal.controllers.jobs.owners import JOB_UID, owner_reference
from shoal.controllers.jobs.tokens import TOKEN_FIELD, job_token, token_secret_name
from shoal.controllers.runtime import Controller

_CONTAINERS: Final = ("initContainers", "containers")

Stage = tuple[Write, ...]


class ServerAccess(msgspec.Struct, frozen=True):
    """What controllers need to give pods access to the server: its URL, and the key of job tokens."""

    url: str
    key: bytes

    def __repr__(self) -> str:
        """Leave out the key, so that no log or traceback shows it."""
        return f"ServerAccess({self.url!r})"


class ViewOfJob(Protocol):
    """What a controller looks at; `job` is None if it was deleted."""

    @property
    def job(self) -> Any:  # noqa: ANN401 - each kind has its own
        """The job, with its `metadata`."""


def with_server_access(controller: Controller[Any], access: ServerAccess) -> Controller[Any]:
    """Return a controller that also gives the pods that it creates access to the server."""
    return replace(controller, reconcile=partial(_reconcile, controller, access))


def _reconcile(controller: Controller[Any], access: ServerAccess, view: ViewOfJob, now: float) -> Changes:
    changes = controller.reconcile(view, now)
    if view.job is None:
        return changes
    return give_access(changes, controller.resource, view.job.metadata, access)


def give_access(changes: Changes, resource: Resource[Any], job: ManagedMeta, access: ServerAccess) -> Changes:
    """Return changes with the secret of a job, and pods that use it."""
    stages: list[Stage] = []
    for stage in changes.stages:
        if any(map(_creates_pod, stage)):
            stages.append((_create_secret(resource, job, access),))
        if any(map(_deletes_service, stage)):
            name = token_secret_name(job)
            stages.append((Delete(resource=SECRETS, name=name, namespace=job.namespace),))
        stages.append(tuple(_with_access(write, job, access) for write in stage))
    return replace(changes, stages=tuple(stages))


def _creates_pod(write: Write) -> bool:
    return isinstance(write, Create) and write.resource.full_name == PODS.full_name


def _deletes_service(write: Write) -> bool:
    return isinstance(write, Delete) and write.resource.full_name == SERVICES.full_name


def _create_secret(resource: Resource[Any], job: ManagedMeta, access: ServerAccess) -> Create:
    token = job_token(access.key, job.uid)
    body = {
        "metadata": {
            "name": token_secret_name(job),
            "namespace": job.namespace,
            "labels": {JOB_UID: job.uid},
            "ownerReferences": [owner_reference(resource, job)],
        },
        "type": "Opaque",
        "data": {TOKEN_FIELD: base64.b64encode(token.encode()).decode()},
    }
    return Create(resource=SECRETS, body=body, owner=job.uid)


def _with_access(write: Write, job: ManagedMeta, access: ServerAccess) -> Write:
    """Return the creation of a pod with the variables in all its containers; other writes as they are."""
    if not isinstance(write, Create) or not _creates_pod(write):
        return write
    spec, variables = write.body["spec"], list(_variables(job, access))
    changed = {
        field: [one | {"env": [*(one.get("env") or ()), *variables]} for one in spec[field]]
        for field in _CONTAINERS
        if spec.get(field)
    }
    return replace(write, body=write.body | {"spec": spec | changed})


def _variables(job: ManagedMeta, access: ServerAccess) -> Iterator[Object]:
    reference = {"name": token_secret_name(job), "key": TOKEN_FIELD}
    yield {"name": "DI_SERVER_URL", "value": access.url}
    yield {"name": "DI_SERVER_TOKEN", "valueFrom": {"secretKeyRef": reference}}
