"""Fake controllers of jobs: they create the pods that the status of a job allows, and never delete any."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count, islice

from shoal.cluster.errors import AlreadyExistsError
from shoal.cluster.port import Cluster, Selector
from shoal.cluster.resources import PODS, Object, resource_of

PERIOD = 0.05
"""Seconds between two lists of the jobs."""

Wanted = tuple[str, Object, dict[str, str]]
"""A pod's name, its template and its labels."""


@asynccontextmanager
async def run_fake_controllers(cluster: Cluster, namespace: str) -> AsyncIterator[None]:
    """Create the pods of jobs until the block ends."""
    task = asyncio.create_task(_work(cluster, Selector(namespace)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _work(cluster: Cluster, selector: Selector) -> None:
    while True:
        pods = {pod["metadata"]["name"] for pod in (await cluster.list(PODS, selector)).items}
        for resource, wanted in (
            (resource_of("TYJob"), _ty),
            (resource_of("DIJob"), _di),
            (resource_of("TrainingJob"), _training),
        ):
            for job in (await cluster.list(resource, selector)).items:
                await _make(cluster, job, wanted, pods)
        await asyncio.sleep(PERIOD)


async def _make(
    cluster: Cluster, job: Object, wanted: Callable[[Object, set[str]], Iterator[Wanted]], pods: set[str]
) -> None:
    meta = job["metadata"]
    owner = {key: job[key] for key in ("apiVersion", "kind")}
    owner |= {"name": meta["name"], "uid": meta["uid"], "controller": True}
    for name, template, labels in wanted(job, pods):
        metadata = {
            "name": name,
            "namespace": meta["namespace"],
            "ownerReferences": [owner],
            "labels": labels,
        }
        body = {"metadata": metadata, "spec": {"schedulerName": "shoal", **template["spec"]}}
        if name not in pods:
            with suppress(AlreadyExistsError):
                await cluster.create(PODS, body)


def _ty(job: Object, _: set[str]) -> Iterator[Wanted]:
    """Every pod that has an allocation."""
    spec, name = job["spec"], job["metadata"]["name"]
    templates = {f"{name}-{spec['leader']['name']}": spec["leader"]["template"]}
    for workers in spec["workerSets"]:
        made = {f"{name}-{workers['name']}-{i}": workers["template"] for i in range(workers["counts"])}
        templates |= made
    for pod in job.get("status", {}).get("allocations", {}):
        if pod in templates:
            yield pod, templates[pod], {}


def _di(job: Object, _: set[str]) -> Iterator[Wanted]:
    """Every rank that has a node; of one that is not preemptible, all of its minimum."""
    spec, status, name = job["spec"], job.get("status", {}), job["metadata"]["name"]
    nodes = status.get("allocation", ()) if spec.get("preemptible") else ["any"] * spec["minReplicas"]
    for rank, node in enumerate(nodes):
        if node:
            yield f"{name}-0-{rank}", spec["template"], {"diengine/rank": str(rank)}


def _training(job: Object, pods: set[str]) -> Iterator[Wanted]:
    """Every pod that has an allocation; and the desired number of pods of each role, by lowest indices."""
    name, status = job["metadata"]["name"], job.get("status", {})
    allocated = status.get("allocations", {})
    for role, size in status.get("replicas", {}).items():
        container = {"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}
        container |= {"resources": job["spec"][role]["resources"]}
        prefix = f"{name}-{role}-"
        wanted = {pod for pod in {*pods, *allocated} if pod.startswith(prefix)}
        names = (f"{prefix}{i}" for i in count())
        more = islice((pod for pod in names if pod not in wanted), max(size["desired"] - len(wanted), 0))
        for pod in sorted({*wanted, *more}):
            yield pod, {"spec": {"containers": [container]}}, {}
