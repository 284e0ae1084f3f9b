"""Watches over HTTP: events, representations, bookmarks and timeouts."""

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
from tests.apiserver.http.test_lists import TABLE
from tests.apiserver.http.test_server import client

MAPS = "/api/v1/namespaces/default/configmaps"
END = "k8s.io/initial-events-end"


class Home:
    """A registry and a client of its API."""

    def __init__(self, registry: Registry, session: aiohttp.ClientSession, url: str) -> None:
        self.registry, self._speaking, self._url = registry, session, url
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


def summaries(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    credentials = Credentials(tmp_path)
    registry = Registry(retention=Retention(changes=20, seconds=1e9), bookmark_interval=0.05)
    async with registry, serving(registry, credentials) as url, client(credentials) as session:
        running = Home(registry, session, url)
        yield running
        for stream in running.streams:
            stream.close()


async def test_a_watch_starts_with_existing_objects(home: Home) -> None:
    await home.make("a")
    watching = await home.watch("")
    assert summaries(await lines(watching, 1)) == [("ADDED", "a")]
    await home.registry.patch(CONFIG_MAPS, "a", "default", patch={"data": {"x": "y"}})
    await home.registry.delete(CONFIG_MAPS, "a", "default")
    assert summaries(await lines(watching, 2)) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_resumes_from_a_version(home: Home) -> None:
    version = await home.make("a")
    await home.make("b")
    assert summaries(await lines(await home.watch(f"resourceVersion={version}"), 1)) == [("ADDED", "b")]


async def test_leaving_the_selection_is_a_deleted_event(home: Home) -> None:
    await home.make("a", team="x")
    watching = await home.watch("labelSelector=team%3Dx")
    await home.registry.patch(CONFIG_MAPS, "a", "default", patch={"metadata": {"labels": {"team": "y"}}})
    assert summaries(await lines(watching, 2)) == [("ADDED", "a"), ("DELETED", "a")]


async def test_initial_events_end_with_a_bookmark(home: Home) -> None:
    await home.make("a")
    version = await home.make("b")
    watching = await home.watch(
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    )
    events = await lines(watching, 3)
    assert summaries(events) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
    end = events[-1]["object"]
    assert (end["kind"], end["metadata"]["resourceVersion"]) == ("ConfigMap", version)
    assert end["metadata"]["annotations"] == {END: "true"}
    await home.make("c")
    assert summaries(await lines(watching, 1)) == [("ADDED", "c")]


async def test_send_initial_events_false(home: Home) -> None:
    await home.make("a")
    watching = await home.watch("sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
    await home.make("b")
    assert summaries(await lines(watching, 1)) == [("ADDED", "b")]


async def test_bookmarks_on_request(home: Home) -> None:
    version = await home.make("a")
    asked = await home.watch(f"resourceVersion={version}&labelSelector=x&allowWatchBookmarks=true")
    last = await home.make("b")
    assert (await lines(asked, 1))[0] == {
        "type": "BOOKMARK",
        "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": last}},
    }


async def test_no_bookmarks_by_default(home: Home) -> None:
    version = await home.make("a")
    watching = await home.watch(f"resourceVersion={version}&labelSelector=x&timeoutSeconds=1")
    await home.make("b")
    assert await watching.read() == b""


async def test_a_watch_ends_after_its_timeout(home: Home) -> None:
    await home.make("a")
    text = await (await home.watch("timeoutSeconds=1")).read()
    assert summaries([json.loads(line) for line in text.splitlines()]) == [("ADDED", "a")]


async def test_a_watch_from_a_compacted_version_gets_gone(home: Home) -> None:
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


async def test_only_the_first_table_has_column_definitions(home: Home) -> None:
    await home.make("a")
    watching = await home.watch("", TABLE)
    await home.make("b")
    first, second = await lines(watching, 2)
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None
    assert [event["object"]["rows"][0]["cells"][0] for event in (first, second)] == ["a", "b"]


async def test_watch_of_a_single_object_by_path(home: Home) -> None:
    await home.make("a")
    await home.make("b")
    assert summaries(await lines(await home.watch("", path=f"{MAPS}/b"), 1)) == [("ADDED", "b")]


async def test_a_disconnected_watch_is_cleaned_up(home: Home) -> None:
    watching = await home.watch("")
    await home.make("a")
    await lines(watching, 1)
    watching.close()
    await home.make("b")
    assert summaries(await lines(await home.watch(""), 2)) == [("ADDED", "a"), ("ADDED", "b")]
