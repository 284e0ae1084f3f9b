"""What scheduler and controllers cost around the engine: CPU for each pod made and placed, and writes.

    python benchmarks/loops.py            all of it, as the table in docs/performance.md
    python benchmarks/loops.py --quick    a tenth of the size, to see that it runs

In the simulated home the pods are those of Jobs: the Job controller makes them, and then the scheduler places
them; or both work at once. The floor is the store: the same objects, or the same bindings, written by a loop
that does nothing else. The engine's CPU is left out; `benchmarks/engine.py` is about it. In a real API server
the floor is a loop that makes the same bindings through the same client.
"""

import argparse
import asyncio
import itertools
import math
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a real API server is had from tests/k8s

import uvloop

from clusters import POOL, Raw, batch_jobs, mixed_nodes, new_pods, two_pools
from measuring import Row
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.reflector import Reflectors
from shoal.cluster.resources import JOBS, NODES, PODS, Resource, by_kind
from shoal.controllers.manager import ControllerManager
from shoal.embedded.daemon import tune_garbage_collection
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.engine.plan import Plan
from shoal.engine.policy_answers import PolicyAnswers
from shoal.engine.snapshot import Snapshot
from shoal.manager import running
from shoal.simulator import SimulatedCluster, Simulation, run
from tests.k8s.controlplane import NoAssetsError, control_plane

CONFIG = SchedulerConfig()
_TURNS = 2
"""How often the simulated home is measured; the least counts: noise of the machine only adds."""
_AFTER = 5.0
"""Virtual seconds in which controllers are done with what they have made."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    scale = 10 if parser.parse_args().quick else 1
    tune_garbage_collection()  # as `shoal manager` does
    print("| what | measured | floor | ratio | goal |\n|---|---|---|---|---|")
    nodes, pods = 5_000 // scale, 20_000 // scale
    for title, row in simulated(nodes, pods).items():
        print(
            f"| {title}: {pods:,} pods of Jobs, {nodes:,} nodes, simulated | {' | '.join(row)} |", flush=True
        )
    row = crowded(10_000 // scale)
    print(
        f"| CPU to place a pod while {10_000 // scale:,} wait in another pool | {' | '.join(row)} |",
        flush=True,
    )
    count = 1_000 // scale
    for title, row in uvloop.run(real(count)).items():
        print(f"| {title}: {count:,} pods, real API server | {' | '.join(row)} |", flush=True)


def simulated(nodes: int, pods: int) -> dict[str, Row]:
    """The CPU of one pod in the scheduler and in the Job controller, beside that of writing it."""
    turns = [run(partial(_costs, nodes, pods), seed=1) for _ in range(_TURNS)]
    costs = _Costs(*map(min, zip(*turns, strict=True)))
    return {
        "CPU to place a pod": _beside(costs.placing, costs.binding, pods, "≤ 0.2 ms"),
        "CPU to create a pod": _beside(costs.making, costs.creating, pods, ""),
        "CPU of both at once": _beside(costs.both, costs.creating + costs.binding, pods, ""),
    }


def crowded(crowd: int) -> Row:
    """All the CPU, the engine's too, from a pod to its binding, beside the same without a crowd elsewhere."""
    busy, quiet = (run(partial(_elsewhere, count), seed=1) * 1e3 for count in (crowd, 0))
    return Row(f"{busy:.1f} ms", f"{quiet:.1f} ms", f"{busy / quiet:.1f}", "")


async def _elsewhere(crowd: int, simulation: Simulation) -> float:
    """The least CPU in which a pod of one pool is placed, while a crowd waits in another."""
    least = math.inf
    async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as home:
        for thing in two_pools(crowd):
            await home.create(by_kind()[thing["apiVersion"], thing["kind"]], thing)
        async with running(home, CONFIG, clock=simulation.clock) as manager:
            await manager.ready()
            await asyncio.sleep(1 + crowd / 50)  # until all of the crowd have been told why they wait
            for pod in new_pods(range(10)):
                pod["metadata"]["annotations"] = {POOL: "b"}
                with _counted(home, "bind", 1) as bound:
                    begun = time.process_time()
                    await home.create(PODS, pod)
                    await bound.wait()
                    least = min(least, time.process_time() - begun)
                await asyncio.sleep(_AFTER)
    return least


class _Costs(NamedTuple):
    """Seconds of CPU for all pods, without the engine's; `creating` and `binding` are the store's alone."""

    making: float
    placing: float
    both: float
    creating: float
    binding: float


def _beside(spent: float, floor: float, pods: int, goal: str) -> Row:
    each = (spent - floor) / pods * 1e3
    return Row(
        f"{each:.2f} ms besides the store's", f"{floor / pods * 1e3:.2f} ms", f"{spent / floor:.1f}", goal
    )


async def _costs(nodes: int, pods: int, simulation: Simulation) -> _Costs:
    def store() -> SimulatedCluster:
        return SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store"))

    jobs = list(batch_jobs(pods))
    async with store() as home:
        await _fill(home, nodes, JOBS, jobs)
        making = await _making(home, simulation, pods)
        made = (await home.list(PODS)).items
        placing, _ = await _placing(home, pods)
    async with store() as home:
        await _fill(home, nodes, JOBS, jobs)
        both, _ = await _placing(home, pods, native=True)
    async with store() as home:
        await _fill(home, nodes, JOBS, [])
        bodies = [_as_sent(pod) for pod in made]
        creating = await _at_once(partial(home.create, PODS, body) for body in bodies)
        binding = await _binding(home, [pod["metadata"]["name"] for pod in made])
    return _Costs(making, placing, both, creating, binding)


def _as_sent(pod: Raw) -> Raw:
    """A pod as somebody makes it; without its owner, which is not there."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "labels", "finalizers")}
    return {"metadata": metadata, "spec": pod["spec"]}


async def _making(cluster: Cluster, simulation: Simulation, pods: int) -> float:
    """The CPU in which controllers make all pods of Jobs."""
    reflectors = Reflectors(cluster)
    house = ControllerManager(cluster, reflectors, CONFIG, native=True, clock=simulation.clock)
    with _counted(cluster, "create", pods, PODS) as all_made:
        begun = time.process_time()
        tasks = [asyncio.create_task(part.run()) for part in (reflectors, house)]
        await all_made.wait()
        await asyncio.sleep(_AFTER)
        spent = time.process_time() - begun
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return spent


async def real(pods: int) -> dict[str, Row]:
    """The writes and the CPU of one pod, beside a loop that only binds."""
    with tempfile.TemporaryDirectory() as place:
        try:
            with control_plane(Path(place)) as plane:
                home = KubernetesCluster(find_access(str(plane.kubeconfig())))
                arrivals = list(new_pods(range(pods)))
                await _fill(home, 100, PODS, arrivals)
                spent, writes = await _placing(home, pods)
                names = [pod["metadata"]["name"] for pod in arrivals]
                for name in names:
                    await home.delete(PODS, name, "default", Deletion(grace=0))
                await _fill(home, 0, PODS, arrivals)
                floor = await _binding(home, names)
                await home.close()
        except NoAssetsError:
            return {"no API server here": Row("-", "-", "-", "")}
    each, bare = spent / pods * 1e3, floor / pods * 1e3
    return {
        "CPU per pod": Row(f"{each:.2f} ms", f"{bare:.2f} ms", f"{each / bare:.1f}", ""),
        "writes per pod": Row(f"{writes / pods:.2f}", "1", f"{writes / pods:.2f}", ""),
    }


async def _fill(cluster: Cluster, nodes: int, resource: Resource[Raw], objects: Iterable[Raw]) -> None:
    for node in mixed_nodes(nodes):
        made = await cluster.create(NODES, node)
        if not made.get("status", {}).get("allocatable"):
            await cluster.patch_status(NODES, made["metadata"]["name"], patch={"status": node["status"]})
    for body in objects:
        await cluster.create(resource, body)


async def _placing(cluster: Cluster, pods: int, *, native: bool = False) -> tuple[float, int]:
    """The CPU in which a manager places all pods, without the engine's, and how often it writes."""
    with _timed_engine() as engine, _counted(cluster, "bind", pods) as all_bound:
        begun = time.process_time()
        async with running(cluster, CONFIG, native=native) as manager:
            await all_bound.wait()
            spent = time.process_time() - begun
    metrics = manager.metrics.registry.collect()
    writes = sum(one.value for metric in metrics for one in metric.samples if one.name == _WRITES)
    return spent - engine[0], int(writes)


@contextmanager
def _counted(
    cluster: Cluster, verb: str, expected: int, resource: Resource[Any] | None = None
) -> Iterator[asyncio.Event]:
    """Is set when there have been so many writes of a kind; of a resource, if it is named first."""
    enough, write, count = asyncio.Event(), getattr(cluster, verb), itertools.count(1)

    async def counted(first: Any, *more: Any, **named: Any) -> Any:  # noqa: ANN401 - as the port has it
        done = await write(first, *more, **named)
        if (resource is None or first.full_name == resource.full_name) and next(count) == expected:
            enough.set()
        return done

    with mock.patch.object(cluster, verb, counted):
        yield enough


_WRITES = "scheduler_write_duration_seconds_count"


@contextmanager
def _timed_engine() -> Iterator[list[float]]:
    """What the engine's cycles take, in CPU."""
    spent = [0.0]

    def timed(snapshot: Snapshot, config: SchedulerConfig, advice: PolicyAnswers) -> Plan:
        begun = time.process_time()
        try:
            return cycle(snapshot, config, advice)
        finally:
            spent[0] += time.process_time() - begun

    with mock.patch("shoal.scheduler.loop.cycle", timed):
        yield spent


async def _binding(cluster: Cluster, names: Iterable[str]) -> float:
    """The CPU of binding pods."""
    return await _at_once(partial(cluster.bind, name, "default", "n00000") for name in names)


async def _at_once(writes: Iterable[Callable[[], Awaitable[object]]]) -> float:
    """The CPU of writes, 32 at once."""
    waiting = iter(list(writes))

    async def write() -> None:
        for one in waiting:
            await one()

    begun = time.process_time()
    await asyncio.gather(*(write() for _ in range(32)))
    return time.process_time() - begun


if __name__ == "__main__":
    main()
