"""Performs changes through the port: the impure half of every controller.

Each write can be made twice without harm, so that whoever is killed between two of them may begin anew. What
is already as it should be is a success. A conflict means that the view was old: nothing later is done, and
the key is looked at again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from shoal.api.meta import OwnerReference, View
from shoal.cluster.errors import AlreadyExistsError, ClusterError, ConflictError, NotFoundError
from shoal.cluster.object_store import Key, number
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Object, Resource, Text
from shoal.controllers.changes import Create, Delete, Patch, PatchStatus, Write


class NameTakenError(ClusterError):
    """Raised when an object cannot be made because somebody else's has its name."""

    code = AlreadyExistsError.code
    reason = "NameTaken"


class Written(NamedTuple):
    """An object that was made, or whose status was: the caches are to show it, or what became of it later."""

    resource: str
    key: Key
    version: int


class _Metadata(View, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()


class _Headed(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_HEADED: Final = msgspec.json.Decoder(_Headed)


def _head(text: Text) -> _Metadata:
    return _HEADED.decode(text).metadata


class Shell:
    """Makes the writes of controllers, so many at once at most."""

    def __init__(self, cluster: Cluster, *, at_once: int = 16) -> None:
        self._cluster: Final = cluster
        self._at_once: Final = asyncio.Semaphore(at_once)

    async def apply(self, stages: Iterable[Iterable[Write]], wrote: Callable[[Written], None]) -> None:
        """Make all writes, stage by stage, and tell what was written.

        ClusterError of the first write that failed, when the others of its stage have been tried.
        """
        for stage in stages:
            for outcome in await asyncio.gather(
                *(self._one(write, wrote) for write in stage), return_exceptions=True
            ):
                if outcome is not None:
                    raise outcome

    async def version(self, resource: Resource[Any], key: Key) -> int:
        """The version that an object has now; -1 if it is not there."""
        try:
            return number((await self._cluster.get(resource.read_as(_head), key[1], key[0])).resource_version)
        except NotFoundError:
            return -1

    async def _one(self, write: Write, wrote: Callable[[Written], None]) -> None:
        async with self._at_once:
            written = await self._performed(write)
        if written:
            wrote(written)

    def _performed(self, write: Write) -> Coroutine[Any, Any, Written | None]:
        match write:
            case Create():
                return self._create(write)
            case Patch():
                return self._patch(write)
            case PatchStatus():
                return self._patch_status(write)
            case Delete():
                return self._delete(write)

    async def _create(self, write: Create) -> Written:
        resource = write.resource.read_as(_head)
        try:
            return _written(resource, await self._cluster.create(resource, write.body))
        except AlreadyExistsError:
            metadata = write.body["metadata"]
            found = await self._cluster.get(resource, metadata["name"], metadata.get("namespace", ""))
        if not any(owner.controller and owner.uid == write.owner for owner in found.owner_references):
            name = f"{resource.full_name} {found.namespace}/{found.name}"
            raise NameTakenError(f"{name} is there, and belongs to somebody else")
        return _written(resource, found)

    async def _patch(self, write: Patch) -> None:
        with suppress(NotFoundError):
            await self._cluster.patch(
                write.resource.read_as(_head),
                write.name,
                write.namespace,
                patch=_at(write.patch, write.version),
            )

    async def _patch_status(self, write: PatchStatus) -> Written:
        resource = write.resource.read_as(_head)
        patch = _at(write.patch, write.version)
        return _written(
            resource, await self._cluster.patch_status(resource, write.name, write.namespace, patch=patch)
        )

    async def _delete(self, write: Delete) -> None:
        """Delete the one that is meant; if it is gone, or another has its name, that is done."""
        with suppress(NotFoundError, ConflictError):
            await self._cluster.delete(write.resource.read_as(_head), write.name, write.namespace, write.how)


def _at(patch: Object, version: str) -> Object:
    """A patch that holds for one version only, if one is named."""
    if not version:
        return patch
    return patch | {"metadata": patch.get("metadata", {}) | {"resourceVersion": version}}


def _written(resource: Resource[Any], made: _Metadata) -> Written:
    return Written(resource.full_name, (made.namespace, made.name), number(made.resource_version))
