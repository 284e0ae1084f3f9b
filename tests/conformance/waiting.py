"""Waiting for objects and events of a cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from shoal.cluster.errors import NotFoundError
from shoal.cluster.port import Cluster, Selector, WatchEvent
from shoal.cluster.resources import Object, Resource

PATIENCE: Final = 30.0
"""Seconds after which a wait fails; long enough that only a missing result fails."""

Events = AsyncIterator[WatchEvent[Object]]


async def until(
    cluster: Cluster,
    resource: Resource[Object],
    name: str,
    namespace: str = "",
    *,
    holds: Callable[[Object], Any],
) -> Object:
    """Return the object once `holds` is true of it."""
    where = Selector(namespace=namespace, fields=f"metadata.name={name}")
    async with asyncio.timeout(PATIENCE), cluster.watch(resource, where) as events:
        async for event in events:
            if event.object is not None and event.type != "DELETED" and holds(event.object):
                return event.object
    raise AssertionError(f"the watch for {name} ended")


async def until_observed(cluster: Cluster, resource: Resource[Object], obj: Object) -> Object:
    """Return the object once watches have observed it.

    Before that an API server may decide a deletion by an older state: a pod that was just bound could be
    removed immediately, as if it had no node.
    """
    metadata = obj["metadata"]
    where = metadata["name"], metadata.get("namespace", "")
    version = metadata["resourceVersion"]
    return await until(
        cluster, resource, *where, holds=lambda seen: seen["metadata"]["resourceVersion"] == version
    )


async def until_gone(cluster: Cluster, resource: Resource[Object], name: str, namespace: str = "") -> None:
    """Wait until the object does not exist."""
    where = Selector(namespace=namespace, fields=f"metadata.name={name}")
    page = await cluster.list(resource, where)
    if not page.items:
        return
    async with asyncio.timeout(PATIENCE), cluster.watch(resource, where, version=page.version) as events:
        async for event in events:
            if event.type == "DELETED":
                return


async def exists(cluster: Cluster, resource: Resource[Object], name: str, namespace: str = "") -> bool:
    try:
        await cluster.get(resource, name, namespace)
    except NotFoundError:
        return False
    return True


async def take(events: Events, count: int) -> list[WatchEvent[Object]]:
    """Return the next events, without bookmarks."""
    taken: list[WatchEvent[Object]] = []
    async with asyncio.timeout(PATIENCE):
        while len(taken) < count:
            event = await anext(events)
            if event.type != "BOOKMARK":
                taken.append(event)
    return taken


def summaries(events: list[WatchEvent[Object]]) -> list[tuple[str, str]]:
    """Return the type and object name of each event."""
    return [(event.type, event.object["metadata"]["name"]) for event in events if event.object is not None]
