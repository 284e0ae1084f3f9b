"""A World that follows a cluster, for as long as a test runs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

from shoal.cache.live import LiveWorld
from shoal.cache.world import World
from shoal.cluster.port import Cluster
from shoal.cluster.reflector import ReflectorOptions, Reflectors
from tests.following import NOW

PATIENCE = 60
"""Seconds after which a test that waits for something has failed."""


@asynccontextmanager
async def following(cluster: object, options: ReflectorOptions | None = None) -> AsyncIterator[LiveWorld]:
    reflectors = Reflectors(cast("Cluster", cluster), options)
    live = LiveWorld(reflectors, World(NOW))
    task = asyncio.create_task(reflectors.run())
    try:
        yield live
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - nobody tells when a watch has been heard
            await asyncio.sleep(0.001)
