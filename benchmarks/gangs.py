"""DIJobs of sleeping workers in `shoal up`, compared to a loop that spawns the same processes."""

import asyncio
import itertools
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from measuring import Row
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.port import Deletion, Selector
from shoal.cluster.resources import PODS, Object, resource_of

NAMESPACE = "default"
DIJOBS = resource_of("DIJob")
READY_AND_SLEEP = ("sh", "-c", "echo ready; exec sleep 1000")
"""What a worker does: print one line, and stay."""
POLL_INTERVAL = 0.05
"""Seconds between checks whether all pods are gone."""


class GangBench:
    """Starts and grows DIJobs through the API of a daemon."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster
        self._numbers = itertools.count()

    async def measure_start(self, workers: int, rounds: int) -> Row:
        """From the submission of a job until all its workers run; the best of some rounds."""
        ours = min([await self._start_once(workers) for _ in range(rounds)])
        floor = min(spawn_and_wait(workers) for _ in range(rounds))
        return _row(ours, floor)

    async def measure_growth(self, workers: int, rounds: int) -> Row:
        """From the request for one more worker until it runs; the best of some rounds."""
        times = []
        for _ in range(rounds):
            async with self._running(workers) as name:
                start = time.perf_counter()
                await self._cluster.patch_status(
                    DIJOBS, name, NAMESPACE, patch={"status": {"replicas": workers + 1}}
                )
                await self._until(name, lambda status: status.get("readyReplicas") == workers + 1)
                times.append(time.perf_counter() - start)
        return _row(min(times), min(spawn_and_wait(1) for _ in range(rounds)))

    async def _start_once(self, workers: int) -> float:
        start = time.perf_counter()
        async with self._running(workers):
            return time.perf_counter() - start

    @asynccontextmanager
    async def _running(self, workers: int) -> AsyncIterator[str]:
        """A running job; it is deleted at the end."""
        name = f"gang-{next(self._numbers)}"
        await self._cluster.create(DIJOBS, _dijob(name, workers))
        try:
            await self._until(name, lambda status: status.get("phase") == "Running")
            yield name
        finally:
            await self._cluster.delete(DIJOBS, name, NAMESPACE, Deletion(propagation="Background"))
            while (await self._cluster.list(PODS, Selector(NAMESPACE), limit=1)).items:  # noqa: ASYNC110 - a remote API
                await asyncio.sleep(POLL_INTERVAL)

    async def _until(self, name: str, reached: Callable[[dict[str, Any]], bool]) -> None:
        async with self._cluster.watch(DIJOBS, Selector(NAMESPACE)) as events:
            async for event in events:
                job = event.object
                if job and job["metadata"]["name"] == name and reached(job.get("status", {})):
                    return
        raise AssertionError(f"the watch ended before {name} came so far")


@asynccontextmanager
async def open_gang_bench(home: Path) -> AsyncIterator[GangBench]:
    """A bench for the daemon of a home."""
    cluster = KubernetesCluster(find_access(str(home / "kubeconfig")))
    try:
        yield GangBench(cluster)
    finally:
        await cluster.close()


def spawn_and_wait(workers: int) -> float:
    """Spawn workers in a loop; return the seconds until each has printed its line."""
    start = time.perf_counter()
    processes = [
        subprocess.Popen(READY_AND_SLEEP, stdout=subprocess.PIPE, text=True)  # noqa: S603
        for _ in range(workers)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    taken = time.perf_counter() - start
    for process in processes:
        process.kill()
        process.communicate()
    return taken


def _row(ours: float, floor: float) -> Row:
    return Row(f"{ours * 1e3:.0f} ms", f"{floor * 1e3:.0f} ms", f"{ours / floor:.0f}", "")


def _dijob(name: str, workers: int) -> Object:
    container = {"name": "main", "image": "none", "command": list(READY_AND_SLEEP)}
    spec = {
        "minReplicas": workers,
        "engineFields": {"topology": "alone"},
        "template": {"spec": {"containers": [container]}},
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
