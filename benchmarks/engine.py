"""The cost of the engine: CPU time, and its ratio to one numpy pass over the same arrays.

    python benchmarks/engine.py            all rows, as in the tables of docs/performance.md
    python benchmarks/engine.py --quick    a tenth of the size, to see that it runs
    python benchmarks/engine.py --only W   the rows whose titles contain W

A *pass* is the least that a decision about one pod can cost if it looks at all nodes: compare the room of
each node with a request, score every node, take the best. It is measured in the same run, so the ratio is
comparable between machines, even noisy ones; the seconds are not.
"""

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from clusters import (
    GANG,
    Raw,
    distinct_nodes,
    distinct_pods,
    elastic_jobs,
    full_nodes,
    full_pools,
    gpu_nodes,
    high_priority_pods,
    mixed_elastic_jobs,
    mixed_gang,
    mixed_nodes,
    pods_without_requests,
    priority_classes,
    running_elastic_jobs,
    running_pods,
    small_gangs,
    tyjob_gangs,
    uniform_gang,
)
from shoal.api import kinds
from shoal.cache.snapshots import BuiltSnapshot, build_snapshot
from shoal.cache.world import World
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.engine.snapshot import Snapshot

CONFIG = SchedulerConfig()
ROUNDS = 5


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--only", default="", metavar="WORDS", help="rows whose title has these words")
    args = parser.parse_args()
    scale = 10 if args.quick else 1
    headline(scale, args.only)
    if not args.only:
        growth(scale)


def headline(scale: int, only: str) -> None:
    """Clusters about which the project states a goal, and some that were slow in the past."""
    nodes = 5_000 // scale
    print(f"| cluster ({nodes:,} nodes unless stated) | decided | CPU | one pass | passes | passes per pod |")
    print("|---|---|---|---|---|---|")
    for title, objects in rows(nodes, 10_000 // scale).items():
        if only in title:
            row(title, world(objects()))
    idle_title = f"{nodes * 20:,} running pods, nothing changed"
    if only in idle_title:
        view, size = with_memory(
            lambda: world([*mixed_nodes(nodes), *running_pods(nodes * 20, nodes)]), nodes * 20
        )
        row(idle_title, view)
        print(f"\nMemory of the last cluster and its snapshot: {size:.2f} KiB per pod.\n")


def rows(nodes: int, pods: int) -> dict[str, Callable[[], list[Raw]]]:
    """The rows of the headline table: titles, and functions that create their objects."""
    gang_size, hosts, jobs = pods // 20 + 12 * pods // 10_000, nodes * 5 // 4, pods // 5
    units = hosts * 8
    pools = waiting = round(pods**0.5)
    return {
        f"{pods:,} pods in gangs of {GANG}": lambda: [*mixed_nodes(nodes), *tyjob_gangs(pods)],
        f"{pods:,} different loose pods": lambda: [*mixed_nodes(nodes), *distinct_pods(pods)],
        f"{pods // 10:,} pods without requests, all nodes different": lambda: [
            *distinct_nodes(nodes),
            *pods_without_requests(pods // 10),
        ],
        f"{pods // 5:,} different pods, no room for any": lambda: [
            *mixed_nodes(nodes, full=True),
            *distinct_pods(pods // 5),
        ],
        f"a gang of {gang_size} preempts in a full pool": lambda: [
            *full_nodes(nodes),
            uniform_gang(gang_size),
        ],
        f"a gang of {gang_size} different pods preempts in a full pool": lambda: [
            *full_nodes(nodes),
            mixed_gang(gang_size),
        ],
        f"a gang of {gang_size} shrinks elastic jobs in a full pool": lambda: [
            *priority_classes(),
            *gpu_nodes(nodes),
            *running_elastic_jobs(jobs, [nodes * 8 // jobs] * jobs, nodes),
            uniform_gang(gang_size, gpus=1),
        ],
        f"{pods // 20} single pods preempt in a full pool": lambda: [
            *full_nodes(nodes),
            *high_priority_pods(pods // 20),
        ],
        f"{pools} full pools, {waiting} small gangs waiting in each": lambda: [
            *full_pools(pools, nodes // pools),
            *small_gangs(pools, waiting),
        ],
        f"{jobs:,} elastic jobs grow over {units:,} GPUs ({hosts:,} nodes)": lambda: [
            *gpu_nodes(hosts),
            *elastic_jobs(jobs),
        ],
        f"{jobs:,} elastic jobs of many shapes and ranges grow ({hosts:,} nodes)": lambda: [
            *gpu_nodes(hosts),
            *mixed_elastic_jobs(jobs),
        ],
        f"{jobs:,} elastic jobs fill {hosts:,} nodes, nothing changes": lambda: [
            *gpu_nodes(hosts),
            *running_elastic_jobs(jobs, [units // jobs] * jobs, hosts),
        ],
        f"{jobs:,} elastic jobs fill {hosts:,} nodes, half of them give up one": lambda: [
            *gpu_nodes(hosts),
            *running_elastic_jobs(jobs, [units // jobs - 1, units // jobs + 1] * (jobs // 2), hosts),
        ],
    }


def growth(scale: int) -> None:
    """How the cost grows with the number of nodes and of pods."""
    print("| nodes | pods in gangs | CPU | µs per pod | pods all different | CPU | µs per pod |")
    print("|---|---|---|---|---|---|---|")
    for nodes in (1_000, 2_000, 5_000, 10_000, 20_000):
        grow(nodes // scale, 5_000 // scale)
    for pods in (1_250, 2_500, 5_000, 10_000, 20_000):
        grow(5_000 // scale, pods // scale)


def grow(nodes: int, pods: int) -> None:
    """Print one row of the growth table."""
    in_gangs = planning(world([*mixed_nodes(nodes), *tyjob_gangs(pods)]))
    distinct = planning(world([*mixed_nodes(nodes), *distinct_pods(pods)]))
    cells = [f"{pods:,} | {t:.3f} s | {t / pods * 1e6:.0f}" for t in (in_gangs, distinct)]
    print(f"| {nodes:,} | {' | '.join(cells)} |", flush=True)


def row(title: str, view: BuiltSnapshot) -> None:
    """Print one row of the headline table."""
    spent, floor = planning(view), cpu(one_pass(view.snapshot))
    plan = cycle(view.snapshot, CONFIG)
    placed = len(plan.placements) or len(plan.nominations)
    tasks = max(sum(len(workload.missing) for workload in view.snapshot.unsettled), placed)
    each = f"{spent / floor / tasks:.1f}" if tasks else "-"
    cost = f"{spent * 1e3:.1f} ms | {floor * 1e6:.0f} µs | {spent / floor:,.0f} | {each}"
    print(f"| {title} | {placed:,} of {tasks:,} | {cost} |", flush=True)


def planning(view: BuiltSnapshot) -> float:
    """CPU time of one cycle over an up-to-date snapshot; cached properties of workloads are cleared."""

    def forget() -> None:
        for workload in view.snapshot.workloads:
            vars(workload).clear()

    return cpu(lambda: cycle(view.snapshot, CONFIG), forget)


def one_pass(snapshot: Snapshot) -> Callable[[], object]:
    """The floor: one look at every node for one pod."""
    alloc, used = snapshot.nodes.alloc, snapshot.used
    request = np.minimum(alloc[:, :1], 1)
    share = 1.0 / np.maximum(alloc, 1)

    def look() -> object:
        fits = (alloc - used >= request).all(axis=0)
        return np.where(fits, ((used + request) * share).sum(axis=0), -np.inf).argmax()

    return look


def cpu(work: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> float:
    """The least CPU time of several runs: anything above it is noise."""
    best = float("inf")
    for _ in range(ROUNDS):
        prepare()
        gc.collect()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def with_memory(build: Callable[[], BuiltSnapshot], pods: int) -> tuple[BuiltSnapshot, float]:
    """What is built, and its memory in KiB per pod."""
    gc.collect()
    tracemalloc.start()
    view = build()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return view, size / 1024 / pods


def world(objects: list[Raw]) -> BuiltSnapshot:
    """The snapshot of these objects; the last world is kept alive, as a scheduler would keep it."""
    cache_world = World(0.0)
    for raw in objects:
        cache_world.put(kinds.read(kinds.by_name()[raw["apiVersion"], raw["kind"]], raw))
    view = build_snapshot(cache_world, CONFIG, 0.0)
    _WORLDS.append(cache_world)
    del _WORLDS[:-1]
    return view


_WORLDS: list[World] = []


if __name__ == "__main__":
    main()
