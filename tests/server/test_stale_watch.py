"""A server whose watch lags behind: it refuses and skips nothing because of what it does not know yet."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shoal.cluster.port import Cluster
from shoal.cluster.resources import Resource
from shoal.simulator import Connection, FaultInjector, Schedule, Simulation, run
from shoal.simulator.schedule import BreakWatch
from tests.server.serving import Answer, Json, di_server, home

ONE = {"replicas": 1}
REPLICAS = "/v2alpha1/default.job/replicas"
BROKEN = Schedule((BreakWatch(at=10.0, seconds=3600.0),))
"""From the tenth second on no watch delivers anything."""


@dataclass
class Case:
    """A request to a server that knows the status `before`, of a job that has the status `now`."""

    method: str
    path: str
    body: Json
    before: dict[str, Any]
    now: dict[str, Any]
    status: int
    after: dict[str, Any]


CASES = {
    "a pod of a later generation": Case(
        "GET",
        "/v2alpha1/default.job.1/replicas",
        None,
        {"generation": 0},
        {"generation": 1},
        200,
        {"generation": 1},
    ),
    "a size that is not the largest any more": Case(
        "POST",
        REPLICAS,
        ONE,
        {"requestedReplicas": 8},
        {"requestedReplicas": 3},
        200,
        {"requestedReplicas": 4},
    ),
    "a size that is the largest by now": Case(
        "POST",
        REPLICAS,
        ONE,
        {"requestedReplicas": 3},
        {"requestedReplicas": 8},
        409,
        {"requestedReplicas": 8},
    ),
    "a size that is not the smallest any more": Case(
        "DELETE",
        REPLICAS,
        ONE,
        {"requestedReplicas": 1},
        {"requestedReplicas": 3},
        200,
        {"requestedReplicas": 2},
    ),
    "a report of what was true before": Case(
        "POST",
        "/v2alpha1/default.job/profilings",
        {"data": {"a": 1}},
        {"profilings": {"a": 1}},
        {"profilings": {"a": 2}},
        200,
        {"profilings": {"a": 1}},
    ),
    "a job that has finished by now": Case(
        "POST", REPLICAS, ONE, {"phase": "Running"}, {"phase": "Failed"}, 409, {"phase": "Failed"}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_server_decides_by_the_present_state(case: Case) -> None:
    async def main(simulation: Simulation) -> tuple[Answer, Json]:
        async with home("simulated", Path()) as store, di_server(store) as informed:
            job = await informed.create()
            known = await informed.set_status(job, **case.before)
            faults = FaultInjector(BROKEN, simulation.clock)
            async with di_server(Connection(store, faults)) as stale:
                await asyncio.sleep(20)
                await informed.set_status(job, **case.now)
                found = stale.jobs.kinds["dijobs"].by_uid(job["metadata"]["uid"])
                assert found is not None
                assert found.metadata.resource_version == known["metadata"]["resourceVersion"]
                answer = await stale.ask(case.method, case.path, case.body, token=stale.token(job))
            return answer, await informed.status(job)

    answer, status = run(main)
    assert (answer.status, status) == (case.status, case.after), answer


class CountingReads:
    """A cluster that counts what is read of it, one object at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self.reads = cluster, 0

    def __getattr__(self, name: str) -> Json:
        return getattr(self._cluster, name)

    async def get(self, resource: Resource[Json], name: str, namespace: str = "") -> Json:
        self.reads += 1
        return await self._cluster.get(resource, name, namespace)


@pytest.mark.parametrize("name", ["job", "job.0"])
async def test_reading_addresses_asks_the_cluster_for_nothing(name: str, tmp_path: Path) -> None:
    async with home("embedded", tmp_path) as opened:
        cluster = CountingReads(opened)
        async with di_server(cluster) as server:
            job = await server.create()
            cluster.reads = 0
            for token in ("administrator's token", server.token(job)):
                answer = await server.ask("GET", f"/v2alpha1/default.{name}/replicas", token=token)
                assert answer.status == 200
    assert cluster.reads == 0
