"""The cost of scheduler and controllers around the engine: CPU per created and placed pod, and writes.

    python benchmarks/loops.py            all of it, as the table in docs/performance.md
    python benchmarks/loops.py --quick    a tenth of the size, to see that it runs

On the simulated cluster the pods are those of Jobs: the Job controller creates them, and then the scheduler
places them; or both run at the same time. The floor is the store: the same objects, or the same bindings,
written by a loop that does nothing else. The engine's CPU is not counted; `benchmarks/engine.py` measures it.
On a real API server the floor is a loop that makes the same bindings through the same client.
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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/k8s starts a real API server

import uvloop

from clusters import (
    POOL,
    SMALL_JOB,
    Raw,
    batch_jobs,
    mixed_nodes,
    new_pods,
    small_batch_jobs,
    small_tyjobs,
    two_pools,
)
from measuring import Row
from reconciles import idle_reconcile
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.port import Cluster, Deletion
from shoal.cluster.reflector import Reflectors
from shoal.cluster.resources import JOBS, NODES, PODS, Resource, by_kind, resource_of
from shoal.controllers.manager import ControllerManager
from shoal.embedded.daemon import tune_garbage_collection
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.engine.plan import Plan
from shoal.engine.policy_answers import PolicyAnswers
from shoal.engine.snapshot import Snapshot
from shoal.manager import job_controllers, running
from shoal.simulator import SimulatedCluster, Simulation, run
from shoal.simulator.kubelet import LoopClock, PodScript, SimulatedKubelet
from tests.k8s.controlplane import NoAssetsError, control_plane

CONFIG = SchedulerConfig()
_REPEATS = 2
"""Measurements on the simulated cluster; the minimum counts, as noise of the machine only adds."""
_SETTLE_TIME = 5.0
"""Virtual seconds after which controllers are idle again."""


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
    jobs = 2_000 // scale
    row = small_jobs(1_000 // scale, jobs)
    title = f"CPU until a pod of a TYJob runs; floor: a pod of a batch Job: {jobs:,} jobs of {SMALL_JOB}"
    print(f"| {title} | {' | '.join(row)} |", flush=True)
    row = with_pending_pods(10_000 // scale)
    print(
        f"| CPU to place a pod while {10_000 // scale:,} wait in another pool | {' | '.join(row)} |",
        flush=True,
    )
    ranks = 500 // scale
    title = f"A reconcile of a DIJob of {ranks} ranks that changes nothing; floor: its pods decoded from JSON"
    print(f"| {title} | {' | '.join(idle_reconcile(ranks))} |", flush=True)
    count = 1_000 // scale
    for title, row in uvloop.run(real(count)).items():
        print(f"| {title}: {count:,} pods, real API server | {' | '.join(row)} |", flush=True)


def simulated(nodes: int, pods: int) -> dict[str, Row]:
    """Measure the CPU per pod in the scheduler and in the Job controller, apart from that of the store."""
    measurements = [run(partial(_costs, nodes, pods), seed=1) for _ in range(_REPEATS)]
    costs = _Costs(*map(min, zip(*measurements, strict=True)))
    return {
        "CPU to place a pod": _row(costs.scheduler, costs.binding, pods, "≤ 0.2 ms"),
        "CPU to create a pod": _row(costs.controller, costs.creating, pods, ""),
        "CPU of both at once": _row(costs.both, costs.creating + costs.binding, pods, ""),
    }


def small_jobs(nodes: int, jobs: int) -> Row:
    """Measure all CPU until the pods of TYJobs run, the engine's included, beside those of batch Jobs."""
    ours, floor = (
        min(run(partial(_run_jobs, nodes, resource, list(objects(jobs))), seed=1) for _ in range(_REPEATS))
        / (jobs * SMALL_JOB)
        * 1e3
        for resource, objects in ((resource_of("TYJob"), small_tyjobs), (JOBS, small_batch_jobs))
    )
    return Row(f"{ours:.2f} ms", f"{floor:.2f} ms", f"{ours / floor:.2f}", "≤ 1.3")


async def _run_jobs(nodes: int, resource: Resource[Raw], jobs: list[Raw], simulation: Simulation) -> float:
    """Return the CPU from the creation of jobs until all their pods run, without that of empty nodes."""
    pods, names = len(jobs) * SMALL_JOB, [f"n{i:05}" for i in range(nodes)]
    async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as cluster:
        kubelet = SimulatedKubelet(cluster, names, lambda _: PodScript(), LoopClock(simulation.clock))
        await kubelet.register(names, {"cpu": "64", "memory": "256Gi", "pods": "110"}, {})
        async with (
            kubelet.running(_SETTLE_TIME * 1e6, None),
            running(cluster, CONFIG, clock=simulation.clock, native=True) as manager,
        ):
            await manager.ready()
            began = time.process_time()
            with _counted(cluster, "bind", pods) as all_bound:
                for job in jobs:
                    await cluster.create(resource, job)
                await all_bound.wait()
            await asyncio.sleep(_SETTLE_TIME)
            return time.process_time() - began


def with_pending_pods(pending: int) -> Row:
    """Measure all CPU from a pod to its binding, with and without pending pods in another pool."""
    busy, quiet = (run(partial(_place_one, count), seed=1) * 1e3 for count in (pending, 0))
    return Row(f"{busy:.1f} ms", f"{quiet:.1f} ms", f"{busy / quiet:.1f}", "")


async def _place_one(pending: int, simulation: Simulation) -> float:
    """Return the least CPU to place a pod of one pool, while pods of another are pending."""
    least = math.inf
    async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as cluster:
        for thing in two_pools(pending):
            await cluster.create(by_kind()[thing["apiVersion"], thing["kind"]], thing)
        async with running(cluster, CONFIG, clock=simulation.clock) as manager:
            await manager.ready()
            await asyncio.sleep(1 + pending / 50)  # until all pending pods have their reason
            for pod in new_pods(range(10)):
                pod["metadata"]["annotations"] = {POOL: "b"}
                with _counted(cluster, "bind", 1) as bound:
                    began = time.process_time()
                    await cluster.create(PODS, pod)
                    await bound.wait()
                    least = min(least, time.process_time() - began)
                await asyncio.sleep(_SETTLE_TIME)
    return least


class _Costs(NamedTuple):
    """Seconds of CPU for all pods, without the engine's.

    `controller` creates pods, `scheduler` binds them; `creating` and `binding` are the floor: the store.
    """

    controller: float
    scheduler: float
    both: float
    creating: float
    binding: float


def _row(spent: float, floor: float, pods: int, goal: str) -> Row:
    each = (spent - floor) / pods * 1e3
    return Row(
        f"{each:.2f} ms besides the store's", f"{floor / pods * 1e3:.2f} ms", f"{spent / floor:.1f}", goal
    )


async def _costs(nodes: int, pods: int, simulation: Simulation) -> _Costs:
    def new_store() -> SimulatedCluster:
        return SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store"))

    jobs = list(batch_jobs(pods))
    async with new_store() as cluster:
        await _fill(cluster, nodes, JOBS, jobs)
        controller = await _create_pods(cluster, simulation, pods)
        pods_made = (await cluster.list(PODS)).items
        scheduler, _ = await _place_pods(cluster, pods)
    async with new_store() as cluster:
        await _fill(cluster, nodes, JOBS, jobs)
        both, _ = await _place_pods(cluster, pods, native=True)
    async with new_store() as cluster:
        await _fill(cluster, nodes, JOBS, [])
        bodies = [_request_body(pod) for pod in pods_made]
        creating = await _write_all(partial(cluster.create, PODS, body) for body in bodies)
        binding = await _bind_all(cluster, [pod["metadata"]["name"] for pod in pods_made])
    return _Costs(controller, scheduler, both, creating, binding)


def _request_body(pod: Raw) -> Raw:
    """Return a pod as a client sends it, without its owner, which does not exist here."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "labels", "finalizers")}
    return {"metadata": metadata, "spec": pod["spec"]}


async def _create_pods(cluster: Cluster, simulation: Simulation, pods: int) -> float:
    """Return the CPU in which controllers create all pods of Jobs."""
    reflectors = Reflectors(cluster)
    controllers = ControllerManager(
        cluster,
        reflectors,
        CONFIG,
        native=True,
        job_controllers=job_controllers(native=True),
        clock=simulation.clock,
    )
    with _counted(cluster, "create", pods, PODS) as all_made:
        began = time.process_time()
        tasks = [asyncio.create_task(part.run()) for part in (reflectors, controllers)]
        await all_made.wait()
        await asyncio.sleep(_SETTLE_TIME)
        spent = time.process_time() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return spent


async def real(pods: int) -> dict[str, Row]:
    """Measure writes and CPU per pod, and those of a loop that only binds."""
    with tempfile.TemporaryDirectory() as place:
        try:
            with control_plane(Path(place)) as plane:
                cluster = KubernetesCluster(find_access(str(plane.kubeconfig())))
                arrivals = list(new_pods(range(pods)))
                await _fill(cluster, 100, PODS, arrivals)
                spent, writes = await _place_pods(cluster, pods)
                names = [pod["metadata"]["name"] for pod in arrivals]
                for name in names:
                    await cluster.delete(PODS, name, "default", Deletion(grace=0))
                await _fill(cluster, 0, PODS, arrivals)
                floor = await _bind_all(cluster, names)
                await cluster.close()
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


async def _place_pods(cluster: Cluster, pods: int, *, native: bool = False) -> tuple[float, int]:
    """Return the CPU in which a manager places all pods, without the engine's, and its number of writes."""
    with _timed_engine() as engine, _counted(cluster, "bind", pods) as all_bound:
        began = time.process_time()
        async with running(cluster, CONFIG, native=native) as manager:
            await all_bound.wait()
            spent = time.process_time() - began
    metrics = manager.metrics.registry.collect()
    writes = sum(one.value for metric in metrics for one in metric.samples if one.name == _WRITES)
    return spent - engine[0], int(writes)


@contextmanager
def _counted(
    cluster: Cluster, verb: str, expected: int, resource: Resource[Any] | None = None
) -> Iterator[asyncio.Event]:
    """Yield an event that is set after a number of writes of a verb, or of a verb and a resource."""
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
    """Yield a list with the CPU of the engine's cycles."""
    spent = [0.0]

    def timed(snapshot: Snapshot, config: SchedulerConfig, advice: PolicyAnswers) -> Plan:
        began = time.process_time()
        try:
            return cycle(snapshot, config, advice)
        finally:
            spent[0] += time.process_time() - began

    with mock.patch("shoal.scheduler.loop.cycle", timed):
        yield spent


async def _bind_all(cluster: Cluster, names: Iterable[str]) -> float:
    """Return the CPU of binding pods."""
    return await _write_all(partial(cluster.bind, name, "default", "n00000") for name in names)


async def _write_all(writes: Iterable[Callable[[], Awaitable[object]]]) -> float:
    """Return the CPU of writes, 32 of them concurrent."""
    waiting = iter(list(writes))

    async def write() -> None:
        for one in waiting:
            await one()

    began = time.process_time()
    await asyncio.gather(*(write() for _ in range(32)))
    return time.process_time() - began


if __name__ == "__main__":
    main()
