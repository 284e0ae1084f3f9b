"""Requests to the DI server of `shoal up`, compared to a bare Starlette handler behind the same HTTP server.

The bare handler returns the same bytes and does nothing else; it runs in a process of its own, as the daemon
does. 64 clients keep a connection each, and send the next request once they have the response to the last.
"""

import asyncio
import base64
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from daemons import running_command
from gangs import DIJOBS, NAMESPACE, READY_AND_SLEEP
from measuring import Row
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.port import Selector
from shoal.cluster.resources import SECRETS
from shoal.controllers.jobs.tokens import KEY_SECRET, SYSTEM_NAMESPACE, job_token
from shoal.embedded.serve import last_server_port

CLIENTS: Final = 64
WORKERS: Final = 16

_BARE_SERVER: Final = """
import asyncio, sys, uvloop
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from shoal.apiserver.http.server import listening, make_server, run_server

async def handle(request):
    await request.body()
    return Response(sys.argv[1].encode(), media_type="application/json")

async def main():
    app = Starlette(routes=[Route("/v2alpha1/{job}/{call}", handle, methods=["GET", "POST"])])
    with listening("127.0.0.1", 0) as listener:
        async with run_server(make_server(app), listener):
            print(listener.getsockname()[1], flush=True)
            await asyncio.Event().wait()

uvloop.run(main())
"""


class Load(NamedTuple):
    """What was measured: requests per second, and the 99th percentile of their latency in seconds."""

    rate: float
    p99: float


async def measure_requests(home: Path, count: int, rounds: int) -> list[tuple[str, Row]]:
    """Measure a running daemon with `count` requests a round; return titles and rows."""
    port = last_server_port(home)
    read, *reports = await _make_requests(home)
    rows: list[tuple[str, Row]] = []
    with _bare_server(await _body_of(port, read)) as bare:
        for title, requests, goal in (
            (f"reads of {WORKERS} addresses by {CLIENTS} clients of the DI server", [read], "≥ 0.5"),
            (f"reports of {CLIENTS} jobs by {CLIENTS} clients, each durable", reports, ""),
        ):
            ours, floor = await _measure((port, bare), requests, count, rounds)
            rates = (f"{ours.rate:,.0f}/s", f"{floor.rate:,.0f}/s", f"{ours.rate / floor.rate:.2f}")
            rows.append((title, Row(*rates, goal)))
            times = (f"{ours.p99 * 1e3:.1f} ms", f"{floor.p99 * 1e3:.1f} ms", f"{ours.p99 / floor.p99:.1f}")
            rows.append(("the same: 99th percentile", Row(*times, "")))
    return rows


# --- requests ----------------------------------------------------------------------------------------------


async def _make_requests(home: Path) -> list[bytes]:
    """Create jobs; return a read of one that has workers, and a report of each of the others."""
    cluster = KubernetesCluster(find_access(str(home / "kubeconfig")))
    try:
        secret = await cluster.get(SECRETS, KEY_SECRET, SYSTEM_NAMESPACE)
        key = base64.b64decode(secret["data"]["key"])
        tokens = [
            await _create_job(cluster, key, f"asked-{i}", 0 if i else WORKERS) for i in range(CLIENTS + 1)
        ]
        await _until_running(cluster, "asked-0")
    finally:
        await cluster.close()
    reports = (
        _request("POST", f"asked-{i}", "profilings", token, b'{"data": {"step": %d}}')
        for i, token in enumerate(tokens)
    )
    return [_request("GET", "asked-0", "replicas", tokens[0]), *list(reports)[1:]]


async def _until_running(cluster: KubernetesCluster, name: str) -> None:
    async with cluster.watch(DIJOBS, Selector(NAMESPACE, fields=f"metadata.name={name}")) as events:
        async for event in events:
            if event.object and event.object.get("status", {}).get("phase") == "Running":
                return
    raise AssertionError(f"the watch ended before {name} was running")


async def _create_job(cluster: KubernetesCluster, key: bytes, name: str, workers: int) -> str:
    """Create a job, and return its token."""
    container = {"name": "main", "image": "none", "command": list(READY_AND_SLEEP)}
    spec = {"minReplicas": workers, "template": {"spec": {"containers": [container]}}}
    made = await cluster.create(DIJOBS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    return job_token(key, made["metadata"]["uid"])


def _request(method: str, job: str, call: str, token: str, body: bytes = b"") -> bytes:
    """Return a request; a `%d` in its body stands for a number of six digits."""
    lines = (
        f"{method} /v2alpha1/{NAMESPACE}.{job}/{call} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        f"Content-Length: {len(body.replace(b'%d', b'123456'))}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


# --- clients -----------------------------------------------------------------------------------------------


@contextmanager
def _bare_server(body: str) -> Iterator[int]:
    """Run the bare server; yield its port."""
    with running_command([sys.executable, "-c", _BARE_SERVER, body]) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


async def _measure(ports: Sequence[int], requests: Sequence[bytes], count: int, rounds: int) -> list[Load]:
    """Return the best load of each server; they are measured alternately, so that noise affects all alike."""
    loads = [[await _load(port, requests, count) for port in ports] for _ in range(rounds)]
    return [
        Load(max(one.rate for one in own), min(one.p99 for one in own)) for own in zip(*loads, strict=True)
    ]


async def _load(port: int, requests: Sequence[bytes], count: int) -> Load:
    """Send `count` requests by all clients together."""
    each = count // CLIENTS
    start = time.perf_counter()
    clients = (_client(port, requests[i % len(requests)], each) for i in range(CLIENTS))
    latencies = sorted(latency for own in await asyncio.gather(*clients) for latency in own)
    rate = len(latencies) / (time.perf_counter() - start)
    return Load(rate, latencies[int(len(latencies) * 0.99)])


async def _client(port: int, request: bytes, count: int) -> list[float]:
    """Send a request some times; return the latencies."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    latencies = []
    for number in range(count):
        start = time.perf_counter()
        writer.write(request.replace(b"%d", b"%d" % (100_000 + number % 900_000)))
        await _read_body(reader)
        latencies.append(time.perf_counter() - start)
    writer.close()
    return latencies


async def _read_body(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert head.startswith(b"http/1.1 200 "), head
    return await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))


async def _body_of(port: int, request: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    body = await _read_body(reader)
    writer.close()
    return body.decode()
