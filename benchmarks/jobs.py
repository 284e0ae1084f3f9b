"""Jobs of one short process each in `shoal up`, compared to the same processes started by shims alone."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from daemons import resident_memory
from measuring import Row, throughput_row
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.port import Deletion, Selector
from shoal.cluster.resources import JOBS, PODS, Object
from shoal.kubelet.runtime import ContainerSpec, Runtime, open_runtime

NAMESPACE = "default"
MAIN = "main"
WRITERS = 16
"""Jobs that are submitted concurrently."""
POLL_INTERVAL = 0.1
"""Seconds between checks whether all pods are gone."""
PRINT_TIME = ("date", "+%s%N")
"""Prints the time of its start, in nanoseconds."""
NO_OP = ("true",)


class Bench:
    """Runs jobs through the API of a daemon, and the same processes in a runtime of its own."""

    def __init__(self, cluster: KubernetesCluster, home: Path, runtime: Runtime, bare: Path) -> None:
        self._cluster, self._home, self._runtime, self._bare = cluster, home, runtime, bare
        self._numbers = itertools.count()

    async def measure_latency(self, count: int) -> tuple[Row, Row]:
        """From a job's submission to the start of its process, without load: median and 99th percentile."""
        ours = [await self._submit_to_start() for _ in range(count)]
        floor = [await self._spawn_to_start() for _ in range(count)]
        middle, tail = (int(count * share) for share in (0.5, 0.99))
        ours.sort()
        floor.sort()
        return _latency(ours[middle], floor[middle], "≤ 100 ms"), _latency(
            ours[tail], floor[tail], "≤ 500 ms"
        )

    async def measure_throughput(self, count: int) -> Row:
        """Submit all jobs as fast as possible, and wait until the last has completed."""
        start = time.perf_counter()
        await self.run(count, NO_OP)
        taken = time.perf_counter() - start
        start = time.perf_counter()
        await asyncio.gather(*(self._spawn(NO_OP) for _ in range(count)))
        return throughput_row(count, taken, time.perf_counter() - start, "jobs", "")

    async def run(self, count: int, command: Sequence[str]) -> list[str]:
        """Submit jobs and wait until all have succeeded; return their names."""
        names = [f"job-{next(self._numbers)}" for _ in range(count)]
        waiting = iter(names)

        async def submit() -> None:
            for name in waiting:
                await self._cluster.create(JOBS, _job(name, command))

        finished = asyncio.create_task(self._wait_for_success(names))
        await asyncio.gather(*(submit() for _ in range(WRITERS)))
        await finished
        return names

    async def delete_jobs(self) -> None:
        """Delete all jobs, and wait until their pods are gone."""
        jobs = (await self._cluster.list(JOBS, Selector(NAMESPACE))).items
        for job in jobs:
            how = Deletion(propagation="Background")
            await self._cluster.delete(JOBS, job["metadata"]["name"], NAMESPACE, how)
        while (await self._cluster.list(PODS, Selector(NAMESPACE), limit=1)).items:  # noqa: ASYNC110 - a remote API
            await asyncio.sleep(POLL_INTERVAL)

    async def _submit_to_start(self) -> float:
        submitted = time.time_ns()
        (name,) = await self.run(1, PRINT_TIME)
        where = Selector(NAMESPACE, f"batch.kubernetes.io/job-name={name}")
        (pod,) = (await self._cluster.list(PODS, where)).items
        return (_start_time(self._home, pod["metadata"]["uid"]) - submitted) / 1e9

    async def _spawn_to_start(self) -> float:
        called = time.time_ns()
        return (_start_time(self._bare, await self._spawn(PRINT_TIME)) - called) / 1e9

    async def _spawn(self, command: Sequence[str]) -> str:
        """Run a process in the runtime to its end; return the name of its pod."""
        pod = f"bare-{next(self._numbers)}"
        environment = {"PATH": os.environ["PATH"]}
        spec = ContainerSpec(
            pod=pod, container=MAIN, attempt=0, argv=list(command), env=environment, cwd=str(self._bare)
        )
        run = await self._runtime.start(spec)
        assert (await run.wait()).code == 0
        return pod

    async def _wait_for_success(self, names: Iterable[str]) -> None:
        waiting = set(names)
        async with self._cluster.watch(JOBS, Selector(NAMESPACE)) as events:
            async for event in events:
                if event.object and event.object.get("status", {}).get("succeeded"):
                    waiting.discard(event.object["metadata"]["name"])
                if not waiting:
                    return
        raise AssertionError(f"{len(waiting)} jobs did not succeed")


@asynccontextmanager
async def open_bench(home: Path, bare: Path) -> AsyncIterator[Bench]:
    """A bench for the daemon of a home."""
    cluster = KubernetesCluster(find_access(str(home / "kubeconfig")))
    try:
        async with open_runtime(bare) as runtime:
            yield Bench(cluster, home, runtime, bare)
    finally:
        await cluster.close()


async def memory_growth(bench: Bench, pid: int, count: int) -> Row:
    """The memory of a daemon after `count` jobs, compared to that after half of them."""
    sizes = []
    for _ in range(2):
        await bench.run(count // 2, NO_OP)
        await bench.delete_jobs()
        sizes.append(resident_memory(pid))
    return Row(f"{sizes[1]:.0f} MiB", f"{sizes[0]:.0f} MiB", f"{sizes[1] / sizes[0]:.2f}", "flat")


def _latency(ours: float, floor: float, goal: str) -> Row:
    return Row(f"{ours * 1e3:.0f} ms", f"{floor * 1e3:.0f} ms", f"{ours / floor:.1f}", goal)


def _start_time(home: Path, pod: str) -> int:
    """The start time that `PRINT_TIME` has written to its log, in nanoseconds."""
    return int((home / "pods" / pod / "runs" / MAIN / "0" / "log").read_text().split()[-1])


def _job(name: str, command: Sequence[str]) -> Object:
    container = {"name": MAIN, "image": "none", "command": list(command)}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"template": template}}
