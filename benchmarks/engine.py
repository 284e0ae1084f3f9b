"""How much the engine costs: CPU time, and as a ratio to one numpy pass over the same arrays.

    python benchmarks/engine.py            all of it, as the tables in docs/performance.md
    python benchmarks/engine.py --quick    a tenth of the size, to see that it runs

A *pass* is the least that deciding about one pod can cost when all nodes are looked at: compare what each
node has left of every resource with a request, rate every node, take the best. It is measured in the same
run, so the ratio says something on any machine, also on a noisy one; the seconds only on this one.
"""

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from shoal.api import kinds
from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.cycle import cycle
from shoal.scheduling.snapshot import Snapshot
from shoal.world.assembly import Assembly, assemble
from shoal.world.world import World

CONFIG = SchedulerConfig()
GANG = 64
TIMES = 5
Raw = dict[str, Any]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    scale = 10 if parser.parse_args().quick else 1
    headline(scale)
    growth(scale)


def headline(scale: int) -> None:
    """The worlds that the project promises something about, and some that were slow once."""
    nodes, pods = 5_000 // scale, 10_000 // scale
    print(f"| world ({nodes:,} nodes) | decided | CPU | one pass | passes | passes a pod |")
    print("|---|---|---|---|---|---|")
    row(f"{pods:,} pods in gangs of {GANG}", world([*machines(nodes), *gangs(pods)]))
    row(f"{pods:,} different loose pods", world([*machines(nodes), *loose(pods)]))
    row(
        f"{pods // 10:,} pods that ask for nothing, all nodes different",
        world([*sundry(nodes), *idle(pods // 10)]),
    )
    row(
        f"{pods // 5:,} different pods, no room for any",
        world([*machines(nodes, full=True), *loose(pods // 5)]),
    )
    row(f"a gang of {512 // scale} makes room in a full pool", world([*crowd(nodes), gang(512 // scale)]))
    quiet, per_pod = measured(lambda: world([*machines(nodes), *running(nodes * 20, nodes)]), nodes * 20)
    row(f"{nodes * 20:,} running pods, nothing changed", quiet)
    print(f"\nMemory of the last world and its snapshot: {per_pod:.2f} KiB a pod.\n")


def growth(scale: int) -> None:
    """How the cost grows with nodes and with pods."""
    print("| nodes | pods in gangs | CPU | µs a pod | pods all different | CPU | µs a pod |")
    print("|---|---|---|---|---|---|---|")
    for nodes in (1_000, 2_000, 5_000, 10_000, 20_000):
        grow(nodes // scale, 5_000 // scale)
    for pods in (1_250, 2_500, 5_000, 10_000, 20_000):
        grow(5_000 // scale, pods // scale)


def grow(nodes: int, pods: int) -> None:
    """One line of the growth table."""
    together = cpu(planning(world([*machines(nodes), *gangs(pods)])))
    apart = cpu(planning(world([*machines(nodes), *loose(pods)])))
    cells = [f"{pods:,} | {t:.3f} s | {t / pods * 1e6:.0f}" for t in (together, apart)]
    print(f"| {nodes:,} | {' | '.join(cells)} |", flush=True)


def row(title: str, view: Assembly) -> None:
    """One line of the headline table."""
    spent, floor = cpu(planning(view)), cpu(one_pass(view.snapshot))
    plan = cycle(view.snapshot, CONFIG)
    placed = len(plan.placements) or len(plan.nominations)
    tasks = sum(len(workload.missing) for workload in view.snapshot.unsettled)
    each = f"{spent / floor / tasks:.1f}" if tasks else "-"
    cost = f"{spent * 1e3:.1f} ms | {floor * 1e6:.0f} µs | {spent / floor:,.0f} | {each}"
    print(f"| {title} | {placed:,} of {tasks:,} | {cost} |", flush=True)


def planning(view: Assembly) -> Callable[[], object]:
    """One cycle over an up-to-date snapshot."""
    return lambda: cycle(view.snapshot, CONFIG)


def one_pass(snapshot: Snapshot) -> Callable[[], object]:
    """The floor: one look at every node for one pod."""
    alloc, used = snapshot.nodes.alloc, snapshot.used
    request = np.minimum(alloc[:, :1], 1)
    share = 1.0 / np.maximum(alloc, 1)

    def look() -> object:
        fits = (alloc - used >= request).all(axis=0)
        return np.where(fits, ((used + request) * share).sum(axis=0), -np.inf).argmax()

    return look


def cpu(work: Callable[[], object]) -> float:
    """The least CPU time of a few runs: what is above it is the machine's noise."""
    best = float("inf")
    for _ in range(TIMES):
        gc.collect()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def measured(build: Callable[[], Assembly], pods: int) -> tuple[Assembly, float]:
    """What is built, and its memory in KiB a pod."""
    gc.collect()
    tracemalloc.start()
    view = build()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return view, size / 1024 / pods


def world(objects: Iterator[Raw] | list[Raw]) -> Assembly:
    """Objects as the engine sees them; the world is kept alive by what it returns."""
    made = World(0.0)
    for raw in objects:
        made.put(kinds.read(kinds.KINDS[raw["apiVersion"], raw["kind"]], raw))
    view = assemble(made, CONFIG, 0.0)
    _WORLDS.append(made)
    del _WORLDS[:-1]
    return view


_WORLDS: list[World] = []


def machines(count: int, *, full: bool = False) -> Iterator[Raw]:
    """Nodes of three makes."""
    for i in range(count):
        cpus, memory, gpus = ((64, "256Gi", 8), (96, "384Gi", 0), (32, "128Gi", 4))[i % 3]
        have = {"cpu": str(0 if full else cpus), "memory": memory, "nvidia.com/gpu": str(gpus), "pods": "110"}
        labels = {"kubernetes.io/hostname": f"n{i:05}", "zone": f"z{i % 5}"}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i:05}", "labels": labels},
            "status": {"capacity": have, "allocatable": have},
        }


def gangs(pods: int) -> Iterator[Raw]:
    """TYJobs with a leader and 63 workers each."""
    for i in range(pods // GANG):
        yield {
            "apiVersion": "tyrl.io/v1alpha1",
            "kind": "TYJob",
            "metadata": {"name": f"job-{i:05}", "namespace": "default"},
            "spec": {
                "schedulerPolicy": {"basicPolicy": "Gang"},
                "leader": {"name": "leader", "template": template("8", "32Gi", 1)},
                "workerSets": [{"name": "worker", "counts": GANG - 1, "template": template("4", "8Gi", 0)}],
            },
        }


def loose(pods: int) -> Iterator[Raw]:
    """Pods no two of which ask for the same."""
    for i in range(pods):
        spec = template(f"{1000 + i % 4000}m", f"{1024 + i}Mi", i % 2)["spec"]
        spec["schedulerName"] = "shoal"
        spec["nodeSelector"] = {"zone": f"z{i % 5}"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i:06}", "namespace": "default"},
            "spec": spec,
        }


def sundry(count: int) -> Iterator[Raw]:
    """Nodes no two of which have the same memory, as real ones never do."""
    for i, made in enumerate(machines(count)):
        have = made["status"]["allocatable"] | {"memory": f"{2**37 + i}"}
        yield made | {"status": {"capacity": have, "allocatable": have}}


def idle(pods: int) -> Iterator[Raw]:
    """Pods that ask for nothing."""
    for i in range(pods):
        spec = {"schedulerName": "shoal", "containers": [{"name": "main", "image": "train"}]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"i{i:06}"}, "spec": spec}


def crowd(nodes: int) -> Iterator[Raw]:
    """Nodes that are full of pods of a low class."""
    for name, value in (("low", 1), ("high", 2)):
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
    have = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    for i in range(nodes):
        metadata = {"name": f"n{i:05}"}
        status = {"capacity": have, "allocatable": have}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    for i in range(nodes * 4):
        spec = template("8", "16Gi", 0)["spec"]
        spec |= {"schedulerName": "shoal", "nodeName": f"n{i % nodes:05}", "priorityClassName": "low"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i:06}"},
            "spec": spec,
            "status": {"phase": "Running"},
        }


def gang(pods: int) -> Raw:
    """A gang of a high class, all of its pods alike."""
    alike = template("8", "16Gi", 0)
    alike["spec"]["priorityClassName"] = "high"
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "gang"},
        "spec": {"minReplicas": pods, "template": alike},
    }


def running(pods: int, nodes: int) -> Iterator[Raw]:
    """Pods that have a node, as many on each."""
    for i in range(pods):
        spec = template("500m", "1Gi", 0)["spec"]
        spec |= {"schedulerName": "shoal", "nodeName": f"n{i % nodes:05}"}
        metadata = {"name": f"p{i:06}", "namespace": "default", "labels": {"app": f"a{i % 500}"}}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": "Running"},
        }


def template(cpus: str, memory: str, gpus: int) -> Raw:
    """A pod template."""
    requests = {"cpu": cpus, "memory": memory} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"spec": {"containers": [{"name": "main", "image": "train", "resources": {"requests": requests}}]}}


if __name__ == "__main__":
    main()
