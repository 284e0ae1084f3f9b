"""The library against the real DI server, over HTTPS with the certificate authority of the job."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.apiserver.credentials import Credentials
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Object, resource_of
from shoal.controllers.jobs.tokens import fetch_key, job_token
from shoal.server.callers import Administrator
from shoal.server.serving import Listener, ServerOptions, serving_jobs
from shoal.worker import ServerError, Worker
from tests.server.serving import home

TIMEOUT = 30.0
TEMPLATE: Object = {"spec": {"containers": [{"name": "w", "image": "x", "command": ["x"]}]}}
JOBS: Mapping[str, Object] = {
    "DIJob": {"template": TEMPLATE, "preemptible": True, "minReplicas": 1, "maxReplicas": 3},
    "TYJob": {
        "leader": {"name": "learner", "template": TEMPLATE},
        "workerSets": [{"name": "actor", "template": TEMPLATE}],
    },
}


@asynccontextmanager
async def worker_of(kind: str, cluster: Cluster, directory: Path) -> AsyncIterator[Worker]:
    """A worker of a job, with the environment that its pod would have."""
    resource = resource_of(kind)
    meta = {"name": "job", "namespace": "default"}
    job = await cluster.create(resource, {"metadata": meta, "spec": JOBS[kind]})
    credentials = Credentials(directory / "certificates")
    key = await fetch_key(cluster)
    options = ServerOptions(key=key, users=Administrator("administrator"))
    listener = Listener(certificate=str(credentials.certificate), key=str(credentials.key))
    token = job_token(key, job["metadata"]["uid"])
    (directory / "token").write_text(token)
    async with serving_jobs(cluster, options, listener) as server:
        path = f"/v1/{resource.plural}/default/job/trainer-status"
        variables = {
            "KUBEFLOW_TRAINER_SERVER_URL": server.url + path,
            "KUBEFLOW_TRAINER_SERVER_TOKEN": str(directory / "token"),
            "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(credentials.authority),
        }
        if kind == "DIJob":
            variables |= {"DI_SERVER_URL": server.url, "DI_SERVER_TOKEN": token, "DI_JOB_ID": "default.job.0"}
        await server.jobs.synced()
        yield Worker(variables)


async def status_of(kind: str, cluster: Cluster) -> dict[str, Any]:
    status: dict[str, Any] = (await cluster.get(resource_of(kind), "job", "default")).get("status", {})
    return status


@pytest.mark.parametrize(
    "kind, profilings",
    [
        ("DIJob", {"progress": 12.5, "loss": 0.25}),
        ("TYJob", {"progress": 12, "metrics": {"loss": 0.25}}),
    ],
)
async def test_reports_arrive(kind: str, profilings: object, tmp_path: Path) -> None:
    async with home("embedded", tmp_path) as cluster, worker_of(kind, cluster, tmp_path) as worker:
        worker.report(progress=12.5, loss=0.25)
        assert await asyncio.to_thread(worker.flush, TIMEOUT)
        assert (await status_of(kind, cluster))["profilings"] == profilings


async def test_a_job_is_resized_within_its_limits(tmp_path: Path) -> None:
    async with home("embedded", tmp_path) as cluster, worker_of("DIJob", cluster, tmp_path) as worker:
        assert await asyncio.to_thread(worker.scale, 2) == 3
        with pytest.raises(ServerError, match="maxReplicas") as refused:
            await asyncio.to_thread(worker.scale, 1)
        assert refused.value.status == 409
        assert await asyncio.to_thread(worker.scale, -1) == 2
        assert (await status_of("DIJob", cluster))["requestedReplicas"] == 2
