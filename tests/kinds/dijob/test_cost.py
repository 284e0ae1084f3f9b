"""What DIJobs cost: writes for a job with many ranks, and the resources that their pods request."""

import asyncio
from functools import partial

import pytest

from shoal.api.decode import decode
from shoal.cluster.errors import InvalidError
from shoal.cluster.port import Selector
from shoal.cluster.resources import EVENTS, PODS, Object, resource_of
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob import workload
from shoal.kinds.dijob.controller import dijob_controller
from shoal.kinds.dijob.types import DIJob
from shoal.kinds.pod_classes import PodClassCache
from tests.controllers.harness import observe, registry, run_runtime
from tests.controllers.virtual_time import run_virtual
from tests.kinds.dijob.cases import DIJobCluster, make_job
from tests.kinds.dijob.scenarios import di

CONTROLLER = partial(dijob_controller, config=SchedulerConfig())
DIJOBS = resource_of("DIJob")


def test_many_pods_cost_one_status_write_before_them_and_one_after() -> None:
    async def scenario() -> list[str]:
        async with registry() as store:
            port, cluster = observe(store)
            async with run_runtime(cluster, [CONTROLLER]):
                job = di(minReplicas=500, engineFields={"topology": "alone"})
                await store.create(DIJOBS, job | {"metadata": {"name": "job", "namespace": "default"}})
                await asyncio.sleep(60)
            return port.writes

    writes = [write for write in run_virtual(scenario) if not write.endswith("events")]
    assert writes.count("create pods") == 500
    assert writes.count("patch_status dijobs") == 2
    assert len(writes) == 504, "besides these only the service and the host files"


@pytest.mark.parametrize("verb", ["create", "delete"])
def test_a_refused_write_is_an_event(verb: str) -> None:
    """The API server refuses to create the pod, or to delete one that is too many."""

    async def scenario() -> list[Object]:
        async with registry() as store:

            def refuse(write: str) -> None:
                if write == f"{verb} pods":
                    raise InvalidError("the quota is exceeded")

            _, cluster = observe(store, before=refuse)
            async with run_runtime(cluster, [CONTROLLER]):
                body = di() | {"metadata": {"name": "job", "namespace": "default"}}
                await store.create(DIJOBS, body)
                await asyncio.sleep(5)
                await store.patch_status(DIJOBS, "job", "default", patch={"status": {"replicas": 0}})
                await asyncio.sleep(5)
            return (await store.list(EVENTS)).items

    found = {event["reason"]: event for event in run_virtual(scenario)}
    event = found[f"Failed{verb.capitalize()}"]
    assert (event["type"], event["regarding" if "regarding" in event else "involvedObject"]["name"]) == (
        "Warning",
        "job",
    )
    assert event["message"] == f"{verb.capitalize()} pods job-0-0: the quota is exceeded"


def test_a_name_that_becomes_free_is_taken_at_once() -> None:
    """It does not wait for a retry, whose delay has grown to a minute by then."""

    async def scenario() -> tuple[set[str], Object, list[Object]]:
        async with registry() as store:
            body = {"containers": [{"name": "w", "image": "x"}]}
            await store.create(PODS, {"metadata": {"name": "job-0-0", "namespace": "default"}, "spec": body})
            async with run_runtime(store, [CONTROLLER]):
                made = await store.create(
                    DIJOBS, di() | {"metadata": {"name": "job", "namespace": "default"}}
                )
                await asyncio.sleep(900)
                events = {event["reason"] for event in (await store.list(EVENTS)).items}
                await store.delete(PODS, "job-0-0", "default")
                await asyncio.sleep(1)
                return events, made, (await store.list(PODS, Selector("default"))).items

    events, made, pods = run_virtual(scenario)
    assert "NameTaken" in events
    assert [pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods] == [made["metadata"]["uid"]]


TEMPLATES: dict[str, Object] = {
    "requests": {"requests": {"cpu": "500m", "memory": "1Gi"}},
    "limits only": {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}},
    "both": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "2Gi"}},
    "nothing": {},
}


@pytest.mark.parametrize("preemptible", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_pods_request_what_was_planned_for_them(name: str, preemptible: bool) -> None:  # noqa: FBT001 - a case
    containers = [
        {"name": "main", "image": "x", "resources": TEMPLATES[name]},
        {"name": "sidecar", "image": "x", "resources": {"requests": {"cpu": "100m"}}},
    ]
    first = [{"name": "init", "image": "x", "resources": {"requests": {"cpu": "3"}}}]
    template = {"spec": {"containers": containers, "initContainers": first}}
    cluster = DIJobCluster(make_job(template=template, preemptible=preemptible))
    cluster.status["allocation"] = ["n"]
    cluster.settle()
    classes = PodClassCache()
    job = decode(DIJob, {"apiVersion": DIJOBS.api_version, "kind": "DIJob"} | cluster.job)
    planned = workload.workload_spec(job, classes, (), 0.0)
    assert planned
    made = classes.of_template("default", {"spec": cluster.pods["job-0-0"]["spec"]})
    assert planned.slots[0].pod_class.shape is made.shape, "one shape for all with the same requirements"
    other = classes.of_template("default", {"spec": {"containers": containers[1:]}})
    assert other.shape is not made.shape
