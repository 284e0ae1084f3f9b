"""Following a collection: through broken watches, expired versions and unreachable servers."""

import asyncio
import contextlib
import json
import math
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from shoal.client.client import Client, ObjectName
from shoal.client.watch import ObjectChange, Watcher, is_gone, wait_until
from shoal.cluster.errors import ForbiddenError
from shoal.cluster.kubernetes.access import token_access
from shoal.cluster.resources import PODS
from tests.cluster.kubernetes.scripted_server import (
    ABORT,
    ResponseScript,
    ScriptedServer,
    chunked_response,
    error_response,
    response,
)


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def list_response(version: int, *pods: dict[str, Any]) -> ResponseScript:
    return response(200, {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": pods})


def event(kind: str, body: object) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
ROW = {"cells": ["a"], "object": {"kind": "PartialObjectMetadata", **pod("a", 1)}}
COLUMNS = [{"name": "Name"}]


def table(*rows: object, columns: object = COLUMNS, version: str = "1") -> dict[str, Any]:
    return {
        "kind": "Table",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": columns,
        "rows": rows,
    }


CASES: dict[str, tuple[list[ResponseScript], list[str]]] = {
    "objects, then changes": (
        [
            list_response(1, pod("a", 1)),
            chunked_response(event("ADDED", pod("b", 2)), event("DELETED", pod("a", 3))),
        ],
        ["LISTED a", "ADDED b", "DELETED a"],
    ),
    "a watch that ends is resumed": (
        [
            list_response(1),
            chunked_response(event("ADDED", pod("a", 2))),
            chunked_response(event("MODIFIED", pod("a", 3))),
        ],
        ["ADDED a", "MODIFIED a"],
    ),
    "a watch that breaks is resumed": (
        [
            list_response(1),
            chunked_response(event("ADDED", pod("a", 2)), end=ABORT),
            chunked_response(event("MODIFIED", pod("a", 3))),
        ],
        ["ADDED a", "MODIFIED a"],
    ),
    "a watch that cannot be opened is retried": (
        [list_response(1), error_response(503), [ABORT], chunked_response(event("ADDED", pod("a", 2)))],
        ["ADDED a"],
    ),
    "after 410 in a watch only differences are reported": (
        [
            list_response(1, pod("a", 1), pod("b", 1), pod("c", 1)),
            chunked_response(event("ERROR", GONE)),
            list_response(9, pod("a", 1), pod("b", 8), pod("d", 9)),
            chunked_response(event("DELETED", pod("d", 10))),
        ],
        ["LISTED a", "LISTED b", "LISTED c", "MODIFIED b", "MODIFIED d", "DELETED c", "DELETED d"],
    ),
    "after 410 in response to a watch": (
        [
            list_response(1),
            error_response(410),
            list_response(5, pod("a", 5)),
            chunked_response(event("DELETED", pod("a", 6))),
        ],
        ["MODIFIED a", "DELETED a"],
    ),
    "bookmarks are no changes": (
        [list_response(1), chunked_response(event("BOOKMARK", pod("", 5)), event("ADDED", pod("a", 6)))],
        ["ADDED a"],
    ),
    "rows of tables": (
        [response(200, table(ROW)), chunked_response(event("MODIFIED", table(ROW, columns=None)))],
        ["LISTED a", "MODIFIED a"],
    ),
    "an empty table": (
        [response(200, table()), chunked_response(event("ADDED", table(ROW)))],
        ["ADDED a"],
    ),
}


@pytest.mark.parametrize("script, expected", CASES.values(), ids=CASES)
async def test_changes(script: list[ResponseScript], expected: list[str]) -> None:
    async with ScriptedServer(script).serving() as server:
        found = await asyncio.to_thread(collect_changes, server.url, len(expected))
    assert [f"{change.type} {change.object['metadata']['name']}" for change in found] == expected


def collect_changes(url: str, limit: int | None = None) -> list[ObjectChange]:
    with contextlib.closing(Client(token_access(url, "t"))) as client:
        return [*islice(Watcher(client, PODS).changes(), limit)]


@pytest.mark.parametrize("remaining", [[], [pod("b", 3)]])
async def test_a_deletion_before_the_watch_is_noticed(remaining: list[Any]) -> None:
    async with ScriptedServer([response(200, pod("a", 1)), list_response(3, *remaining)]).serving() as server:
        assert await asyncio.to_thread(wait_for_deletion, server.url)


def wait_for_deletion(url: str) -> bool:
    with contextlib.closing(Client(token_access(url, "t"))) as client:
        return wait_until(client, ObjectName(PODS, "a", "default"), is_gone("uid-a"), math.inf)


async def test_a_watch_resumes_from_the_last_version() -> None:
    script = [
        list_response(1),
        chunked_response(event("ADDED", pod("a", 7))),
        chunked_response(event("DELETED", pod("a", 8))),
    ]
    async with ScriptedServer(script).serving() as server:
        await asyncio.to_thread(collect_changes, server.url, 2)
    queries = [parse_qs(urlsplit(line.split()[1]).query) for line in server.request_lines]
    assert [query.get("resourceVersion") for query in queries] == [None, ["1"], ["7"]]


async def test_a_forbidden_watch_is_an_error() -> None:
    async with ScriptedServer([list_response(1), error_response(403)]).serving() as server:
        with pytest.raises(ForbiddenError):
            await asyncio.to_thread(collect_changes, server.url)
