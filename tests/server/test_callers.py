"""Callers: how tokens are read, and what a server tells that may not ask the cluster about its callers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.cluster.errors import (
    ClusterError,
    ForbiddenError,
    InternalError,
    TooManyRequestsError,
    UnavailableError,
)
from shoal.cluster.port import Cluster
from shoal.cluster.resources import Object
from shoal.server.callers import KubernetesUsers, bearer_token
from tests.server.serving import DIJOBS, TEMPLATE, Json, di_server, home

HEADERS = {
    "Bearer abc": "abc",
    "bearer abc": "abc",
    "BEARER   abc  ": "abc",
    "Bearer": "",
    "Bearer ": "",
    "Basic abc": "",
    "abc": "",
    "": "",
}


@pytest.mark.parametrize("header, token", HEADERS.items())
def test_the_token_of_a_header(header: str, token: str) -> None:
    assert bearer_token(header) == token


class Reviews:
    """A cluster that answers reviews as told, and everything else as it is."""

    def __init__(self, cluster: Cluster, answers: dict[str, Object | ClusterError]) -> None:
        self._cluster, self._answers = cluster, answers

    def __getattr__(self, name: str) -> Json:
        return getattr(self._cluster, name)

    async def create(self, resource: Json, body: Object) -> Json:
        answer = self._answers.get(resource.kind)
        if isinstance(answer, ClusterError):
            raise answer
        return answer if answer is not None else await self._cluster.create(resource, body)


ALICE: Object = {"authenticated": True, "user": {"username": "alice", "extra": {"scope": ["a"]}}}
ALLOWED: Object = {"allowed": True}
ANSWERS: dict[str, tuple[dict[str, Object | ClusterError], int, str]] = {
    "a user with the permission": ({"TokenReview": ALICE, "SubjectAccessReview": ALLOWED}, 200, ""),
    "a user without": (
        {"TokenReview": ALICE, "SubjectAccessReview": {"allowed": False}},
        403,
        "alice cannot get",
    ),
    "no opinion is no permission": (
        {"TokenReview": ALICE, "SubjectAccessReview": {}},
        403,
        "alice cannot get",
    ),
    "no user": ({"TokenReview": {"authenticated": False}}, 401, "not valid"),
    "an empty review": ({"TokenReview": {}}, 401, "not valid"),
    "the server may not review tokens": (
        {"TokenReview": ForbiddenError("no rights")},
        500,
        "reviewed: no rights",
    ),
    "the server may not review permissions": (
        {"TokenReview": ALICE, "SubjectAccessReview": ForbiddenError("no rights")},
        500,
        "reviewed: no rights",
    ),
    "the cluster cannot be reached": ({"TokenReview": UnavailableError("gone")}, 503, "gone"),
    "the cluster is busy": ({"TokenReview": TooManyRequestsError("busy", retry_after=7)}, 503, "busy"),
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with home("embedded", tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("answers, status, message", ANSWERS.values(), ids=ANSWERS)
async def test_what_the_cluster_answers_about_a_user(
    answers: dict[str, Object | ClusterError], status: int, message: str, cluster: Cluster
) -> None:
    users = KubernetesUsers(Reviews(cluster, answers))  # type: ignore[arg-type]  # a cluster otherwise
    async with di_server(cluster, users) as server:
        await server.create()
        answer = await server.ask("GET", "/v2alpha1/default.job/replicas")
    assert (answer.status, answer.headers.get("retry-after")) == (status, "7" if message == "busy" else None)
    assert message in answer.message


async def test_an_error_of_the_servers_own_write_is_not_the_callers(cluster: Cluster) -> None:
    class Refusing(Reviews):
        async def patch_status(self, *_: Json, **__: Json) -> Json:
            raise ForbiddenError("no rights")

    async with di_server(Refusing(cluster, {})) as server:  # type: ignore[arg-type]  # a cluster otherwise
        job = await server.create()
        answer = await server.ask(
            "POST", "/v2alpha1/default.job/replicas", {"replicas": 1}, token=server.token(job)
        )
    assert (answer.status, answer.message) == (500, "the job cannot be changed: no rights")


async def test_a_job_that_cannot_be_read_is_reported(cluster: Cluster) -> None:
    """Another program may have written a status that does not fit."""

    class Damaging(Reviews):
        async def get(self, resource: Json, name: str, namespace: str = "") -> Json:
            found = await self._cluster.get(resource.read_as(bytes), name, namespace)
            return resource.decode(found.replace(b'"minReplicas":1', b'"minReplicas":"one"'))

    spec: Object = {"minReplicas": 1, "template": TEMPLATE}
    await cluster.create(DIJOBS, {"metadata": {"name": "new", "namespace": "default"}, "spec": spec})
    async with di_server(Damaging(cluster, {})) as server:  # type: ignore[arg-type]  # a cluster otherwise
        with pytest.raises(InternalError, match="cannot be read"):
            await server.jobs.kinds["dijobs"].read(("default", "new"))
