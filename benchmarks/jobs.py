"""Jobs of one short process each in a `shoal up`, beside the same processes through the same shims alone."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from daemons import resident
from measuring import Row, rates
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.port import Deletion, Selector
from shoal.cluster.resources import JOBS, PODS, Object
from shoal.kubelet.runtime import ContainerSpec, Runtime, open_runtime

SPACE = "default"
MAIN = "main"
WRITERS = 16
"""Jobs that are being submitted at one time."""
LOOKS = 0.1
"""Seconds from one look to the next whether all pods are gone."""
NOW = ("date", "+%s%N")
"""Says when it began, in nanoseconds."""
SHORT = ("true",)


class Bench:
    """A daemon, reached through its API, and a runtime of our own beside it."""

    def __init__(self, cluster: KubernetesCluster, home: Path, runtime: Runtime, bare: Path) -> None:
        self._cluster, self._home, self._runtime, self._bare = cluster, home, runtime, bare
        self._numbers = itertools.count()

    async def unloaded(self, count: int) -> tuple[Row, Row]:
        """From a job's submission to the first moment of its process, one job after another."""
        ours = [await self._submit_to_start() for _ in range(count)]
        floor = [await self._spawn_to_start() for _ in range(count)]
        half, tail = (int(count * share) for share in (0.5, 0.99))
        ours.sort()
        floor.sort()
        return _latency(ours[half], floor[half], "≤ 100 ms"), _latency(ours[tail], floor[tail], "≤ 500 ms")

    async def at_once(self, count: int) -> Row:
        """So many jobs, all submitted as soon as they can be, until the last is said to be complete."""
        start = time.perf_counter()
        await self.run(count, SHORT)
        taken = time.perf_counter() - start
        start = time.perf_counter()
        await asyncio.gather(*(self._spawn(SHORT) for _ in range(count)))
        return rates(count, taken, time.perf_counter() - start, "jobs", "")

    async def run(self, count: int, command: Sequence[str]) -> list[str]:
        """Submit jobs and wait until all have succeeded; their names."""
        names = [f"job-{next(self._numbers)}" for _ in range(count)]
        waiting = iter(names)

        async def submit() -> None:
            for name in waiting:
                await self._cluster.create(JOBS, _job(name, command))

        finished = asyncio.create_task(self._succeeded(names))
        await asyncio.gather(*(submit() for _ in range(WRITERS)))
        await finished
        return names

    async def clear(self) -> None:
        """Delete all jobs, and wait until their pods are gone."""
        jobs = (await self._cluster.list(JOBS, Selector(SPACE))).items
        for job in jobs:
            how = Deletion(propagation="Background")
            await self._cluster.delete(JOBS, job["metadata"]["name"], SPACE, how)
        while (await self._cluster.list(PODS, Selector(SPACE), limit=1)).items:  # noqa: ASYNC110 - from outside
            await asyncio.sleep(LOOKS)

    async def _submit_to_start(self) -> float:
        submitted = time.time_ns()
        (name,) = await self.run(1, NOW)
        where = Selector(SPACE, f"batch.kubernetes.io/job-name={name}")
        (pod,) = (await self._cluster.list(PODS, where)).items
        return (_said(self._home, pod["metadata"]["uid"]) - submitted) / 1e9

    async def _spawn_to_start(self) -> float:
        called = time.time_ns()
        return (_said(self._bare, await self._spawn(NOW)) - called) / 1e9

    async def _spawn(self, command: Sequence[str]) -> str:
        """Run a process through a shim, to its end; which pod it was."""
        pod = f"bare-{next(self._numbers)}"
        around = {"PATH": os.environ["PATH"]}
        spec = ContainerSpec(
            pod=pod, container=MAIN, attempt=0, argv=list(command), env=around, cwd=str(self._bare)
        )
        run = await self._runtime.start(spec)
        assert (await run.wait()).code == 0
        return pod

    async def _succeeded(self, names: Iterable[str]) -> None:
        waiting = set(names)
        async with self._cluster.watch(JOBS, Selector(SPACE)) as events:
            async for event in events:
                if event.object and event.object.get("status", {}).get("succeeded"):
                    waiting.discard(event.object["metadata"]["name"])
                if not waiting:
                    return
        raise AssertionError(f"{len(waiting)} jobs did not end")


@asynccontextmanager
async def bench(home: Path, bare: Path) -> AsyncIterator[Bench]:
    """A bench for the daemon of a home."""
    cluster = KubernetesCluster(find_access(str(home / "kubeconfig")))
    try:
        async with open_runtime(bare) as runtime:
            yield Bench(cluster, home, runtime, bare)
    finally:
        await cluster.close()


async def memory(one: Bench, pid: int, count: int) -> Row:
    """The memory of a daemon after so many jobs, beside what it had after half of them."""
    sizes = []
    for _ in range(2):
        await one.run(count // 2, SHORT)
        await one.clear()
        sizes.append(resident(pid))
    return Row(f"{sizes[1]:.0f} MiB", f"{sizes[0]:.0f} MiB", f"{sizes[1] / sizes[0]:.2f}", "flat")


def _latency(ours: float, floor: float, goal: str) -> Row:
    return Row(f"{ours * 1e3:.0f} ms", f"{floor * 1e3:.0f} ms", f"{ours / floor:.1f}", goal)


def _said(home: Path, pod: str) -> int:
    """What a process wrote that only wrote when it began."""
    return int((home / "pods" / pod / "runs" / MAIN / "0" / "log").read_text().split()[-1])


def _job(name: str, command: Sequence[str]) -> Object:
    container = {"name": MAIN, "image": "none", "command": list(command)}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"name": name, "namespace": SPACE}, "spec": {"template": template}}
