"""Own writes of which the caches have not told yet.

Caches lag. A controller that looked at one which does not yet show its own last writes would make them again:
a second pod for a success that was counted already. So a key is not worked on until what was written for it
has come back.

A list may skip a version, or an object may be gone before anybody was told that it was there: then no echo
ever comes. After a while it is asked for: when the cache has the newest there is, nothing is missing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from shoal.cluster.object_store import Key
from shoal.controllers.applier import Written
from shoal.controllers.stores import Store

Ask = Callable[[str, Key], Awaitable[int]]
"""The version that an object of a resource has now, -1 if there is none."""

_PATIENCE: Final = 1.0
"""Seconds after which a write that has not come back is asked for."""


class Echoes:
    """What is still to come back, by the key it was written for."""

    def __init__(self, stores: dict[str, Store[Any]]) -> None:
        """The stores that echoes come to, by resource; what is kept nowhere has none."""
        self._stores: Final = stores
        self._missing: Final[dict[Key, set[Written]]] = {}
        self._since: Final[dict[Key, float]] = {}
        """When what is missing was written last, by the event loop's clock."""

    def expect(self, key: Key, write: Written) -> None:
        """Wait for a write to come back, if it has not done so already."""
        if write.resource in self._stores and not self._is_heard(write):
            self._missing.setdefault(key, set()).add(write)
            self._since[key] = _now()

    async def wait(self, key: Key, newest: Ask) -> float | None:
        """For how many seconds a key is to wait; None if nothing is missing."""
        self._keep(key, [write for write in self._missing.get(key, ()) if not self._is_heard(write)])
        if key not in self._missing:
            return None
        waited = _now() - self._since[key]
        if waited < _PATIENCE:
            return _PATIENCE - waited
        self._keep(key, [write for write in self._missing[key] if not await self._is_latest(write, newest)])
        return _PATIENCE if key in self._missing else None

    def forget(self, key: Key) -> None:
        """Wait no longer: nobody is in charge of the key any more."""
        self._keep(key, ())

    def _keep(self, key: Key, missing: Iterable[Written]) -> None:
        left = set(missing)
        if left:
            self._missing[key] = left
        else:
            self._missing.pop(key, None)
            self._since.pop(key, None)

    def _is_heard(self, write: Written) -> bool:
        return self._stores[write.resource].version(write.key) >= write.version

    async def _is_latest(self, write: Written, newest: Ask) -> bool:
        return await newest(write.resource, write.key) == self._stores[write.resource].version(write.key)


def _now() -> float:
    return asyncio.get_running_loop().time()
