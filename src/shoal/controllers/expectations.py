"""Expectations: own writes that the stores do not show yet.

Stores lag behind. A controller that reconciled a view without its own last writes would make them again: a
second pod for a success that was already counted. So a key is not reconciled until what was written for it
has been observed.

A list may skip a version, or an object may be gone before it was ever observed: then the expected version
never arrives. After a timeout the API server is asked: if the store has the newest version, none is missing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from shoal.cluster.object_store import Key
from shoal.controllers.applier import AppliedWrite
from shoal.controllers.stores import IndexedStore

FetchVersion = Callable[[str, Key], Awaitable[int]]
"""Returns the version that an object of a resource has now, -1 if it does not exist."""

_TIMEOUT: Final = 1.0
"""Seconds after which the API server is asked about a write that was not observed."""


class Expectations:
    """Writes that have not been observed, by the key that was reconciled."""

    def __init__(self, stores: dict[str, IndexedStore[Any]]) -> None:
        """Observe these stores, by resource. Writes to other resources are not waited for."""
        self._stores: Final = stores
        self._missing: Final[dict[Key, set[AppliedWrite]]] = {}
        self._since: Final[dict[Key, float]] = {}
        """When the last missing write was made, by the event loop's clock."""

    def expect(self, key: Key, write: AppliedWrite) -> None:
        """Wait for a write to be observed, unless it has been already."""
        if write.resource in self._stores and not self._is_observed(write):
            self._missing.setdefault(key, set()).add(write)
            self._since[key] = _now()

    async def remaining_wait(self, key: Key, fetch_version: FetchVersion) -> float | None:
        """Return for how many seconds a key has to wait; None if all its writes were observed."""
        self._keep(key, [write for write in self._missing.get(key, ()) if not self._is_observed(write)])
        if key not in self._missing:
            return None
        waited = _now() - self._since[key]
        if waited < _TIMEOUT:
            return _TIMEOUT - waited
        self._keep(
            key, [write for write in self._missing[key] if not await self._is_latest(write, fetch_version)]
        )
        return _TIMEOUT if key in self._missing else None

    def _keep(self, key: Key, missing: Iterable[AppliedWrite]) -> None:
        left = set(missing)
        if left:
            self._missing[key] = left
        else:
            self._missing.pop(key, None)
            self._since.pop(key, None)

    def _is_observed(self, write: AppliedWrite) -> bool:
        return self._stores[write.resource].version(write.key) >= write.version

    async def _is_latest(self, write: AppliedWrite, fetch_version: FetchVersion) -> bool:
        return await fetch_version(write.resource, write.key) == self._stores[write.resource].version(
            write.key
        )


def _now() -> float:
    return asyncio.get_running_loop().time()
