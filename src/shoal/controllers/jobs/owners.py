"""How the objects of a job are marked as its own: the controller owner reference, and a label."""

from typing import Any, Final

from shoal.api.managed import ManagedMeta
from shoal.cluster.resources import Object, Resource

JOB_UID: Final = "shoal.io/job-uid"
"""Label of all objects of a job; its service selects pods by it."""


def owner_reference(resource: Resource[Any], job: ManagedMeta) -> Object:
    """Return the owner reference of an object that a job controls."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
