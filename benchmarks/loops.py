"""What the scheduler costs around the engine: CPU for each pod that it places, and writes.

    python benchmarks/loops.py            all of it, as the table in docs/performance.md
    python benchmarks/loops.py --quick    a tenth of the size, to see that it runs

In the simulated home the floor is the store: the same bindings written by a loop that does nothing else. The
engine's CPU is left out; `benchmarks/engine.py` is about it. In a real API server the floor is a loop that
makes the same bindings through the same client.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a real API server is had from tests/k8s

import uvloop

from clusters import arriving, machines
from measuring import Row
from shoal.cli.lasting import look_for_garbage_rarely
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.kubernetes.home import KubernetesCluster
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.resources import NODES, PODS
from shoal.cluster.simulated import SimulatedCluster, Simulation, run
from shoal.manager import running
from shoal.scheduling.advice import Advice
from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.cycle import cycle
from shoal.scheduling.plan import Plan
from shoal.scheduling.snapshot import Snapshot
from tests.k8s.controlplane import NoAssetsError, control_plane

CONFIG = SchedulerConfig()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    scale = 10 if parser.parse_args().quick else 1
    look_for_garbage_rarely()  # as `shoal manager` does
    print("| what | measured | floor | ratio | goal |\n|---|---|---|---|---|")
    nodes, pods = 5_000 // scale, 20_000 // scale
    row = simulated(nodes, pods)
    print(f"| CPU a pod: {pods:,} pods, {nodes:,} nodes, simulated | {' | '.join(row)} |", flush=True)
    count = 1_000 // scale
    for title, row in uvloop.run(real(count)).items():
        print(f"| {title}: {count:,} pods, real API server | {' | '.join(row)} |", flush=True)


def simulated(nodes: int, pods: int) -> Row:
    """The CPU of one pod in the loop, beside that of writing its binding."""

    async def place(simulation: Simulation) -> tuple[float, float]:
        async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("store")) as store:
            await _fill(store, nodes, pods)
            spent, _ = await _placing(store, pods)
        async with SimulatedCluster(clock=simulation.clock, dice=simulation.dice("store")) as store:
            await _fill(store, nodes, pods)
            return spent, await _binding(store, pods)

    spent, floor = run(place, seed=1)
    ours = (spent - floor) / pods * 1e3
    return Row(
        f"{ours:.2f} ms beside the store's",
        f"{floor / pods * 1e3:.2f} ms",
        f"{spent / floor:.1f}",
        "≤ 0.2 ms",
    )


async def real(pods: int) -> dict[str, Row]:
    """The writes and the CPU of one pod, beside a loop that only binds."""
    with tempfile.TemporaryDirectory() as place:
        try:
            with control_plane(Path(place)) as plane:
                home = KubernetesCluster(find_access(str(plane.kubeconfig())))
                await _fill(home, 100, pods)
                spent, writes = await _placing(home, pods)
                await _clear(home, pods)
                await _fill(home, 0, pods)
                floor = await _binding(home, pods)
                await home.close()
        except NoAssetsError:
            return {"no API server here": Row("-", "-", "-", "")}
    each, bare = spent / pods * 1e3, floor / pods * 1e3
    return {
        "CPU a pod": Row(f"{each:.2f} ms", f"{bare:.2f} ms", f"{each / bare:.1f}", ""),
        "writes a pod": Row(f"{writes / pods:.2f}", "1", f"{writes / pods:.2f}", ""),
    }


async def _fill(cluster: Cluster, nodes: int, pods: int) -> None:
    for node in machines(nodes):
        made = await cluster.create(NODES, node)
        if not made.get("status", {}).get("allocatable"):
            await cluster.patch_status(NODES, made["metadata"]["name"], patch={"status": node["status"]})
    for pod in arriving(range(pods)):
        await cluster.create(PODS, pod)


async def _clear(cluster: Cluster, pods: int) -> None:
    for pod in arriving(range(pods)):
        await cluster.delete(PODS, pod["metadata"]["name"], "default", Deletion(grace=0))


async def _placing(cluster: Cluster, pods: int) -> tuple[float, int]:
    """The CPU in which a manager places all pods, without the engine's, and how often it writes."""
    with _timed_engine() as engine, _counted_bindings(cluster, pods) as all_bound:
        begun = time.process_time()
        async with running(cluster, CONFIG) as manager:
            await all_bound.wait()
            spent = time.process_time() - begun
    metrics = manager.metrics.registry.collect()
    writes = sum(one.value for metric in metrics for one in metric.samples if one.name == _WRITES)
    return spent - engine[0], int(writes)


@contextmanager
def _counted_bindings(cluster: Cluster, expected: int) -> Iterator[asyncio.Event]:
    """Is set when so many pods have been bound."""
    all_bound, bind, count = asyncio.Event(), cluster.bind, itertools.count(1)

    async def counted(name: str, namespace: str, node: str, *, uid: str = "") -> None:
        await bind(name, namespace, node, uid=uid)
        if next(count) == expected:
            all_bound.set()

    with mock.patch.object(cluster, "bind", counted):
        yield all_bound


_WRITES = "scheduler_write_duration_seconds_count"


@contextmanager
def _timed_engine() -> Iterator[list[float]]:
    """What the engine's cycles take, in CPU."""
    spent = [0.0]

    def timed(snapshot: Snapshot, config: SchedulerConfig, advice: Advice) -> Plan:
        begun = time.process_time()
        try:
            return cycle(snapshot, config, advice)
        finally:
            spent[0] += time.process_time() - begun

    with mock.patch("shoal.scheduler.loop.cycle", timed):
        yield spent


async def _binding(cluster: Cluster, pods: int) -> float:
    """The CPU of binding all pods, 32 at once."""
    waiting = iter([pod["metadata"]["name"] for pod in arriving(range(pods))])

    async def bind() -> None:
        for name in waiting:
            await cluster.bind(name, "default", "n00000")

    begun = time.process_time()
    await asyncio.gather(*(bind() for _ in range(32)))
    return time.process_time() - begun


if __name__ == "__main__":
    main()
