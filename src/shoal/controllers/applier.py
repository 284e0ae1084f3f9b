"""Performs changes through the port: the impure half of every controller.

Each write is idempotent, so that a controller that was killed between two writes can start again. An object
that is already in the wanted state counts as success. A conflict means that the view was stale: the remaining
stages are skipped, and the key is reconciled again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from shoal.api.meta import OwnerReference, View
from shoal.cluster.errors import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from shoal.cluster.object_store import Key, version_number
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Object, Resource, Text
from shoal.controllers.changes import (
    Create,
    Delete,
    NameWait,
    Patch,
    PatchStatus,
    RequireAbsent,
    Write,
)


class RefusedWriteError(ClusterError):
    """Raised when the API server refuses a write, and a retry does not cure that: an Event tells users.

    `event` is the reason of that Event. `wait` is the name that has to become free, if that is the cause.
    """

    def __init__(self, message: str, event: str, wait: NameWait | None = None) -> None:
        super().__init__(message)
        self.event: Final = event
        self.wait: Final = wait


class AppliedWrite(NamedTuple):
    """A created object or a patched status: the stores are expected to show this version or a later one."""

    resource: str
    key: Key
    version: int


class _Metadata(View, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()


class _MetadataOnly(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_DECODER: Final = msgspec.json.Decoder(_MetadataOnly)


def _metadata(text: Text) -> _Metadata:
    return _DECODER.decode(text).metadata


class Applier:
    """Makes the writes of controllers, at most `max_concurrent` at the same time."""

    def __init__(self, cluster: Cluster, *, max_concurrent: int = 16) -> None:
        self._cluster: Final = cluster
        self._slots: Final = asyncio.Semaphore(max_concurrent)

    async def apply(
        self, stages: Iterable[Iterable[Write]], on_applied: Callable[[AppliedWrite], None]
    ) -> None:
        """Make all writes, stage by stage, and report those that stores will show.

        Raises the ClusterError of the first write that failed, after the others of its stage were tried.
        """
        for stage in stages:
            for outcome in await asyncio.gather(
                *(self._apply_one(write, on_applied) for write in stage), return_exceptions=True
            ):
                if outcome is not None:
                    raise outcome

    async def current_version(self, resource: Resource[Any], key: Key) -> int:
        """Return the version that an object has now; -1 if it does not exist."""
        try:
            metadata = await self._cluster.get(resource.read_as(_metadata), key[1], key[0])
        except NotFoundError:
            return -1
        return version_number(metadata.resource_version)

    async def _apply_one(self, write: Write, on_applied: Callable[[AppliedWrite], None]) -> None:
        async with self._slots:
            try:
                applied = await self._perform(write)
            except (InvalidError, ForbiddenError) as error:
                raise _refused(write, error) from error
        if applied:
            on_applied(applied)

    def _perform(self, write: Write) -> Coroutine[Any, Any, AppliedWrite | None]:
        match write:
            case Create():
                return self._create(write)
            case Patch():
                return self._patch(write)
            case PatchStatus():
                return self._patch_status(write)
            case Delete():
                return self._delete(write)
            case RequireAbsent():
                return self._require_absent(write)

    async def _create(self, write: Create) -> AppliedWrite:
        resource = write.resource.read_as(_metadata)
        try:
            return _applied(resource, await self._cluster.create(resource, write.body))
        except AlreadyExistsError:
            metadata = write.body["metadata"]
            found = await self._cluster.get(resource, metadata["name"], metadata.get("namespace", ""))
        if not any(owner.controller and owner.uid == write.owner for owner in found.owner_references):
            key = found.namespace, found.name
            name = f"{resource.kind} {'/'.join(key)}"
            text = f"{name} exists already and has another owner: delete or rename it"
            raise RefusedWriteError(text, "NameTaken", NameWait(resource.full_name, key))
        return _applied(resource, found)

    async def _patch(self, write: Patch) -> None:
        with suppress(NotFoundError):
            await self._cluster.patch(
                write.resource.read_as(_metadata),
                write.name,
                write.namespace,
                patch=_with_version(write.patch, write.version),
            )

    async def _patch_status(self, write: PatchStatus) -> AppliedWrite:
        resource = write.resource.read_as(_metadata)
        patch = _with_version(write.patch, write.version)
        return _applied(
            resource, await self._cluster.patch_status(resource, write.name, write.namespace, patch=patch)
        )

    async def _delete(self, write: Delete) -> None:
        """Delete an object; one that is gone, or was deleted and recreated, is done."""
        with suppress(NotFoundError, ConflictError):
            await self._cluster.delete(
                write.resource.read_as(_metadata), write.name, write.namespace, write.deletion
            )

    async def _require_absent(self, write: RequireAbsent) -> None:
        with suppress(NotFoundError):
            await self._cluster.get(write.resource.read_as(_metadata), write.name, write.namespace)
            raise ConflictError(f"{write.resource.full_name} {write.name} exists: the view is stale")


def _refused(write: Write, error: ClusterError) -> RefusedWriteError:
    """Return the error of a write that was refused for good."""
    verb = {Create: "Create", Delete: "Delete"}.get(type(write), "Update")
    name = write.body["metadata"]["name"] if isinstance(write, Create) else write.name
    text = f"{verb} {write.resource.full_name} {name}: {error.message}"
    return RefusedWriteError(text, f"Failed{verb}")


def _with_version(patch: Object, version: str) -> Object:
    """Return the patch with a resource version as precondition, if one is given."""
    if not version:
        return patch
    return patch | {"metadata": patch.get("metadata", {}) | {"resourceVersion": version}}


def _applied(resource: Resource[Any], metadata: _Metadata) -> AppliedWrite:
    return AppliedWrite(
        resource.full_name,
        (metadata.namespace, metadata.name),
        version_number(metadata.resource_version),
    )
