"""Machines for tests: a pod that is bound runs, one that is deleted ends after a moment."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from shoal.cluster.errors import ConflictError, NotFoundError
from shoal.cluster.mirror import Change, Gone
from shoal.cluster.port import Cluster, Deletion, Where
from shoal.cluster.reflector import Reflector
from shoal.cluster.resources import PODS, Object

DYING = 0.2
"""Seconds that a pod takes to end."""


@asynccontextmanager
async def machines(cluster: Cluster, namespace: str = "") -> AsyncIterator[None]:
    """Play the machines of all pods that have a node, until the block ends."""
    lives: dict[tuple[str, bool], asyncio.Task[None]] = {}

    def hear(changes: Sequence[Change[Object]]) -> None:
        for change in changes:
            if not isinstance(change, Gone):
                begin(change.item)

    def begin(pod: Object) -> None:
        going = "deletionTimestamp" in pod["metadata"]
        place = pod["metadata"]["uid"], going
        if pod["spec"].get("nodeName") and place not in lives:
            lives[place] = asyncio.create_task(_end(cluster, pod) if going else _start(cluster, pod))

    reflector = Reflector(cluster, PODS, hear, Where(namespace))
    following = asyncio.create_task(reflector.run())
    try:
        yield
    finally:
        tasks = [following, *lives.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _start(cluster: Cluster, pod: Object) -> None:
    meta = pod["metadata"]
    with suppress(NotFoundError, ConflictError):
        await cluster.patch_status(
            PODS,
            meta["name"],
            meta["namespace"],
            patch={"metadata": {"uid": meta["uid"]}, "status": {"phase": "Running"}},
        )


async def _end(cluster: Cluster, pod: Object) -> None:
    meta = pod["metadata"]
    await asyncio.sleep(DYING)
    with suppress(NotFoundError, ConflictError):
        await cluster.delete(PODS, meta["name"], meta["namespace"], Deletion(grace=0, uid=meta["uid"]))
