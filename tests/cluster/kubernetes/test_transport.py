"""Failures of a server or a connection, one at a time, and what the transport does then."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import shoal
from shoal.cluster import errors
from shoal.cluster.kubernetes.access import token_access
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.transport import TransportLimits
from shoal.cluster.port import Cluster, Deletion, Selector, WatchEvent
from shoal.cluster.resources import CONFIG_MAPS, PODS
from tests.cluster.certificates import CertificateAuthority
from tests.cluster.kubernetes.scripted_server import (
    ABORT,
    HANG,
    STOP_READING,
    ResponseScript,
    ScriptedServer,
    chunked_response,
    error_response,
    response,
    response_head,
)
from tests.cluster.local_server import server_context

Action = Callable[[Cluster], Awaitable[Any]]


def get(cluster: Cluster) -> Awaitable[Any]:
    return cluster.get(CONFIG_MAPS, "a", "ns")


def list_all(cluster: Cluster) -> Awaitable[Any]:
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


class FakeSleep:
    """Records delays, and does not sleep."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@dataclass
class Case:
    """The responses of the server, the error that is raised, and the delays of the retries."""

    action: Action
    script: list[ResponseScript]
    error: type[errors.ClusterError] | None = None
    message: str = "no"
    delays: tuple[float, ...] = ()


LIMITS = TransportLimits(attempts=3, max_retry_after=10)
SHORT = TransportLimits(request=0.2, watch_idle=0.2)
TIMED_OUT = "does not answer in time"
FOUND = response(200, {"metadata": {"name": "a"}})
HALF_RESPONSE = response_head(200, {"Content-Type": "application/json", "Content-Length": "100"}) + b'{"half'
CASES = {
    "a busy server is retried": Case(
        get,
        [error_response(429, Retry_After="3"), error_response(429, Retry_After="2"), FOUND],
        delays=(3, 2),
    ),
    "without Retry-After a busy server is retried after a second": Case(
        create, [error_response(429), FOUND], delays=(1,)
    ),
    "a server that stays busy": Case(
        get, [error_response(429, "busy")], errors.TooManyRequestsError, "busy", delays=(1, 1)
    ),
    "a Retry-After that is too long": Case(
        get, [error_response(429, Retry_After="3600")], errors.TooManyRequestsError
    ),
    "an exhausted disruption budget is not retried": Case(
        evict, [error_response(429, "budget", Retry_After="1")], errors.TooManyRequestsError, "budget"
    ),
    "a read is retried when the server asks for it": Case(
        get, [error_response(503, Retry_After="5"), FOUND], delays=(5,)
    ),
    "a write is not retried, because it may have been executed": Case(
        create, [error_response(503, Retry_After="5")], errors.UnavailableError
    ),
    "a failure without Retry-After": Case(get, [error_response(503)], errors.UnavailableError),
    "an error of the server": Case(get, [error_response(500, "etcd")], errors.InternalError, "etcd"),
    "credentials that cannot be renewed": Case(get, [error_response(401)], errors.UnauthorizedError),
    "a proxy that answers in HTML": Case(
        get, [response(502, b"<b>Bad \xff Gateway</b>", "text/html")], errors.UnavailableError, "<b>Bad"
    ),
    "an error without a body": Case(get, [response(418, b"")], errors.BadRequestError, "answered 418"),
    "a server that is not an API server": Case(
        get, [response(200, b"<html>", "text/html")], errors.InternalError, "is it an API server"
    ),
    "a redirection is not followed": Case(
        get, [response(302, b"", "text/html", Location="/login")], errors.InternalError, "text/html"
    ),
    "an invalid list": Case(list_all, [response(200, {"items": 5})], errors.InternalError, "is not a list"),
    "an invalid object": Case(get, [response(200, [])], errors.InternalError, "is not an object"),
    "a truncated object": Case(
        create, [response(200, b'{"metadata"')], errors.InternalError, "is not an object"
    ),
    "an invalid response to a deletion": Case(
        delete, [response(200, {"metadata": 5})], errors.InternalError, "is not an object"
    ),
    "a connection that breaks before the response": Case(
        create, [[ABORT]], errors.UnavailableError, "cannot be reached"
    ),
    "a connection that breaks during the response": Case(
        get, [[HALF_RESPONSE, ABORT]], errors.UnavailableError, "cannot be reached"
    ),
    "a server that never responds": Case(get, [[HANG]], errors.UnavailableError, TIMED_OUT),
    "a server that stops during the response": Case(
        get, [[HALF_RESPONSE, HANG]], errors.UnavailableError, TIMED_OUT
    ),
    "a watch that fails": Case(watch, [error_response(410)], errors.GoneError),
    "a watch of a busy server": Case(watch, [error_response(429), chunked_response()], delays=(1,)),
    "a watch that gets no response": Case(watch, [[HANG]], errors.UnavailableError, TIMED_OUT),
    "a watch that is idle for too long": Case(
        watch, [chunked_response(HANG)], errors.UnavailableError, TIMED_OUT
    ),
    "a watch that breaks": Case(
        watch, [chunked_response(end=ABORT)], errors.UnavailableError, "cannot be reached"
    ),
    "a watch that ends during an event": Case(
        watch, [chunked_response(b'{"type":"ADDED"')], errors.UnavailableError, "in the middle of an event"
    ),
    "a watch with an invalid event": Case(
        watch, [chunked_response(b"what?\n")], errors.InternalError, "invalid event"
    ),
    "a watch whose version expires": Case(
        watch,
        [chunked_response(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n')],
        errors.GoneError,
        "too old",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_failures(case: Case) -> None:
    sleep = FakeSleep()
    async with ScriptedServer(list(case.script)).serving() as server:
        limits = SHORT if case.message == TIMED_OUT else LIMITS
        cluster = KubernetesCluster(token_access(server.url, "secret"), limits, sleep=sleep)
        if case.error is None:
            await case.action(cluster)
        else:
            with pytest.raises(case.error, match=case.message):
                await case.action(cluster)
        assert tuple(sleep.seconds) == case.delays
        assert len(server.requests) == 1 + len(case.delays)
        await cluster.close()


async def test_an_unreachable_server() -> None:
    cluster = KubernetesCluster(token_access("http://127.0.0.1:9", ""))
    with pytest.raises(
        errors.UnavailableError, match=r"http://127.0.0.1:9 cannot be reached: .* 127.0.0.1:9"
    ):
        await get(cluster)
    await cluster.close()


WATCH_QUERY = (
    "labelSelector=a+in+%28b%2Cc%29&fieldSelector=x%3Dy&watch=true&allowWatchBookmarks=true&timeoutSeconds=1"
)


async def test_requests() -> None:
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
        f"GET /clusters/one/api/v1/namespaces/ns/pods?{WATCH_QUERY}",
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


async def test_events_do_not_depend_on_how_the_stream_is_split() -> None:
    """The second object is larger than any buffer, and a chunk ends inside a character."""
    objects = [
        {"metadata": {"resourceVersion": str(i)}, "data": "ä" * size} for i, size in enumerate((3, 10**6))
    ]
    lines = [json.dumps({"type": "ADDED", "object": item}, ensure_ascii=False) for item in objects]
    text = "\n\n".join(
        [*lines, '{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}', ""]
    ).encode()
    size = 65_537
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    async with ScriptedServer(
        [chunked_response(text[:40], text[40:], end=b"0\r\n\r\n"), chunked_response(*chunks)]
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


async def test_connections_are_reused() -> None:
    async with ScriptedServer([FOUND]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""))
        for _ in range(5):
            await get(cluster)
        await cluster.close()
    assert (len(server.requests), server.connections) == (5, 1)


# --- the guard of writes ------------------------------------------------------------------------------------


class Guard:
    """Allows writes until it is closed."""

    def __init__(self) -> None:
        self.open, self.calls = True, 0

    def __call__(self) -> None:
        self.calls += 1
        if not self.open:
            raise errors.ForbiddenError("guarded")


async def test_a_guard_is_asked_before_each_write_and_refused_writes_are_not_sent() -> None:
    guard = Guard()
    async with ScriptedServer([FOUND]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""), guard=guard)
        for action in (get, create, evict):
            await action(cluster)
        assert guard.calls == 2
        guard.open = False
        for action in (create, delete, evict):
            with pytest.raises(errors.ForbiddenError, match="guarded"):
                await action(cluster)
        await get(cluster)
        await cluster.close()
    assert [line.split()[0] for line in server.request_lines] == ["GET", "POST", "POST", "GET"]


async def test_a_guard_is_asked_after_a_write_has_waited_for_its_turn() -> None:
    guard = Guard()
    async with ScriptedServer([[HANG]]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""), TransportLimits(concurrent=1), guard=guard)
        first = asyncio.ensure_future(get(cluster))
        await server.received(1)
        second = asyncio.ensure_future(create(cluster))
        await asyncio.sleep(0)
        guard.open = False
        first.cancel()
        with pytest.raises(errors.ForbiddenError, match="guarded"):
            await second
        await cluster.close()
    assert len(server.requests) == 1


async def test_a_large_guarded_write_is_complete() -> None:
    async with ScriptedServer([FOUND]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""), guard=Guard())
        await cluster.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "y" * 2**22}})
        await cluster.close()
    assert json.loads(server.requests[0].body)["data"] == {"x": "y" * 2**22}


async def test_concurrent_requests_are_limited() -> None:
    """No request gets a response: those that were received are all that may be sent."""
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


@pytest.mark.parametrize("action", [get, watch], ids=["a request", "a watch"])
async def test_a_cancelled_request_closes_its_connection(action: Action) -> None:
    async with ScriptedServer([chunked_response(HANG) if action is watch else [HANG]]).serving() as server:
        cluster = KubernetesCluster(token_access(server.url, ""))
        task = asyncio.ensure_future(action(cluster))
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
            with pytest.raises(errors.UnavailableError, match="closed by the client"):
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


def sockets_to(url: str) -> int:
    """Number of open sockets of this process to a server that only this process knows."""
    remote = f":{urlsplit(url).port:04X}"
    rows = map(str.split, Path("/proc/self/net/tcp").read_text().splitlines())
    return sum(row[2].endswith(remote) and row[9] != "0" for row in rows)


@pytest.mark.parametrize("action", [get, watch], ids=["requests", "watches"])
async def test_closing_leaves_no_socket_of_cancelled_requests(action: Action) -> None:
    """A TLS close waits for the server: with this one, a client that waited would keep all eight open."""
    authority = CertificateAuthority("of the server")
    script: ResponseScript = chunked_response(STOP_READING) if action is watch else [STOP_READING]
    async with ScriptedServer([script]).serving(server_context(authority.server())) as server:
        cluster = KubernetesCluster(token_access(server.url, "", authority.pem))
        tasks = [asyncio.ensure_future(action(cluster)) for _ in range(8)]
        await server.received(8)
        assert sockets_to(server.url) == 8
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.close()
        assert sockets_to(server.url) == 0


@pytest.mark.parametrize("cancelled", [True, False])
async def test_closing_leaves_no_socket_of_connections_in_progress(cancelled: bool) -> None:  # noqa: FBT001
    """Whether the close comes before, during or just after the TLS handshake."""
    authority = CertificateAuthority("of the server")
    async with ScriptedServer([[STOP_READING]]).serving(server_context(authority.server())) as server:
        for iterations in range(40):
            cluster = KubernetesCluster(token_access(server.url, "", authority.pem))
            task = asyncio.ensure_future(get(cluster))
            for _ in range(iterations):
                await asyncio.sleep(0)
            if cancelled:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await cluster.close()
            await asyncio.gather(task, return_exceptions=True)
            assert (iterations, sockets_to(server.url)) == (iterations, 0)
        assert server.requests
