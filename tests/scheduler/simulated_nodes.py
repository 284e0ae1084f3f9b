"""Simulated nodes for the tests of the scheduler: bound pods run, deleted pods end after a moment."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from shoal.cluster.port import Cluster
from shoal.simulator.kubelet import LoopClock, PodScript, SimulatedKubelet

NAMES = ("n1", "n2", "n3", "g1")
SHUTDOWN = 0.2
"""Seconds that a deleted pod takes to end."""
HEARTBEAT = 3600.0
"""Seconds between heartbeats: rare, as these tests do not read them."""


@asynccontextmanager
async def run_nodes(cluster: Cluster, clock: Callable[[], float]) -> AsyncIterator[SimulatedKubelet]:
    """Run all nodes until the block ends."""
    kubelet = SimulatedKubelet(cluster, NAMES, lambda _: PodScript(shutdown=SHUTDOWN), LoopClock(clock))
    async with kubelet.running(HEARTBEAT):
        yield kubelet
