"""A World that follows a cluster, for the duration of a block."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

from shoal.cache.live import LiveWorld
from shoal.cache.world import World
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import ReflectorOptions, Reflectors
from tests.incremental import NOW

TIMEOUT = 60
"""Seconds after which a test that waits for a condition fails."""


@asynccontextmanager
async def follow_world(cluster: object, options: ReflectorOptions | None = None) -> AsyncIterator[LiveWorld]:
    reflectors = Reflectors(cast("Cluster", cluster), options)
    live = LiveWorld(reflectors, World(NOW))
    task = asyncio.create_task(reflectors.run())
    try:
        yield live
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not holds():  # noqa: ASYNC110 - there is no event for a change that was handled
            await asyncio.sleep(0.001)
