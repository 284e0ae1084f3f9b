"""A DI server for tests, on any cluster: asked directly through ASGI, so it also runs on virtual time."""

import asyncio
import base64
import contextlib
import json
import random
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shoal.cluster.port import Cluster
from shoal.cluster.resources import PODS, Object, resource_of
from shoal.controllers.jobs.tokens import fetch_key, job_token
from shoal.embedded.store import open_home
from shoal.manager import in_background
from shoal.server.app import ServerApp
from shoal.server.callers import Administrator, UserAuthority
from shoal.server.jobs import ServedJobs
from shoal.server.serving import ServerOptions, make_app
from shoal.simulator import SimulatedCluster, WallClock

DIJOBS = resource_of("DIJob")
Json = Any
"""Any JSON value."""

ADMIN = "administrator's token"
CONTAINER = {"name": "w", "image": "x"}
TEMPLATE: Object = {"spec": {"containers": [CONTAINER]}}


class Answer(NamedTuple):
    """A response: its status, its headers, and its body as JSON, or as text if it is none."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def data(self) -> Json:
        return self.body["data"]


class Server:
    """A server on a cluster, and a client of it."""

    def __init__(self, cluster: Cluster, app: ServerApp, jobs: ServedJobs, key: bytes) -> None:
        self.cluster, self.app, self.jobs, self.key = cluster, app, jobs, key

    def token(self, job: Object) -> str:
        return job_token(self.key, job["metadata"]["uid"])

    async def ask(
        self, method: str, path: str, body: object = None, *, token: str = ADMIN, text: bytes | None = None
    ) -> Answer:
        """Send a request; `text` is a body that need not be JSON."""
        path, _, query = path.partition("?")
        sent = text if text is not None else b"" if body is None else json.dumps(body).encode()
        headers = [(b"content-length", str(len(sent)).encode())]
        if token:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
        }
        return await _exchange(self.app, scope, sent)

    async def create(self, name: str = "job", namespace: str = "default", **spec: Json) -> Object:
        """Create a DIJob, preemptible with 1 to 8 replicas unless the spec says otherwise."""
        spec = spec if "tasks" in spec else {"template": TEMPLATE} | spec
        usual = {"preemptible": True, "minReplicas": 1, "maxReplicas": 8}
        body = {"metadata": {"name": name, "namespace": namespace}, "spec": usual | spec}
        made = await self.cluster.create(DIJOBS, body)
        await self.wait_until_known(made)
        return made

    async def create_pod(self, job: Object, rank: int, *, ip: str = "", name: str = "") -> Object:
        """Create the pod of a rank, running if it has an address."""
        meta = job["metadata"]
        owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "controller": True}
        body = {
            "metadata": {
                "name": name or f"{meta['name']}-0-{rank}",
                "namespace": meta["namespace"],
                "labels": {"shoal.io/job-uid": meta["uid"], "diengine/rank": str(rank)},
                "annotations": {"diengine/generation": "0"},
                "ownerReferences": [owner | {"name": meta["name"], "uid": meta["uid"]}],
            },
            "spec": TEMPLATE["spec"],
        }
        made = await self.cluster.create(PODS, body)
        return await self.set_address(made, ip) if ip else made

    async def set_address(self, pod: Object, ip: str, phase: str = "Running") -> Object:
        meta, status = pod["metadata"], {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}]}
        return await self.cluster.patch_status(
            PODS, meta["name"], meta["namespace"], patch={"status": status}
        )

    async def set_status(self, job: Object, **status: Json) -> Object:
        meta = job["metadata"]
        changed = await self.cluster.patch_status(
            DIJOBS, meta["name"], meta["namespace"], patch={"status": status}
        )
        await self.wait_until_known(changed)
        return changed

    async def status(self, job: Object) -> Object:
        found = await self.cluster.get(DIJOBS, job["metadata"]["name"], job["metadata"]["namespace"])
        status: Object = found.get("status") or {}
        return status

    async def wait_until_known(self, job: Object) -> None:
        """Wait until the server's watch has reported a job in a version, or a later one."""
        version = int(job["metadata"]["resourceVersion"])
        store = self.jobs.kinds["dijobs"].store
        key = (job["metadata"]["namespace"], job["metadata"]["name"])
        changed = asyncio.Event()
        store.subscribe(lambda _key, _old, _new: changed.set())
        async with asyncio.timeout(60):
            while store.version(key) < version:
                await changed.wait()
                changed.clear()

    async def wait_for(self, path: str, data: object) -> Answer:
        """Ask until the data of the answer is as expected: watches take a moment."""
        answer = await self.ask("GET", path)
        async with asyncio.timeout(60):
            while answer.data != data:
                version = answer.body["resourceVersion"]
                answer = await self.ask("GET", f"{path}?resourceVersion={version}")
        return answer


async def _exchange(app: ServerApp, scope: Object, body: bytes) -> Answer:
    sent: list[Any] = []
    received = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Json:
        for message in received:
            return message
        return await asyncio.Event().wait()  # the client stays connected

    async def send(message: Json) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    text = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], headers, _parsed(text))


def _parsed(text: bytes) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


@contextlib.asynccontextmanager
async def di_server(cluster: Cluster, users: UserAuthority | None = None) -> AsyncIterator[Server]:
    """Run a server on a cluster, without a socket."""
    key = await fetch_key(cluster)
    app, jobs = make_app(cluster, ServerOptions(key=key, users=users or Administrator(ADMIN)))
    async with in_background(jobs.run()):
        await jobs.synced()
        yield Server(cluster, app, jobs, key)
        app.stop()


@contextlib.asynccontextmanager
async def home(name: str, directory: Path) -> AsyncIterator[Cluster]:
    """Open an embedded or a simulated home."""
    if name == "embedded":
        async with open_home(directory) as registry:
            yield registry
    else:
        clock = WallClock(asyncio.get_running_loop().time)
        async with SimulatedCluster(clock=clock, rng=random.Random(1)) as cluster:
            yield cluster


def secret_texts(key: bytes, job: Object) -> list[str]:
    """Return the secrets of a server and a job in every form in which they could appear."""
    token = job_token(key, job["metadata"]["uid"])
    mac = token.rpartition(".")[2]
    return [token, mac, base64.b64encode(token.encode()).decode(), base64.b64encode(key).decode(), key.hex()]
