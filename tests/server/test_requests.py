"""Every call with every kind of input: its status, its message, and that a refused one changes nothing."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shoal.cluster.resources import resource_of
from tests.conformance.objects import make
from tests.server.serving import ADMIN, DIJOBS, TEMPLATE, Json, Server, di_server, home

REPLICAS = "/v2alpha1/default.job/replicas"
PROFILINGS = "/v2alpha1/default.job/profilings"
TRAINER = "/v1/dijobs/default/job/trainer-status"
KIB = 1024


@pytest.fixture(params=["embedded", "simulated"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    async with home(request.param, tmp_path) as cluster, di_server(cluster) as running:
        yield running


@dataclass
class Case:
    """A request about the job `default/job`, and what is expected of it."""

    method: str
    path: str
    body: Json = None
    status: int = 200
    message: str = ""
    after: dict[str, Any] = field(default_factory=dict)
    """Fields of the status that the call sets; all others must be as before."""

    spec: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    text: bytes | None = None
    token: str | None = None


def more(body: Json, status: int = 400, message: str = "", **fields: Json) -> Case:
    return Case("POST", REPLICAS, body, status, message, **fields)


def fewer(body: Json, status: int = 400, message: str = "", *, path: str = REPLICAS, **fields: Json) -> Case:
    return Case("DELETE", path, body, status, message, **fields)


def report(body: Json, status: int = 400, message: str = "", **fields: Json) -> Case:
    return Case("POST", PROFILINGS, body, status, message, **fields)


def trainer(body: Json, status: int = 400, message: str = "", **fields: Json) -> Case:
    return Case("POST", TRAINER, body, status, message, **fields)


ONE = {"replicas": 1}
OTHER, FALSE_TOKEN, SHORT_TOKEN = "x", "di.x.y", "di."
TASKS = {"tasks": [{"type": "learner", "template": TEMPLATE}]}
NOT_INTEGER = "replicas must be an integer from 1 to 100000"

CASES = {
    # sizes
    "one more than the size that was requested": more(
        ONE,
        200,
        "5 replicas requested",
        before={"requestedReplicas": 4, "replicas": 2},
        after={"requestedReplicas": 5},
    ),
    "without a requested size, one more than the decided one": more(
        ONE, 200, "3 replicas requested", before={"replicas": 2}, after={"requestedReplicas": 3}
    ),
    "without either, one more than minReplicas": more(
        ONE, 200, "3 replicas requested", spec={"minReplicas": 2}, after={"requestedReplicas": 3}
    ),
    "a decided size of 0 is one": more(
        {"replicas": 2}, 200, "2 replicas", before={"replicas": 0}, after={"requestedReplicas": 2}
    ),
    "up to maxReplicas": more({"replicas": 7}, 200, "8 replicas requested", after={"requestedReplicas": 8}),
    "beyond maxReplicas": more({"replicas": 8}, 409, "9 replicas, more than maxReplicas, 8"),
    "without maxReplicas the limit is minReplicas": more(
        ONE, 409, "maxReplicas, 1", spec={"maxReplicas": None}
    ),
    "down to minReplicas": fewer(
        {"replicas": 3}, 200, "1 replicas", before={"replicas": 4}, after={"requestedReplicas": 1}
    ),
    "below minReplicas": fewer({"replicas": 4}, 409, "fewer than minReplicas, 1", before={"replicas": 4}),
    "the number in the query": fewer(
        None,
        200,
        "2 replicas",
        path=f"{REPLICAS}?replicas=2",
        before={"replicas": 4},
        after={"requestedReplicas": 2},
    ),
    "the other form of the path": Case(
        "POST", "/v2alpha1/job/default.job.0/replicas", ONE, 200, "2 replicas", {"requestedReplicas": 2}
    ),
    # what is not a number of replicas
    "zero": more({"replicas": 0}, 400, f"{NOT_INTEGER}, not 0"),
    "negative": more({"replicas": -1}, 400, f"{NOT_INTEGER}, not -1"),
    "a text": more({"replicas": "1"}, 400, NOT_INTEGER),
    "a bool": more({"replicas": True}, 400, f"{NOT_INTEGER}, not true"),
    "a float": more({"replicas": 1.0}, 400, NOT_INTEGER),
    "null": more({"replicas": None}, 400, NOT_INTEGER),
    "a list": more({"replicas": [1]}, 400, NOT_INTEGER),
    "the largest number that is accepted": more({"replicas": 100_000}, 409, "maxReplicas"),
    "one above it": more({"replicas": 100_001}, 400, NOT_INTEGER),
    "more than 64 bits": more({"replicas": 2**70}, 400, NOT_INTEGER),
    "no number": more({}, 400, "replicas is missing"),
    "no body": more(None, 400, "no body"),
    "no JSON": more(None, 400, "not JSON", text=b"{replicas: 1}"),
    "not UTF-8": more(None, 400, "not JSON", text=b'{"replicas": "\xff"}'),
    "no object": more([1], 400, "not a JSON object"),
    "deeply nested": more(None, 400, "nested", text=b"[" * 300 + b"]" * 300),
    "too long": more(None, 413, "too large", text=b" " * (300 * KIB)),
    "zero, removed": fewer({"replicas": 0}, 400, NOT_INTEGER),
    "a text in the query": fewer(None, 400, NOT_INTEGER, path=f"{REPLICAS}?replicas=two"),
    "a sign in the query": fewer(None, 400, NOT_INTEGER, path=f"{REPLICAS}?replicas=%2B1"),
    "nothing in the query": fewer(None, 400, NOT_INTEGER, path=f"{REPLICAS}?replicas="),
    "twice in the query": fewer(None, 400, "more than once", path=f"{REPLICAS}?replicas=1&replicas=1"),
    "in the query and in the body": fewer(ONE, 400, "more than once", path=f"{REPLICAS}?replicas=1"),
    "a POST does not read the query": Case("POST", f"{REPLICAS}?replicas=1", None, 400, "no body"),
    # jobs that have no requested size
    "a job that is not preemptible": more(
        ONE, 409, "`shoal scale dijob/job --replicas=N`", spec={"preemptible": False}
    ),
    "a job with tasks": more(ONE, 409, "`shoal scale dijob/job --role=TASK --replicas=N`", spec=TASKS),
    "a job of another scheduler": more(
        ONE,
        409,
        "not scheduled by Shoal",
        spec={"template": {"spec": {"schedulerName": "other", "containers": [{"name": "w", "image": "x"}]}}},
    ),
    "a finished job": more(ONE, 409, "has finished (Failed): create a new job", before={"phase": "Failed"}),
    "the body is checked before the job": more({}, 400, "missing", before={"phase": "Failed"}),
    # the generation
    "the present generation": Case(
        "POST",
        "/v2alpha1/default.job.3/replicas",
        ONE,
        200,
        "2",
        {"requestedReplicas": 2},
        before={"generation": 3},
    ),
    "an earlier generation": Case(
        "POST",
        "/v2alpha1/default.job.0/replicas",
        ONE,
        200,
        "2",
        {"requestedReplicas": 2},
        before={"generation": 3},
    ),
    "a later generation": Case(
        "POST",
        "/v2alpha1/default.job.4/replicas",
        ONE,
        409,
        "generation 4, but the job is in generation 3",
        before={"generation": 3},
    ),
    "a generation without end": Case(
        "GET", f"/v2alpha1/default.job.{'9' * 100}/replicas", None, 409, "generation"
    ),
    "the generation is checked before the body": Case(
        "POST", "/v2alpha1/default.job.1/replicas", {}, 409, "generation"
    ),
    # profilings
    "new figures": report({"data": {"loss": 0.5}}, 200, "reported", after={"profilings": {"loss": 0.5}}),
    "figures are merged": report(
        {"data": {"a": {"y": 2}, "b": None}},
        200,
        before={"profilings": {"a": {"x": 1}, "b": 1, "c": [1]}},
        after={"profilings": {"a": {"x": 1, "y": 2}, "c": [1]}},
    ),
    "nulls in new objects are dropped": report(
        {"data": {"a": {"b": None, "c": 1}}}, 200, after={"profilings": {"a": {"c": 1}}}
    ),
    "nothing new": report({"data": {}}, 200, "reported"),
    "a finished job may report its last figures": report(
        {"data": {"a": 1}}, 200, before={"phase": "Succeeded"}, after={"profilings": {"a": 1}}
    ),
    "figures of a job with tasks": report(
        {"data": {"a": 1}}, 200, spec=TASKS, after={"profilings": {"a": 1}}
    ),
    "as many figures as fit": report(
        {"data": {"a": "x" * (64 * KIB - 8)}}, 200, after={"profilings": {"a": "x" * (64 * KIB - 8)}}
    ),
    "one byte more": report(
        {"data": {"a": "x" * (64 * KIB - 7)}}, 413, "65537 bytes of JSON, more than 65536"
    ),
    "together too many": report(
        {"data": {"b": "x" * (32 * KIB)}}, 413, "report less", before={"profilings": {"a": "x" * (32 * KIB)}}
    ),
    "no data": report({"loss": 1}, 400, "data is missing"),
    "data that are no object": report({"data": [1]}, 400, "not an object"),
    "null as data": report({"data": None}, 400, "not an object"),
    "no object at all": report("x", 400, "not a JSON object"),
    # trainers
    "the progress of a trainer": trainer(
        {
            "trainerStatus": {
                "progressPercentage": 45,
                "estimatedRemainingSeconds": 12,
                "lastUpdatedTime": "2026-01-23T10:30:45Z",
                "metrics": [
                    {"name": "loss", "value": "1e-05"},
                    {"name": "current_step", "value": "450"},
                    {"name": "total_steps", "value": "1000"},
                    {"name": "note", "value": "1_0"},
                    {"name": "bad", "value": "nan"},
                ],
            }
        },
        200,
        "reported",
        after={
            "profilings": {
                "progress": 45,
                "estimated_remaining_seconds": 12,
                "last_updated_time": "2026-01-23T10:30:45Z",
                "metrics": {
                    "loss": 1e-05,
                    "current_step": 450,
                    "total_steps": 1000,
                    "note": "1_0",
                    "bad": "nan",
                },
                "current_step": 450,
                "total_steps": 1000,
            }
        },
    ),
    "a trainer that knows its progress only": trainer(
        {"trainerStatus": {"progressPercentage": 100}},
        200,
        before={"profilings": {"metrics": {"loss": 1}}},
        after={"profilings": {"metrics": {"loss": 1}, "progress": 100}},
    ),
    "an empty status": trainer({"trainerStatus": {}}, 200),
    "no status": trainer({}, 400, "trainerStatus"),
    "more than everything": trainer(
        {"trainerStatus": {"progressPercentage": 101}}, 400, "progressPercentage"
    ),
    "a metric without a name": trainer({"trainerStatus": {"metrics": [{"value": "1"}]}}, 400, "name"),
    # callers
    "no token": more(ONE, 401, "a bearer token is required", token=""),
    "another token": more(ONE, 401, "not valid", token=OTHER),
    "a token of the form of a job's": more(ONE, 401, "not valid", token=FALSE_TOKEN),
    "a token that is none": more(ONE, 401, "not valid", token=SHORT_TOKEN),
    "a token is checked before the job": Case(
        "GET", "/v2alpha1/default.other/replicas", None, 401, token=OTHER
    ),
    # paths
    "no such job": Case(
        "GET", "/v2alpha1/default.other/replicas", None, 404, "no DIJob other in namespace default"
    ),
    "a job is looked for before the body is read": Case("POST", "/v2alpha1/default.other/replicas", {}, 404),
    "no id": Case("GET", "/v2alpha1/job/replicas", None, 404, "namespace.name"),
    "an id that cannot be one": Case("GET", "/v2alpha1/Default.JOB/replicas", None, 404, "namespace.name"),
    "another resource": Case("GET", "/v2alpha1/default.job/workers", None, 404, "no such path"),
    "another version": Case("GET", "/v1/default.job/replicas", None, 404, "no such path"),
    "another kind": Case("POST", "/v1/pods/default/job/trainer-status", {}, 404, "no such path"),
    "another method": Case("PUT", REPLICAS, ONE, 405, "use GET or POST or DELETE"),
    "a GET of profilings": Case("GET", PROFILINGS, None, 405, "use POST"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_request(case: Case, server: Server) -> None:
    job = await server.create(**case.spec)
    if case.before:
        await server.set_status(job, **case.before)
    token = ADMIN if case.token is None else case.token
    answer = await server.ask(case.method, case.path, case.body, token=token, text=case.text)
    assert (answer.status, answer.body["code"]) == (case.status, case.status), answer
    assert answer.body["success"] is (case.status == 200)
    assert case.message in answer.message
    assert ("WWW-Authenticate".lower() in answer.headers) is (case.status == 401)
    assert await server.status(job) == case.before | case.after


async def test_a_job_that_is_being_deleted_keeps_its_size(server: Server) -> None:
    job = await server.create()
    meta = job["metadata"]
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    await server.cluster.patch(DIJOBS, meta["name"], meta["namespace"], patch=held)
    deleted = await server.cluster.delete(DIJOBS, meta["name"], meta["namespace"])
    assert deleted
    await server.wait_until_known(deleted)
    answer = await server.ask("POST", REPLICAS, ONE)
    assert (answer.status, "being deleted" in answer.message) == (409, True)
    assert await server.status(job) == {}


async def test_the_pages_need_no_token(server: Server) -> None:
    pages = {
        path: await server.ask("GET", path, token="")
        for path in ("/healthz", "/readyz", "/metrics", "/openapi.json")
    }
    assert {path: page.status for path, page in pages.items()} == dict.fromkeys(pages, 200)
    assert pages["/readyz"].body == {"ready": True, "troubles": []}
    assert "shoal_server_requests_running" in pages["/metrics"].body
    refused = await server.ask("POST", "/metrics", token="")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_metrics_count_requests_by_call_and_status(server: Server) -> None:
    await server.create()
    for body in (ONE, {}, {}):
        await server.ask("POST", REPLICAS, body)
    await server.ask("GET", "/nothing/here")
    found = (await server.ask("GET", "/metrics")).body
    assert 'shoal_server_requests_total{call="replicas",code="400",method="POST"} 2.0' in found
    assert 'shoal_server_requests_total{call="other",code="404",method="other"} 1.0' in found


@pytest.mark.parametrize("kind", ["DIJob", "TYJob", "TrainingJob"])
async def test_trainers_of_every_kind_report(kind: str, server: Server) -> None:
    resource = resource_of(kind)
    made = await server.cluster.create(resource, make(resource, "train", "default"))
    path, token = f"/v1/{resource.plural}/default/train/trainer-status", server.token(made)
    for progress in (1, 2):
        answer = await server.ask(
            "POST", path, {"trainerStatus": {"progressPercentage": progress}}, token=token
        )
        assert answer.status == 200, answer
    others = [one for one in server.jobs.kinds if one != resource.plural]
    refused = [
        await server.ask(
            "POST", f"/v1/{other}/default/train/trainer-status", {"trainerStatus": {}}, token=token
        )
        for other in others
    ]
    assert [one.status for one in refused] == [403, 403]
    assert (await server.cluster.get(resource, "train", "default"))["status"]["profilings"] == {"progress": 2}
