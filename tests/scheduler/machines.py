"""The machines of scenes: a pod that is bound runs, one that is deleted ends after a moment."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from shoal.cluster.port import Cluster
from shoal.simulator.kubelet import Kubelet, Life, LoopClock

NAMES = ("n1", "n2", "n3", "g1")
DYING = 0.2
"""Seconds that a pod takes to end."""
SELDOM = 3600.0
"""Seconds from one sign of life to the next: nobody listens in these tests."""


@asynccontextmanager
async def machines(cluster: Cluster, clock: Callable[[], float]) -> AsyncIterator[Kubelet]:
    """Play all machines, until the block ends."""
    playing = Kubelet(cluster, NAMES, lambda _: Life(dying=DYING), LoopClock(clock))
    async with playing.at_work(SELDOM):
        yield playing
