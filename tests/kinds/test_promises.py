"""The check of promises about jobs: each violation is found, and a job that keeps them has none."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shoal.cluster.resources import PODS, Object, resource_of
from shoal.simulator import SimulatedCluster, Simulation, run
from tests.kinds.dijob.scenarios import di
from tests.kinds.promises import JobPromises

DIJOBS = resource_of("DIJob")
FINALIZER = "shoal.io/tracking"
Story = Callable[["Writer"], Awaitable[None]]


class Writer:
    """Writes a DIJob and its pods, right or wrong."""

    def __init__(self, cluster: SimulatedCluster, job: Object) -> None:
        self.cluster, self.job = cluster, job

    async def pod(self, rank: int, generation: int = 0, *, own_rank: int | None = None) -> Object:
        """Create a pod of a rank; its environment says that it has `own_rank`."""
        name = f"job-{generation}-{rank}"
        numbers = {"diengine/rank": str(rank)}
        hosts = ",".join(f"job-{one}.di-job.default.svc.cluster.local" for one in range(3))
        env = {"DI_RANK": str(rank if own_rank is None else own_rank), "DI_NODES": hosts}
        owner = {"apiVersion": DIJOBS.api_version, "kind": "DIJob", "name": "job", "controller": True}
        metadata = {
            "name": name,
            "namespace": "default",
            "labels": numbers,
            "annotations": numbers | {"diengine/generation": str(generation)},
            "finalizers": [FINALIZER],
            "ownerReferences": [owner | {"uid": self.job["metadata"]["uid"]}],
        }
        variables = [{"name": key, "value": value} for key, value in env.items()]
        container = {"name": "main", "image": "x", "env": variables}
        spec = {"containers": [container], "hostname": f"job-{rank}", "subdomain": "di-job"}
        made = await self.cluster.create(PODS, {"metadata": metadata, "spec": spec})
        await self.cluster.bind(name, "default", "n")
        return made

    async def phase(self, pod: Object, phase: str) -> None:
        name = pod["metadata"]["name"]
        await self.cluster.patch_status(PODS, name, "default", patch={"status": {"phase": phase}})

    async def release(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        await self.cluster.patch(PODS, name, "default", patch={"metadata": {"finalizers": None}})

    async def status(self, phase: str = "Running", **fields: Any) -> None:  # noqa: ANN401 - as JSON has it
        conditions = [{"type": phase, "status": "True", "reason": "R"}]
        patch = {"status": {"phase": phase, "conditions": conditions} | fields}
        await self.cluster.patch_status(DIJOBS, "job", "default", patch=patch)

    async def end(self, pod: Object, phase: str, **fields: Any) -> None:  # noqa: ANN401 - as JSON has it
        """End a pod, count it, and release it."""
        await self.phase(pod, phase)
        await self.status(counted=[pod["metadata"]["uid"]], **fields)
        await self.release(pod)


def worker(rank: int, **fields: Any) -> Object:  # noqa: ANN401 - as JSON has it
    return {"rank": rank} | fields


async def a_rank_fails_and_another_succeeds(write: Writer) -> None:
    first, second = await write.pod(0), await write.pod(1)
    await write.status(generation=0, workers=[worker(0), worker(1)])
    await write.phase(first, "Running")
    await write.phase(second, "Running")
    await write.end(first, "Failed", failures=1)
    third = await write.pod(0, 1)
    await write.end(second, "Succeeded", generation=1)
    await write.end(third, "Succeeded")
    await write.status("Succeeded")


async def two_pods_of_a_rank(write: Writer) -> None:
    await write.pod(0)
    await write.pod(0, 1)


async def a_rank_runs_after_its_success(write: Writer) -> None:
    await write.end(await write.pod(0), "Succeeded")
    await write.phase(await write.pod(0, 1), "Running")


async def two_pods_of_a_rank_in_a_generation(write: Writer) -> None:
    first = await write.pod(0)
    await write.end(first, "Failed")
    await write.cluster.delete(PODS, "job-0-0", "default")
    await write.pod(0)


async def a_pod_that_is_not_where_it_says(write: Writer) -> None:
    await write.pod(1, own_rank=2)


async def released_before_it_is_counted(write: Writer) -> None:
    pod = await write.pod(0)
    await write.phase(pod, "Failed")
    await write.release(pod)


async def counted_while_it_runs(write: Writer) -> None:
    await write.status(counted=[(await write.pod(0))["metadata"]["uid"]])


async def counted_twice(write: Writer) -> None:
    pod = await write.pod(0)
    await write.end(pod, "Failed")
    await write.status(counted=[])
    await write.status(counted=[pod["metadata"]["uid"]])


async def two_failures_for_one(write: Writer) -> None:
    await write.end(await write.pod(0), "Failed", failures=2)


async def a_job_that_runs_after_its_end(write: Writer) -> None:
    await write.status("Failed")
    await write.status("Running")


async def a_phase_without_its_condition(write: Writer) -> None:
    await write.status("Running", conditions=[])


async def a_generation_that_falls(write: Writer) -> None:
    await write.status(generation=2)
    await write.status(generation=1)


STORIES: dict[str, tuple[Story, str]] = {
    "slot 0 has 2 pods": (two_pods_of_a_rank, "slot 0 has 2 pods"),
    "a rank that succeeded": (
        a_rank_runs_after_its_success,
        "job-1-0 runs in slot 0, in which job-0-0 succeeded",
    ),
    "one generation": (two_pods_of_a_rank_in_a_generation, "rank 0 has a second pod in generation 0"),
    "DI_NODES": (a_pod_that_is_not_where_it_says, "DI_NODES of job-0-1 has"),
    "released": (released_before_it_is_counted, "job-0-0 was released before its end was counted"),
    "counted while it runs": (counted_while_it_runs, "is counted, and it has not ended"),
    "counted twice": (counted_twice, "the end of job-0-0 is counted twice"),
    "cost": (two_failures_for_one, "1 failures cost 2"),
    "finished": (a_job_that_runs_after_its_end, "it was Failed, and is Running"),
    "conditions": (a_phase_without_its_condition, "it is Running, and these conditions are True: []"),
    "counters": (a_generation_that_falls, "generation falls from 2 to 1"),
}


def violations(story: Story) -> list[str]:
    found: list[str] = []

    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(clock=simulation.clock, rng=simulation.rng("store")) as cluster:
            cluster.commit_observers.append(JobPromises(found))
            body = di() | {"metadata": {"name": "job", "namespace": "default"}}
            await story(Writer(cluster, await cluster.create(DIJOBS, body)))

    run(main)
    return found


def test_a_job_that_keeps_its_promises() -> None:
    assert violations(a_rank_fails_and_another_succeeds) == []


@pytest.mark.parametrize("name", STORIES)
def test_violations_are_found(name: str) -> None:
    story, text = STORIES[name]
    found = violations(story)
    assert any(text in one for one in found), found
