"""The fence: a cluster that sends no write unless this manager leads at that moment."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, TypeVar

from shoal.cluster.errors import UnavailableError
from shoal.cluster.port import DEFAULT_DELETION, EVERYTHING, Cluster, Deletion, Selector, WatchEvent
from shoal.cluster.resources import Object, Resource
from shoal.election.leadership import Leadership

T = TypeVar("T")


def is_harmless_late(body: Object) -> bool:
    """Whether a change names the version that it changes: once another manager has written, it is refused."""
    return bool(body.get("metadata", {}).get("resourceVersion"))


class FencedCluster:
    """A cluster; reads pass, and writes raise NotLeaderError unless this manager leads."""

    def __init__(self, cluster: Cluster, leadership: Leadership) -> None:
        self._cluster: Final = cluster
        self._leadership: Final = leadership
        # Reads are those of the cluster itself.
        self.get: Final = cluster.get
        self.list: Final = cluster.list
        self.close: Final = cluster.close

    def watch(
        self,
        resource: Resource[T],
        selector: Selector = EVERYTHING,
        *,
        version: str = "",
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        return self._cluster.watch(resource, selector, version=version, timeout=timeout)

    async def create(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        call = partial(self._cluster.create, resource, body, dry_run=dry_run)
        return await self._write(call, harmless=True)  # the name is taken, or the object has an owner

    async def update(self, resource: Resource[T], body: Object, *, dry_run: bool = False) -> T:
        call = partial(self._cluster.update, resource, body, dry_run=dry_run)
        return await self._write(call, harmless=is_harmless_late(body))

    async def patch(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        call = partial(self._cluster.patch, resource, name, namespace, patch=patch, dry_run=dry_run)
        return await self._write(call, harmless=is_harmless_late(patch))

    async def patch_status(
        self, resource: Resource[T], name: str, namespace: str = "", *, patch: Object, dry_run: bool = False
    ) -> T:
        call = partial(self._cluster.patch_status, resource, name, namespace, patch=patch, dry_run=dry_run)
        return await self._write(call, harmless=is_harmless_late(patch))

    async def delete(
        self, resource: Resource[T], name: str, namespace: str = "", deletion: Deletion = DEFAULT_DELETION
    ) -> T | None:
        call = partial(self._cluster.delete, resource, name, namespace, deletion)
        return await self._write(call, harmless=bool(deletion.version))

    async def bind(self, name: str, namespace: str, node: str, *, uid: str = "") -> None:
        await self._write(partial(self._cluster.bind, name, namespace, node, uid=uid))

    async def evict(self, name: str, namespace: str, deletion: Deletion = DEFAULT_DELETION) -> None:
        await self._write(partial(self._cluster.evict, name, namespace, deletion))

    async def _write(self, call: Callable[[], Awaitable[T]], *, harmless: bool = False) -> T:
        """Make a write; if it gets no answer, and would do harm later, the Lease is not released early."""
        self._leadership.check()
        try:
            return await call()
        except (UnavailableError, asyncio.CancelledError):
            if not harmless:
                self._leadership.write_unanswered()
            raise
