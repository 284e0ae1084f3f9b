"""What a reconcile decides: plain data, which the `Applier` performs.

Writes come in stages. The writes of one stage are made concurrently; the next stage begins when all of them
have been made. A crash between any two writes is harmless if the stages are in the right order: first the
record of what happened, then the actions that make the recorded object superfluous.
"""

from typing import Any, Final

import msgspec

from shoal.api.managed import ManagedMeta
from shoal.cluster.events import ObjectEvent, ObjectReference
from shoal.cluster.object_store import Key
from shoal.cluster.patches.json_patch import make_merge_patch
from shoal.cluster.port import DEFAULT_DELETION, Deletion, Propagation
from shoal.cluster.resources import Object, Resource


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """Create an object for its owner. An existing object with the same controller counts as success."""

    resource: Resource[Any]
    body: Object
    owner: str
    """The uid of the controller in its owner references."""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """Patch an object; with a version, only if it still has that version. A deleted object is success."""

    resource: Resource[Any]
    name: str
    namespace: str = ""
    patch: Object
    version: str = ""


class PatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Patch a status; with a version, only if the object still has it: where a lost update would matter."""

    resource: Resource[Any]
    name: str
    namespace: str = ""
    patch: Object
    version: str = ""


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete an object. The deletion names the uid, so that a recreated object of the name is left alone."""

    resource: Resource[Any]
    name: str
    namespace: str = ""
    deletion: Deletion = DEFAULT_DELETION


class RequireAbsent(msgspec.Struct, frozen=True, kw_only=True):
    """Go on only if an object does not exist: the view lacks it, and may be stale."""

    resource: Resource[Any]
    name: str
    namespace: str = ""


Write = Create | Patch | PatchStatus | Delete | RequireAbsent


class NameWait(msgspec.Struct, frozen=True):
    """A name that has to become free: the deletion of its object causes another reconcile."""

    resource: str
    """Full name of the resource."""
    key: Key


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a reconcile: writes, Events, and when to reconcile again if nothing happens before."""

    regarding: ObjectReference | None = None
    """The object whose Events report writes that the API server refuses."""
    stages: tuple[tuple[Write, ...], ...] = ()
    events: tuple[ObjectEvent, ...] = ()
    requeue_at: float | None = None
    """In seconds since 1970, by the clock that `now` came from."""
    waits_for: tuple[NameWait, ...] = ()


NO_CHANGES: Final = Changes()


# --- builders ----------------------------------------------------------------------------------------------


def reference_to(resource: Resource[Any], metadata: ManagedMeta) -> ObjectReference:
    """Return the reference by which Events name an object."""
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
    )


def patch_object(resource: Resource[Any], metadata: ManagedMeta, patch: Object) -> Patch:
    """Return a patch of an object in the version that was read."""
    return Patch(
        resource=resource,
        name=metadata.name,
        namespace=metadata.namespace,
        patch=patch,
        version=metadata.resource_version,
    )


def patch_status_of(resource: Resource[Any], metadata: ManagedMeta, status: Object) -> PatchStatus:
    """Return a patch of the status of an object in the version that was read."""
    return PatchStatus(
        resource=resource,
        name=metadata.name,
        namespace=metadata.namespace,
        patch={"status": status},
        version=metadata.resource_version,
    )


def delete_object(
    resource: Resource[Any],
    metadata: ManagedMeta,
    *,
    grace: int | None = None,
    propagation: Propagation | None = None,
) -> Delete:
    """Return a deletion of an object, but not of a later one of the same name."""
    return Delete(
        resource=resource,
        name=metadata.name,
        namespace=metadata.namespace,
        deletion=Deletion(uid=metadata.uid, grace=grace, propagation=propagation),
    )


def earliest(*times: float | None) -> float | None:
    """Return the earliest of some times, ignoring those that are None."""
    return min((time for time in times if time is not None), default=None)


def status_patch(old: msgspec.Struct, new: msgspec.Struct) -> Object:
    """Return the merge patch between two views of a status; fields that the views do not have are kept.

    A key that a mapping no longer has is set to null, which removes it.
    """
    return {} if old == new else make_merge_patch(msgspec.to_builtins(old), msgspec.to_builtins(new))
