"""What a server or the line to it may do, one thing at a time, and what becomes of it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

import shoal
from shoal.cluster import errors
from shoal.cluster.kubernetes.access import token_access
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.transport import TransportLimits
from shoal.cluster.port import Cluster, Deletion, Selector, WatchEvent
from shoal.cluster.resources import CONFIG_MAPS, PODS
from tests.cluster.kubernetes.scripted_server import (
    ABORT,
    HANG,
    ResponseScript,
    ScriptedServer,
    chunked_response,
    error_response,
    response,
    response_head,
)

Act = Callable[[Cluster], Awaitable[Any]]


def get(cluster: Cluster) -> Awaitable[Any]:
    return cluster.get(CONFIG_MAPS, "a", "ns")


def listing(cluster: Cluster) -> Awaitable[Any]:
    return cluster.list(CONFIG_MAPS)


def create(cluster: Cluster) -> Awaitable[Any]:
    return cluster.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "ns"}})


def delete(cluster: Cluster) -> Awaitable[Any]:
    return cluster.delete(CONFIG_MAPS, "a", "ns")


def evict(cluster: Cluster) -> Awaitable[Any]:
    return cluster.evict("a", "ns")


async def watch(cluster: Cluster) -> list[WatchEvent[Any]]:
    async with cluster.watch(CONFIG_MAPS, version="1") as events:
        return [event async for event in events]


class Waits:
    """A clock that is always early."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@dataclass
class Case:
    """What the server answers, what comes of it, and after which waits."""

    act: Act
    script: list[ResponseScript]
    error: type[errors.ClusterError] | None = None
    words: str = "no"
    waits: tuple[float, ...] = ()


LIMITS = TransportLimits(tries=3, wait=10)
SHORT = TransportLimits(request=0.2, watch_idle=0.2)
TOO_LATE = "does not answer in time"
FOUND = response(200, {"metadata": {"name": "a"}})
HALF = response_head(200, {"Content-Type": "application/json", "Content-Length": "100"}) + b'{"half'
CASES = {
    "a busy server is waited for": Case(
        get, [error_response(429, Retry_After="3"), error_response(429, Retry_After="2"), FOUND], waits=(3, 2)
    ),
    "a busy server that does not say how long is given a second": Case(
        create, [error_response(429), FOUND], waits=(1,)
    ),
    "a server that is busy for ever is given up": Case(
        get, [error_response(429, "busy")], errors.TooManyRequestsError, "busy", waits=(1, 1)
    ),
    "a server that asks for too much is not waited for": Case(
        get, [error_response(429, Retry_After="3600")], errors.TooManyRequestsError
    ),
    "a budget that is spent is told at once": Case(
        evict, [error_response(429, "budget", Retry_After="1")], errors.TooManyRequestsError, "budget"
    ),
    "a read is repeated when the server asks for it": Case(
        get, [error_response(503, Retry_After="5"), FOUND], waits=(5,)
    ),
    "a write is not repeated, as it may have been done": Case(
        create, [error_response(503, Retry_After="5")], errors.UnavailableError
    ),
    "a failure without advice is told": Case(get, [error_response(503)], errors.UnavailableError),
    "an error of the server": Case(get, [error_response(500, "etcd")], errors.InternalError, "etcd"),
    "credentials that nobody can renew": Case(get, [error_response(401)], errors.UnauthorizedError),
    "a proxy that answers in its own words": Case(
        get, [response(502, b"<b>Bad \xff Gateway</b>", "text/html")], errors.UnavailableError, "<b>Bad"
    ),
    "an error without a word": Case(get, [response(418, b"")], errors.BadRequestError, "answered 418"),
    "somebody who is no API server": Case(
        get, [response(200, b"<html>", "text/html")], errors.InternalError, "is it an API server"
    ),
    "a redirection is not followed": Case(
        get, [response(302, b"", "text/html", Location="/login")], errors.InternalError, "text/html"
    ),
    "a list that is none": Case(listing, [response(200, {"items": 5})], errors.InternalError, "is no list"),
    "an object that is none": Case(get, [response(200, [])], errors.InternalError, "is no object"),
    "an object in half": Case(create, [response(200, b'{"metadata"')], errors.InternalError, "is no object"),
    "a deletion that tells nonsense": Case(
        delete, [response(200, {"metadata": 5})], errors.InternalError, "is no object"
    ),
    "a connection that breaks before the answer": Case(
        create, [[ABORT]], errors.UnavailableError, "cannot be reached"
    ),
    "a connection that breaks within the answer": Case(
        get, [[HALF, ABORT]], errors.UnavailableError, "cannot be reached"
    ),
    "a server that never answers": Case(get, [[HANG]], errors.UnavailableError, TOO_LATE),
    "a server that stops within the answer": Case(get, [[HALF, HANG]], errors.UnavailableError, TOO_LATE),
    "a watch that is refused": Case(watch, [error_response(410)], errors.GoneError),
    "a watch of a busy server": Case(watch, [error_response(429), chunked_response()], waits=(1,)),
    "a watch that is never answered": Case(watch, [[HANG]], errors.UnavailableError, TOO_LATE),
    "a watch that falls silent": Case(watch, [chunked_response(HANG)], errors.UnavailableError, TOO_LATE),
    "a watch that breaks": Case(
        watch, [chunked_response(end=ABORT)], errors.UnavailableError, "cannot be reached"
    ),
    "a watch that ends within an event": Case(
        watch, [chunked_response(b'{"type":"ADDED"')], errors.UnavailableError, "in the middle of an event"
    ),
    "a watch that tells nonsense": Case(
        watch, [chunked_response(b"what?\n")], errors.InternalError, "nonsense"
    ),
    "a watch that tells of an expired version": Case(
        watch,
        [chunked_response(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n')],
        errors.GoneError,
        "too old",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_what_comes_of_it(case: Case) -> None:
    waits = Waits()
    async with ScriptedServer(list(case.script)).serving() as server:
        limits = SHORT if case.words == TOO_LATE else LIMITS
        cluster = KubernetesCluster(token_access(server.url, "secret"), limits, sleep=waits)
        if case.error is None:
            await case.act(cluster)
        else:
            with pytest.raises(case.error, match=case.words):
                await case.act(cluster)
        assert tuple(waits.seconds) == case.waits
        assert len(server.requests) == 1 + len(case.waits)
        await cluster.close()


async def test_a_server_that_is_not_there() -> None:
    cluster = KubernetesCluster(token_access("http://127.0.0.1:9", ""))
    with pytest.raises(
        errors.UnavailableError, match=r"http://127.0.0.1:9 cannot be reached: .* 127.0.0.1:9"
    ):
        await get(cluster)
    await cluster.close()


WATCHED = (
    "labelSelector=a+in+%28b%2Cc%29&fieldSelector=x%3Dy&watch=true&allowWatchBookmarks=true&timeoutSeconds=1"
)


async def test_what_is_sent() -> None:
    async with ScriptedServer([FOUND]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url + "/clusters/one/", "secret"))
        await get(cluster)
        await create(cluster)
        await cluster.patch_status(PODS, "a", "ns", patch={"status": {}}, dry_run=True)
        await cluster.delete(PODS, "a", "ns", Deletion(grace=5, propagation="Orphan", uid="u", version="7"))
        async with cluster.watch(PODS, Selector("ns", labels="a in (b,c)", fields="x=y"), timeout=0.1):
            pass
        await cluster.close()
    assert server.request_lines == [
        "GET /clusters/one/api/v1/namespaces/ns/configmaps/a",
        "POST /clusters/one/api/v1/namespaces/ns/configmaps",
        "PATCH /clusters/one/api/v1/namespaces/ns/pods/a/status?dryRun=All",
        "DELETE /clusters/one/api/v1/namespaces/ns/pods/a",
        f"GET /clusters/one/api/v1/namespaces/ns/pods?{WATCHED}",
    ]
    sent = server.requests[0].headers
    assert (sent["User-Agent"], sent["Authorization"]) == (f"shoal/{shoal.__version__}", "Bearer secret")
    assert server.requests[2].headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(server.requests[3].body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 5,
        "propagationPolicy": "Orphan",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
    }


async def test_events_come_whole_however_they_are_cut() -> None:
    """The second object is larger than any buffer, and a chunk ends within a letter."""
    objects = [
        {"metadata": {"resourceVersion": str(i)}, "data": "ä" * size} for i, size in enumerate((3, 10**6))
    ]
    lines = [json.dumps({"type": "ADDED", "object": item}, ensure_ascii=False) for item in objects]
    text = "\n\n".join(
        [*lines, '{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}', ""]
    ).encode()
    size = 65_537
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    async with ScriptedServer(
        [chunked_response(text[:40], text[40:], end=b"0\r\n\r\n"), chunked_response(*pieces)]
    ).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""))
        first, second = await watch(cluster), await watch(cluster)
        await cluster.close()
    assert first == second
    assert [(event.type, event.version) for event in first] == [
        ("ADDED", "0"),
        ("ADDED", "1"),
        ("BOOKMARK", "9"),
    ]
    assert [event.object and event.object["data"] for event in first] == ["äää", "ä" * 10**6, None]


async def test_connections_are_used_again() -> None:
    async with ScriptedServer([FOUND]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""))
        for _ in range(5):
            await get(cluster)
        await cluster.close()
    assert (len(server.requests), server.connections) == (5, 1)


async def test_no_more_is_asked_at_once_than_allowed() -> None:
    """Nobody is answered: those that were sent are all that may be."""
    async with ScriptedServer([[HANG]]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""), TransportLimits(concurrent=3))
        tasks = [asyncio.ensure_future(get(cluster)) for _ in range(10)]
        await server.received(3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(server.requests) == 3
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.close()


@pytest.mark.parametrize("act", [get, watch], ids=["a request", "a watch"])
async def test_who_is_cancelled_lets_go_at_once(act: Act) -> None:
    async with ScriptedServer([chunked_response(HANG) if act is watch else [HANG]]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""))
        task = asyncio.ensure_future(act(cluster))
        await server.received(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.disconnected.wait()
        await cluster.close()


async def test_closing_ends_streams() -> None:
    bookmark = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n'
    async with ScriptedServer([chunked_response(bookmark, HANG)]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""))
        async with cluster.watch(CONFIG_MAPS) as events:
            await anext(events)
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            await cluster.close()
            with pytest.raises(errors.UnavailableError, match="closed by us"):
                await waiting
        with pytest.raises(errors.UnavailableError, match="was closed"):
            await get(cluster)


async def test_closing_ends_requests() -> None:
    async with ScriptedServer([[HANG]]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""))
        asking = asyncio.ensure_future(get(cluster))
        await server.received(1)
        await cluster.close()
        with pytest.raises(errors.UnavailableError):
            await asking
