"""The server on a real API server: users by TokenReview and SubjectAccessReview, and the key in a secret."""

import asyncio
import base64
import contextlib
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.connect import find_access
from shoal.cluster.port import Selector
from shoal.cluster.resources import PODS, SECRETS, Object, Resource
from shoal.controllers.jobs.server_access import ServerAccess
from shoal.controllers.jobs.tokens import fetch_key, job_token
from shoal.engine.config import SchedulerConfig
from shoal.manager import running
from shoal.server.callers import KubernetesUsers, User
from tests.cli.process import SHOAL
from tests.k8s.access import ADMIN, UNPRIVILEGED, Client
from tests.k8s.controlplane import ControlPlane
from tests.server.serving import DIJOBS, TEMPLATE, Server, di_server

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/{}"


def allow(plane: ControlPlane, namespace: str, user: str, verbs: list[str], names: list[str]) -> None:
    """Let a user do something with some DIJobs of a namespace."""
    rule: dict[str, Any] = {"apiGroups": ["diengine.opendilab.org"], "resources": ["dijobs"], "verbs": verbs}
    role = {"metadata": {"name": user}, "rules": [rule | ({"resourceNames": names} if names else {})]}
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "Role", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": user}, "subjects": [subject], "roleRef": reference}
    plane.client().create(ROLES.format(namespace, "roles"), role)
    plane.client().create(ROLES.format(namespace, "rolebindings"), binding)


@contextlib.asynccontextmanager
async def connected(plane: ControlPlane) -> AsyncIterator[KubernetesCluster]:
    cluster = KubernetesCluster(find_access(str(plane.kubeconfig())))
    try:
        yield cluster
    finally:
        await cluster.close()


@pytest.fixture
async def server(k8s: ControlPlane) -> AsyncIterator[Server]:
    async with connected(k8s) as cluster, di_server(cluster, KubernetesUsers(cluster)) as running:
        yield running


MAY = {  # user: status of GET and POST on `mine`, of GET and POST on `other`
    ADMIN: (200, 200, 200, 200),
    "alice": (200, 403, 200, 403),
    "bob": (403, 200, 403, 403),
    UNPRIVILEGED: (403, 403, 403, 403),
}


@pytest.fixture
def jobs(k8s: ControlPlane, namespace: str) -> str:
    """A namespace in which alice may read all DIJobs, and bob may update `mine`."""
    allow(k8s, namespace, "alice", ["get"], [])
    allow(k8s, namespace, "bob", ["update"], ["mine"])
    return namespace


@pytest.mark.parametrize("user, expected", MAY.items(), ids=MAY)
async def test_what_a_user_may_do(
    user: str, expected: tuple[int, ...], server: Server, jobs: str, k8s: ControlPlane
) -> None:
    token = k8s.client(user).token
    await wait_for_roles(server, jobs)
    for name in ("mine", "other"):
        await server.create(name, jobs)
    found = [
        (await server.ask(method, f"/v2alpha1/{jobs}.{name}/replicas", body, token=token)).status
        for name in ("mine", "other")
        for method, body in (("GET", None), ("POST", {"replicas": 1}))
    ]
    assert tuple(found) == expected


async def wait_for_roles(server: Server, namespace: str) -> None:
    """Wait until the API server grants what was just bound."""
    bob = User(username="bob", uid="uid-bob", groups=("team-b", "system:authenticated"))
    kind = server.jobs.kinds["dijobs"].kind
    end = time.monotonic() + 60
    while not await KubernetesUsers(server.cluster).allows(bob, "update", kind, (namespace, "mine")):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


async def test_users_and_jobs_that_do_not_exist(server: Server, jobs: str, k8s: ControlPlane) -> None:
    await wait_for_roles(server, jobs)
    path = f"/v2alpha1/{jobs}.nothing/replicas"
    tokens = {"stranger": "x" * 32, **{user: k8s.client(user).token for user in (ADMIN, "alice", "bob")}}
    found = {user: (await server.ask("GET", path, token=token)).status for user, token in tokens.items()}
    assert found == {"stranger": 401, ADMIN: 404, "alice": 404, "bob": 403}


async def test_positive_answers_count_for_some_seconds(server: Server, jobs: str, k8s: ControlPlane) -> None:
    users = KubernetesUsers(counting := CountingCluster(server.cluster))  # type: ignore[arg-type]  # one method
    kind, token = server.jobs.kinds["dijobs"].kind, k8s.client().token
    for _ in range(5):
        user = await users.identify(token)
        assert user is not None
        assert user.username == ADMIN
        assert await users.allows(user, "update", kind, (jobs, "mine"))
        assert await users.identify("wrong") is None
    assert counting.created == {"TokenReview": 6, "SubjectAccessReview": 1}


class CountingCluster:
    """Counts what is created."""

    def __init__(self, cluster: Any) -> None:  # noqa: ANN401 - a cluster
        self._cluster, self.created = cluster, dict[str, int]()

    async def create(self, resource: Any, body: Object) -> Any:  # noqa: ANN401 - as in the port
        self.created[resource.kind] = self.created.get(resource.kind, 0) + 1
        return await self._cluster.create(resource, body)


async def test_a_job_changes_itself_and_calls_add_up(server: Server, namespace: str) -> None:
    job = await server.create("job", namespace, maxReplicas=100)
    token, path = server.token(job), f"/v2alpha1/{namespace}.job.0/replicas"
    async with di_server(server.cluster, KubernetesUsers(server.cluster)) as other:
        calls = [one.ask("POST", path, {"replicas": 1}, token=token) for one in (server, other) * 20]
        answers = await asyncio.gather(*calls)
    assert sorted(answer.data for answer in answers) == list(range(2, 42))
    assert (await server.status(job))["requestedReplicas"] == 41
    report = {"data": {"a": {"b": 1, "c": None}, "d": [1.5]}}
    assert (
        await server.ask("POST", f"/v2alpha1/{namespace}.job/profilings", report, token=token)
    ).status == 200
    assert (await server.status(job))["profilings"] == {"a": {"b": 1}, "d": [1.5]}


async def test_two_processes_get_the_same_key(k8s: ControlPlane) -> None:
    async with connected(k8s) as one, connected(k8s) as other:
        keys = await asyncio.gather(fetch_key(one), fetch_key(other), fetch_key(one))
    assert len(set(keys)) == 1


# --- the command -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def run_server(plane: ControlPlane) -> Iterator[str]:
    """Run `shoal server`; its URL."""
    command = [*SHOAL, "server", "--kubeconfig", str(plane.kubeconfig()), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            assert process.stdout
            yield process.stdout.readline().rpartition(" ")[2].strip()
        finally:
            process.terminate()
            assert process.wait() == 0


async def test_the_command_serves_a_cluster(k8s: ControlPlane, namespace: str) -> None:
    async with connected(k8s) as cluster:
        body = {"metadata": {"name": "job", "namespace": namespace}, "spec": {"template": TEMPLATE}}
        await cluster.create(DIJOBS, body)
        with run_server(k8s) as url:
            client = Client(url, k8s.client().token, ssl.create_default_context())
            reply = await asyncio.to_thread(client.call, "GET", f"/v2alpha1/{namespace}.job/replicas")
            stranger = Client(url, "wrong", ssl.create_default_context())
            refused = await asyncio.to_thread(stranger.call, "GET", f"/v2alpha1/{namespace}.job/replicas")
    assert (reply[0], reply[1]["data"]) == (200, [""])
    assert refused[0] == 401


# --- the manager -------------------------------------------------------------------------------------------


async def test_the_manager_gives_pods_access(k8s_alone: ControlPlane) -> None:
    """The secret of a job exists before its pods, and is gone after its end."""
    access = ServerAccess("http://shoal-server:8081", bytes(32))
    async with connected(k8s_alone) as cluster, running(cluster, SchedulerConfig(), server=access) as manager:
        await manager.ready()
        made = await cluster.create(
            DIJOBS, {"metadata": {"name": "job", "namespace": "default"}, "spec": {"template": TEMPLATE}}
        )
        pod = await wait_for_event(cluster, PODS, "job-0-0", "ADDED")
        name = f"di-job-{made['metadata']['uid'][:8]}"
        secret = await cluster.get(SECRETS, name, "default")
        token = base64.b64decode(secret["data"]["token"]).decode()
        assert token == job_token(bytes(32), made["metadata"]["uid"])
        variables = {one["name"]: one for one in pod["spec"]["containers"][0]["env"]}
        assert variables["DI_SERVER_URL"]["value"] == "http://shoal-server:8081"
        assert variables["DI_SERVER_TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == name
        assert token not in str(pod)
        await cluster.patch_status(PODS, "job-0-0", "default", patch={"status": {"phase": "Succeeded"}})
        version = secret["metadata"]["resourceVersion"]
        assert await asyncio.wait_for(wait_for_event(cluster, SECRETS, name, "DELETED", version), 60)


async def wait_for_event(
    cluster: KubernetesCluster, resource: Resource[Object], name: str, kind: str, version: str = ""
) -> Object:
    """Wait for an event after a version; without one, an object that exists is ADDED first."""
    selector = Selector("default", fields=f"metadata.name={name}")
    async with cluster.watch(resource, selector, version=version) as events:
        async for event in events:
            if event.object and event.type == kind:
                return event.object
    raise AssertionError("the watch ended")
