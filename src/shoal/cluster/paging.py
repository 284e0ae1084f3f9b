"""Whole lists, fetched page by page."""

from typing import Final, TypeVar

from shoal.cluster.errors import GoneError
from shoal.cluster.port import EVERYWHERE, Cluster, Page, Where
from shoal.cluster.resources import Resource

T = TypeVar("T")

PAGE: Final = 1000
"""Objects in a page: few enough that no server minds, and many enough that few pages do."""


async def list_all(
    cluster: Cluster, resource: Resource[T], where: Where = EVERYWHERE, *, size: int = PAGE
) -> Page[T]:
    """All pages of one list, as one. If it takes so long that its rest is gone, it is had in one piece."""
    items: list[T] = []
    start = ""
    while True:
        try:
            page = await cluster.list(resource, where, limit=size, start=start)
        except GoneError:
            if not start:
                raise
            return await list_all(cluster, resource, where, size=0)
        items += page.items
        start = page.next
        if not start:
            return Page(items=items, version=page.version)
