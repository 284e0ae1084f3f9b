"""Addresses of replicas: which are listed, and how a request waits for others."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.api.managed import ManagedPod
from shoal.cluster.port import Deletion
from shoal.cluster.resources import PODS
from shoal.controllers.jobs.owners import JOB_UID
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob.replicas import addresses
from shoal.kinds.dijob.types import ManagedDIJob
from shoal.server.calls import WAIT_SECONDS
from shoal.simulator import Simulation, run
from tests.server.serving import DIJOBS, TEMPLATE, Server, di_server, home

REPLICAS = "/v2alpha1/default.job/replicas"
PORTS = {
    "spec": {
        "containers": [{"name": "side"}, {"name": "w", "ports": [{"name": "di-port", "containerPort": 7}]}]
    }
}


def pod(
    rank: int, ip: str = "", phase: str = "Running", *, leaving: bool = False, name: str = ""
) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name or f"job-0-{rank}", "namespace": "default", "uid": f"uid-{rank}"}
    meta |= {"labels": {"diengine/rank": str(rank), JOB_UID: "uid"}, "finalizers": ["shoal.io/tracking"]}
    if leaving:
        meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return {"metadata": meta, "status": {"phase": phase, "podIP": ip}}


def learner(replicas: int, template: dict[str, Any] = TEMPLATE) -> dict[str, Any]:
    return {"type": "learner", "replicas": replicas, "template": template}


LISTS: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], list[str]]] = {
    "before there are pods": ({"minReplicas": 2}, {}, [], ["", ""]),
    "the default port": ({}, {}, [pod(0, "10.0.0.1")], ["10.0.0.1:22270"]),
    "the port of the right name, in any container": (
        {"template": PORTS},
        {},
        [pod(0, "10.0.0.1")],
        ["10.0.0.1:7"],
    ),
    "an address of IPv6": ({}, {}, [pod(0, "fd00::1")], ["[fd00::1]:22270"]),
    "in the order of ranks": (
        {"minReplicas": 3},
        {},
        [pod(2, "10.0.0.3"), pod(0, "10.0.0.1")],
        ["10.0.0.1:22270", "", "10.0.0.3:22270"],
    ),
    "ranks that were allocated, with a hole": (
        {"preemptible": True, "minReplicas": 1, "maxReplicas": 4},
        {"allocation": ["a", "", "c"]},
        [pod(0, "10.0.0.1"), pod(2, "10.0.0.3")],
        ["10.0.0.1:22270", "", "10.0.0.3:22270"],
    ),
    "surplus ranks are left out": (
        {"preemptible": True, "minReplicas": 1, "maxReplicas": 4},
        {"allocation": ["a"]},
        [pod(0, "10.0.0.1"), pod(1, "10.0.0.2")],
        ["10.0.0.1:22270"],
    ),
    "also between wanted ones": (
        {"preemptible": True, "minReplicas": 1, "maxReplicas": 4},
        {"allocation": ["a", "", "c"]},
        [pod(0, "10.0.0.1"), pod(1, "10.0.0.2")],
        ["10.0.0.1:22270", "", ""],
    ),
    "scaled to 0": ({"minReplicas": 0}, {"replicas": 0}, [pod(0, "10.0.0.1")], []),
    "a pod that is being deleted": ({}, {}, [pod(0, "10.0.0.1", leaving=True)], [""]),
    "a pod that has ended": ({}, {}, [pod(0, "10.0.0.1", "Failed")], [""]),
    "a pod that waits for its node": ({}, {}, [pod(0, "", "Pending")], [""]),
    "tasks, each with its port": (
        {"tasks": [learner(1, PORTS), {"type": "collector", "replicas": 1, "template": TEMPLATE}]},
        {"workers": [{"rank": 0, "pod": "job-learner-0"}, {"rank": 1, "pod": "job-collector-0"}]},
        [pod(0, "10.0.0.1", name="job-learner-0"), pod(1, "10.0.0.2", name="job-collector-0")],
        ["10.0.0.1:7", "10.0.0.2:22270"],
    ),
}


@pytest.mark.parametrize("spec, status, pods, expected", LISTS.values(), ids=LISTS)
def test_what_is_listed(
    spec: dict[str, Any], status: dict[str, Any], pods: list[dict[str, Any]], expected: list[str]
) -> None:
    full = spec if "tasks" in spec else {"template": TEMPLATE} | spec
    meta = {"name": "job", "namespace": "default", "uid": "uid"}
    job = msgspec.convert({"metadata": meta, "spec": full, "status": status}, ManagedDIJob)
    found = addresses(job, [msgspec.convert(one, ManagedPod) for one in pods], SchedulerConfig())
    assert list(found) == expected


# --- on a home ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["embedded", "simulated"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    async with home(request.param, tmp_path) as cluster, di_server(cluster) as running:
        yield running


async def test_the_list_follows_the_pods(server: Server) -> None:
    job = await server.create(minReplicas=2)
    seen = [await server.ask("GET", REPLICAS)]
    first = await server.create_pod(job, 0, ip="10.0.0.1")
    seen.append(await server.wait_for(REPLICAS, ["10.0.0.1:22270", ""]))
    await server.set_address(first, "10.0.0.9")
    seen.append(await server.wait_for(REPLICAS, ["10.0.0.9:22270", ""]))
    await server.cluster.delete(PODS, first["metadata"]["name"], "default", Deletion(grace=0))
    seen.append(await server.wait_for(REPLICAS, ["", ""]))
    versions = [answer.body["resourceVersion"] for answer in seen]
    assert versions[0] == versions[3]
    assert len(set(versions)) == 3


async def test_pods_of_others_are_not_listed(server: Server) -> None:
    job, other = await server.create(), await server.create("other")
    stranger = await server.create_pod(other, 0, ip="10.0.0.2", name="job-0-0")
    await server.wait_for("/v2alpha1/default.other/replicas", ["10.0.0.2:22270"])
    assert stranger["metadata"]["name"] == "job-0-0"
    answer = await server.ask("GET", REPLICAS, token=server.token(job))
    assert answer.data == [""]


async def test_a_request_waits_for_another_list(server: Server) -> None:
    job = await server.create(minReplicas=2)
    version = (await server.ask("GET", REPLICAS)).body["resourceVersion"]
    waiting = [
        asyncio.create_task(server.ask("GET", f"{REPLICAS}?resourceVersion={version}")) for _ in range(3)
    ]
    await server.set_status(job, readyReplicas=1)  # a change that is none of the list
    assert not any(one.done() for one in waiting)
    await server.create_pod(job, 1, ip="10.0.0.2")
    answers = await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert [answer.data for answer in answers] == [["", "10.0.0.2:22270"]] * 3


@pytest.mark.parametrize("version", ["", "0123456789abcdef"])
async def test_a_request_with_another_version_does_not_wait(version: str, server: Server) -> None:
    await server.create()
    answer = await server.ask("GET", f"{REPLICAS}?resourceVersion={version}")
    assert (answer.status, answer.data) == (200, [""])


async def test_a_request_that_waits_ends_when_the_job_is_deleted(server: Server) -> None:
    job = await server.create()
    version = (await server.ask("GET", REPLICAS)).body["resourceVersion"]
    path = f"{REPLICAS}?resourceVersion={version}"
    own = asyncio.create_task(server.ask("GET", path, token=server.token(job)))
    users = asyncio.create_task(server.ask("GET", path))
    await asyncio.sleep(0)
    await server.cluster.delete(DIJOBS, "job", "default")
    answers = await asyncio.wait_for(asyncio.gather(own, users), 60)
    assert [answer.status for answer in answers] == [401, 404]


async def test_a_server_that_stops_answers_requests_that_wait(server: Server) -> None:
    await server.create()
    version = (await server.ask("GET", REPLICAS)).body["resourceVersion"]
    waiting = asyncio.create_task(server.ask("GET", f"{REPLICAS}?resourceVersion={version}"))
    await asyncio.sleep(0)
    server.app.stop()
    assert (await asyncio.wait_for(waiting, 60)).data == [""]


def test_a_request_waits_for_a_minute_at_most() -> None:
    async def main(_: Simulation) -> tuple[float, Any, Any]:
        async with home("simulated", Path()) as cluster, di_server(cluster) as server:
            await server.create()
            first = await server.ask("GET", REPLICAS)
            loop = asyncio.get_running_loop()
            started = loop.time()
            path = f"{REPLICAS}?resourceVersion={first.body['resourceVersion']}"
            second = await server.ask("GET", path)
            return loop.time() - started, first.body, second.body

    waited, first, second = run(main)
    assert waited == pytest.approx(WAIT_SECONDS)
    assert first == second
