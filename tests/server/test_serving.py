"""The server on a socket: plain HTTP and HTTPS, and addresses that cannot be used."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.apiserver.credentials import Credentials
from shoal.apiserver.http.server import ListenError
from shoal.cluster.port import Cluster
from shoal.server.callers import Administrator
from shoal.server.serving import Listener, ServerOptions, serving_jobs
from tests.k8s.access import Client
from tests.server.serving import ADMIN, DIJOBS, TEMPLATE, home

OPTIONS = ServerOptions(key=bytes(32), users=Administrator(ADMIN))
PATH = "/v2alpha1/default.job/replicas"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A home with the job `default/job`."""
    async with home("embedded", tmp_path) as opened:
        body = {"metadata": {"name": "job", "namespace": "default"}, "spec": {"template": TEMPLATE}}
        await opened.create(DIJOBS, body)
        yield opened


async def test_plain_http_on_an_ephemeral_port(cluster: Cluster) -> None:
    async with serving_jobs(cluster, OPTIONS) as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
        client = Client(server.url, ADMIN, ssl.create_default_context())
        code, reply = await asyncio.to_thread(client.call, "GET", PATH)
    assert (code, reply["data"]) == (200, [""])


async def test_https_with_a_certificate(cluster: Cluster, tmp_path: Path) -> None:
    credentials = Credentials(tmp_path / "certificates")
    listener = Listener(certificate=str(credentials.certificate), key=str(credentials.key))
    async with serving_jobs(cluster, OPTIONS, listener) as server:
        assert server.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(credentials.authority))
        client = Client(server.url, ADMIN, trusting)
        assert (await asyncio.to_thread(client.call, "GET", PATH))[0] == 200


async def test_a_port_in_use_is_reported(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {port} of 127.0.0.1 is in use"):
            async with serving_jobs(cluster, OPTIONS, Listener(port=port)):
                pass


async def test_stopping_ends_requests_that_wait(cluster: Cluster) -> None:
    async with serving_jobs(cluster, OPTIONS) as server:
        client = Client(server.url, ADMIN, ssl.create_default_context())
        _, reply = await asyncio.to_thread(client.call, "GET", PATH)
        path = f"{PATH}?resourceVersion={reply['resourceVersion']}"
        waiting = asyncio.create_task(asyncio.to_thread(client.call, "GET", path))
        async with asyncio.timeout(60):
            while "running 2.0" not in await asyncio.to_thread(_metrics, server.url):
                pass
    assert (await waiting)[0] == 200


def _metrics(url: str) -> str:
    return str(Client(url, "", ssl.create_default_context()).call("GET", "/metrics")[1]["message"])
