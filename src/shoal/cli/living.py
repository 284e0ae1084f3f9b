"""The world of a cluster as it is now, for commands that only look."""

import asyncio
import time
from typing import TYPE_CHECKING

import click

from shoal.world.world import World

if TYPE_CHECKING:
    from shoal.cluster.kubernetes.access import Access


def live_world(access: "Access", now: float | None) -> World:
    """All that scheduling reads of a cluster, once. What cannot be read is named and left out.

    Exits with 1 and one line if the cluster cannot be asked.
    """
    from shoal.cluster.errors import ClusterError

    try:
        return asyncio.run(_look(access, time.time() if now is None else now))
    except ClusterError as problem:
        raise click.ClickException(f"{access.url}: {problem}") from None


async def _look(access: "Access", now: float) -> World:
    from shoal.cluster.kubernetes.home import KubernetesCluster
    from shoal.cluster.live import read_once

    cluster, world = KubernetesCluster(access), World(now)
    try:
        for name, problem in await read_once(cluster, world):
            click.echo(f"left out: {name}: {problem}", err=True)
    finally:
        await cluster.close()
    return world
