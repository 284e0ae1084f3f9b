"""Watches over HTTP: what is told, in which form, and when it ends."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from shoal.apiserver.credentials import Credentials
from shoal.apiserver.http.server import serving
from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.registry.state import Retention
from shoal.cluster.resources import CONFIG_MAPS
from tests.apiserver.http.test_reading import TABLE
from tests.apiserver.http.test_server import client

MAPS = "/api/v1/namespaces/default/configmaps"
END = "k8s.io/initial-events-end"


class Home:
    """A registry and a client of its API."""

    def __init__(self, registry: Registry, speaking: aiohttp.ClientSession, url: str) -> None:
        self.registry, self._speaking, self._url = registry, speaking, url
        self.streams: list[aiohttp.ClientResponse] = []

    async def make(self, name: str, **labels: str) -> str:
        made = await self.registry.create(CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}})
        return str(made["metadata"]["resourceVersion"])

    async def watch(
        self, query: str, accept: str = "application/json", path: str = MAPS
    ) -> aiohttp.ClientResponse:
        answer = await self._speaking.get(f"{self._url}{path}?watch=1&{query}", headers={"Accept": accept})
        self.streams.append(answer)
        assert answer.status == 200
        return answer


async def lines(answer: aiohttp.ClientResponse, count: int) -> list[Any]:
    return [json.loads(await answer.content.readline()) for _ in range(count)]


def told(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    credentials = Credentials(tmp_path)
    registry = Registry(retention=Retention(changes=20, seconds=1e9), bookmark_interval=0.05)
    async with registry, serving(registry, credentials) as url, client(credentials) as speaking:
        running = Home(registry, speaking, url)
        yield running
        for stream in running.streams:
            stream.close()


async def test_a_watch_tells_what_is_there_and_what_changes(home: Home) -> None:
    await home.make("a")
    watching = await home.watch("")
    assert told(await lines(watching, 1)) == [("ADDED", "a")]
    await home.registry.patch(CONFIG_MAPS, "a", "default", patch={"data": {"x": "y"}})
    await home.registry.delete(CONFIG_MAPS, "a", "default")
    assert told(await lines(watching, 2)) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_goes_on_from_a_version(home: Home) -> None:
    version = await home.make("a")
    await home.make("b")
    assert told(await lines(await home.watch(f"resourceVersion={version}"), 1)) == [("ADDED", "b")]


async def test_what_leaves_a_selection_is_deleted_for_its_watcher(home: Home) -> None:
    await home.make("a", team="x")
    watching = await home.watch("labelSelector=team%3Dx")
    await home.registry.patch(CONFIG_MAPS, "a", "default", patch={"metadata": {"labels": {"team": "y"}}})
    assert told(await lines(watching, 2)) == [("ADDED", "a"), ("DELETED", "a")]


async def test_the_first_events_end_with_a_bookmark_that_says_so(home: Home) -> None:
    await home.make("a")
    version = await home.make("b")
    watching = await home.watch(
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    )
    events = await lines(watching, 3)
    assert told(events) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
    end = events[-1]["object"]
    assert (end["kind"], end["metadata"]["resourceVersion"]) == ("ConfigMap", version)
    assert end["metadata"]["annotations"] == {END: "true"}
    await home.make("c")
    assert told(await lines(watching, 1)) == [("ADDED", "c")]


async def test_no_first_events_if_none_are_wanted(home: Home) -> None:
    await home.make("a")
    watching = await home.watch("sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
    await home.make("b")
    assert told(await lines(watching, 1)) == [("ADDED", "b")]


async def test_bookmarks_come_to_those_who_ask(home: Home) -> None:
    version = await home.make("a")
    asked = await home.watch(f"resourceVersion={version}&labelSelector=x&allowWatchBookmarks=true")
    last = await home.make("b")
    assert (await lines(asked, 1))[0] == {
        "type": "BOOKMARK",
        "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": last}},
    }


async def test_bookmarks_do_not_come_to_others(home: Home) -> None:
    version = await home.make("a")
    watching = await home.watch(f"resourceVersion={version}&labelSelector=x&timeoutSeconds=1")
    await home.make("b")
    assert await watching.read() == b""


async def test_a_watch_ends_when_its_time_is_over(home: Home) -> None:
    await home.make("a")
    text = await (await home.watch("timeoutSeconds=1")).read()
    assert told([json.loads(line) for line in text.splitlines()]) == [("ADDED", "a")]


async def test_a_watch_from_too_long_ago_is_told_so(home: Home) -> None:
    version = await home.make("a")
    for number in range(50):
        await home.registry.patch(CONFIG_MAPS, "a", "default", patch={"data": {"x": str(number)}})
    text = await (await home.watch(f"resourceVersion={version}")).read()
    (event,) = [json.loads(line) for line in text.splitlines()]
    assert event["type"] == "ERROR"
    assert (event["object"]["kind"], event["object"]["code"], event["object"]["reason"]) == (
        "Status",
        410,
        "Expired",
    )


async def test_a_table_says_its_columns_once(home: Home) -> None:
    await home.make("a")
    watching = await home.watch("", TABLE)
    await home.make("b")
    first, second = await lines(watching, 2)
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None
    assert [event["object"]["rows"][0]["cells"][0] for event in (first, second)] == ["a", "b"]


async def test_one_object_can_be_watched_by_its_path(home: Home) -> None:
    await home.make("a")
    await home.make("b")
    assert told(await lines(await home.watch("", path=f"{MAPS}/b"), 1)) == [("ADDED", "b")]


async def test_a_watcher_that_goes_leaves_nothing_behind(home: Home) -> None:
    watching = await home.watch("")
    await home.make("a")
    await lines(watching, 1)
    watching.close()
    await home.make("b")
    assert told(await lines(await home.watch(""), 2)) == [("ADDED", "a"), ("ADDED", "b")]
