"""Access of a job's pods to the server: a secret with the job's token, and variables and files with it.

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
from shoal.api.names import JOB_DIRECTORY, JOB_VOLUME
from shoal.cluster.resources import PODS, SECRETS, SERVICES, Object, Resource
from shoal.controllers.changes import Changes, Create, Delete, Write
from shoal.controllers.jobs.owners import JOB_UID, owner_reference
from shoal.controllers.jobs.tokens import TOKEN_FIELD, job_token, token_secret_name
from shoal.controllers.runtime import Controller

_CONTAINERS: Final = ("initContainers", "containers")
_AUTHORITY: Final = "ca.crt"
"""Field of a job's secret, and file, that has the certificates to trust."""

Stage = tuple[Write, ...]


class ServerAccess(msgspec.Struct, frozen=True):
    """What controllers need to give pods access to the server: its URL, and the key of job tokens.

    `authority` has the certificates (PEM) that pods have to trust; empty if the system's are enough.
    """

    url: str
    key: bytes
    authority: bytes = b""

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
        stages.append(tuple(_with_access(write, resource, job, access) for write in stage))
    return replace(changes, stages=tuple(stages))


def _creates_pod(write: Write) -> bool:
    return isinstance(write, Create) and write.resource.full_name == PODS.full_name


def _deletes_service(write: Write) -> bool:
    return isinstance(write, Delete) and write.resource.full_name == SERVICES.full_name


def _create_secret(resource: Resource[Any], job: ManagedMeta, access: ServerAccess) -> Create:
    data = {TOKEN_FIELD: job_token(access.key, job.uid).encode(), _AUTHORITY: access.authority}
    body = {
        "metadata": {
            "name": token_secret_name(job),
            "namespace": job.namespace,
            "labels": {JOB_UID: job.uid},
            "ownerReferences": [owner_reference(resource, job)],
        },
        "type": "Opaque",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items() if value},
    }
    return Create(resource=SECRETS, body=body, owner=job.uid)


# --- pods --------------------------------------------------------------------------------------------------


def _with_access(write: Write, resource: Resource[Any], job: ManagedMeta, access: ServerAccess) -> Write:
    """Return the creation of a pod with variables in all its containers, and files; others as they are."""
    if not isinstance(write, Create) or not _creates_pod(write):
        return write
    spec, secret = write.body["spec"], token_secret_name(job)
    added = {"volumes": [_with_files(volume, secret) for volume in spec.get("volumes") or ()]}
    defaults = dict(_trainer_variables(resource, job, access))
    for field in _CONTAINERS:
        if spec.get(field):
            added[field] = [_with_variables(one, defaults, access, secret) for one in spec[field]]
    return replace(write, body=write.body | {"spec": spec | added})


def _with_files(volume: Object, secret: str) -> Object:
    """Return the job's volume with the files of a secret; other volumes as they are.

    The secret is optional here, as pods that are kept outlive it. A container does not start without it: its
    variable needs it.
    """
    if volume.get("name") != JOB_VOLUME or "projected" not in volume:
        return volume
    source = {"secret": {"name": secret, "optional": True}}
    return volume | {"projected": {"sources": [*volume["projected"]["sources"], source]}}


def _with_variables(container: Object, defaults: Object, access: ServerAccess, secret: str) -> Object:
    """Return a container with ours after the user's variables, so that ours win, and with defaults before."""
    own = container.get("env") or ()
    known = {variable.get("name") for variable in own}
    before = [{"name": name, "value": value} for name, value in defaults.items() if name not in known]
    reference = {"name": secret, "key": TOKEN_FIELD}
    token = {"name": "DI_SERVER_TOKEN", "valueFrom": {"secretKeyRef": reference}}
    return container | {"env": [*before, *own, {"name": "DI_SERVER_URL", "value": access.url}, token]}


def _trainer_variables(
    resource: Resource[Any], job: ManagedMeta, access: ServerAccess
) -> Iterator[tuple[str, str]]:
    """Yield the variables by which trainers of Hugging Face and Kubeflow report by themselves."""
    path = f"/v1/{resource.plural}/{job.namespace}/{job.name}/trainer-status"
    yield "KUBEFLOW_TRAINER_SERVER_URL", access.url + path
    yield "KUBEFLOW_TRAINER_SERVER_TOKEN", f"{JOB_DIRECTORY}/{TOKEN_FIELD}"
    if access.authority:
        yield "KUBEFLOW_TRAINER_SERVER_CA_CERT", f"{JOB_DIRECTORY}/{_AUTHORITY}"
