"""The host files of a job: a ConfigMap that the job's pods mount, with the hosts of each role.

One file for each role, one line for each pod that the job is to have, in the order of their indices:

    train-0.di-train.default.svc.cluster.local slots=1

This is the format that Open MPI, DeepSpeed and torchrun launchers read. When the job is resized the
controller writes the ConfigMap anew, and kubelets replace the files in running pods atomically.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from shoal.api.managed import ManagedConfigMap, ManagedMeta
from shoal.api.names import JOB_DIRECTORY, JOB_VOLUME
from shoal.cluster.patches.json_patch import make_merge_patch
from shoal.cluster.resources import CONFIG_MAPS, Object, Resource
from shoal.controllers.changes import Create, Patch, patch_object
from shoal.controllers.jobs.frameworks import host_file_name, processes_of
from shoal.controllers.jobs.names import uid_digits
from shoal.controllers.jobs.owners import JOB_UID, owner_reference

HostFiles = Mapping[str, str]
"""The text of each host file, by file name."""


class RoleHosts(msgspec.Struct, frozen=True):
    """The pods of a role that a job is to have: their hosts in order, and their pod spec."""

    hosts: Sequence[str]
    spec: Object


def host_files(roles: Mapping[str, RoleHosts]) -> HostFiles:
    """Return the host files of a job."""
    return {host_file_name(role): _host_file(pods) for role, pods in roles.items()}


def _host_file(pods: RoleHosts) -> str:
    slots = processes_of(pods.spec)
    return "".join(f"{host} slots={slots}\n" for host in pods.hosts)


def host_files_name(job: ManagedMeta, service: str) -> str:
    """Return the name of a job's ConfigMap: that of its service, and digits of its uid."""
    return f"{service}-{uid_digits(job.uid)}"


def host_file_write(
    resource: Resource[Any], job: ManagedMeta, service: str, files: HostFiles, found: ManagedConfigMap | None
) -> Create | Patch | None:
    """Return the write that makes a job's ConfigMap contain some files; None if it does."""
    if found is None:
        metadata = {
            "name": host_files_name(job, service),
            "namespace": job.namespace,
            "labels": {JOB_UID: job.uid},
            "ownerReferences": [owner_reference(resource, job)],
        }
        body = {"metadata": metadata, "data": dict(files)}
        return Create(resource=CONFIG_MAPS, body=body, owner=job.uid)
    if found.data == files:
        return None
    return patch_object(CONFIG_MAPS, found.metadata, make_merge_patch({"data": found.data}, {"data": files}))


def job_volume(config_map: str) -> Object:
    """Return the volume of a job's pods, with its host files."""
    return {"name": JOB_VOLUME, "projected": {"sources": [{"configMap": {"name": config_map}}]}}


JOB_MOUNT: Final[Object] = {"name": JOB_VOLUME, "mountPath": JOB_DIRECTORY, "readOnly": True}
"""The mount of that volume in every container."""
