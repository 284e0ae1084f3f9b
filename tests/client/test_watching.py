"""Following a collection through everything that breaks on the way."""

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
from tests.cluster.kubernetes.scripted import ABORT, Answer, Scripted, answer, refusal, stream


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def listed(version: int, *pods: dict[str, Any]) -> Answer:
    return answer(200, {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": pods})


def line(kind: str, thing: object) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


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


CASES: dict[str, tuple[list[Answer], list[str]]] = {
    "what is there, then what changes": (
        [listed(1, pod("a", 1)), stream(line("ADDED", pod("b", 2)), line("DELETED", pod("a", 3)))],
        ["LISTED a", "ADDED b", "DELETED a"],
    ),
    "a watch that ends is taken up where it ended": (
        [listed(1), stream(line("ADDED", pod("a", 2))), stream(line("MODIFIED", pod("a", 3)))],
        ["ADDED a", "MODIFIED a"],
    ),
    "so is one that breaks": (
        [listed(1), stream(line("ADDED", pod("a", 2)), end=ABORT), stream(line("MODIFIED", pod("a", 3)))],
        ["ADDED a", "MODIFIED a"],
    ),
    "one that cannot begin is begun again": (
        [listed(1), refusal(503), [ABORT], stream(line("ADDED", pod("a", 2)))],
        ["ADDED a"],
    ),
    "after 410 in a watch only what has changed is told": (
        [
            listed(1, pod("a", 1), pod("b", 1), pod("c", 1)),
            stream(line("ERROR", GONE)),
            listed(9, pod("a", 1), pod("b", 8), pod("d", 9)),
            stream(line("DELETED", pod("d", 10))),
        ],
        ["LISTED a", "LISTED b", "LISTED c", "MODIFIED b", "MODIFIED d", "DELETED c", "DELETED d"],
    ),
    "after 410 to a watch too": (
        [listed(1), refusal(410), listed(5, pod("a", 5)), stream(line("DELETED", pod("a", 6)))],
        ["MODIFIED a", "DELETED a"],
    ),
    "bookmarks tell nothing": (
        [listed(1), stream(line("BOOKMARK", pod("", 5)), line("ADDED", pod("a", 6)))],
        ["ADDED a"],
    ),
    "rows of tables": (
        [answer(200, table(ROW)), stream(line("MODIFIED", table(ROW, columns=None)))],
        ["LISTED a", "MODIFIED a"],
    ),
    "an empty table": (
        [answer(200, table()), stream(line("ADDED", table(ROW)))],
        ["ADDED a"],
    ),
}


@pytest.mark.parametrize("script, wanted", CASES.values(), ids=CASES)
async def test_what_is_told(script: list[Answer], wanted: list[str]) -> None:
    async with Scripted(script).serving() as server:
        found = await asyncio.to_thread(followed, server.url, len(wanted))
    assert [f"{change.type} {change.object['metadata']['name']}" for change in found] == wanted


def followed(url: str, most: int | None = None) -> list[ObjectChange]:
    with contextlib.closing(Client(token_access(url, "t"))) as client:
        return [*islice(Watcher(client, PODS).changes(), most)]


@pytest.mark.parametrize("there", [[], [pod("b", 3)]])
async def test_who_waits_for_an_end_that_came_before_it_could_watch_is_told(there: list[Any]) -> None:
    async with Scripted([answer(200, pod("a", 1)), listed(3, *there)]).serving() as server:
        assert await asyncio.to_thread(waited, server.url)


def waited(url: str) -> bool:
    with contextlib.closing(Client(token_access(url, "t"))) as client:
        return wait_until(client, ObjectName(PODS, "a", "default"), is_gone("uid-a"), math.inf)


async def test_a_watch_goes_on_from_the_last_version() -> None:
    script = [listed(1), stream(line("ADDED", pod("a", 7))), stream(line("DELETED", pod("a", 8)))]
    async with Scripted(script).serving() as server:
        await asyncio.to_thread(followed, server.url, 2)
    asked = [parse_qs(urlsplit(line.split()[1]).query) for line in server.lines]
    assert [query.get("resourceVersion") for query in asked] == [None, ["1"], ["7"]]


async def test_who_may_not_watch_is_told() -> None:
    async with Scripted([listed(1), refusal(403)]).serving() as server:
        with pytest.raises(ForbiddenError):
            await asyncio.to_thread(followed, server.url)
