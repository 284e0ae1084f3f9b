"""Watches, lists, pages and the retention of history."""

import asyncio

import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.apiserver.registry.state import Retention
from shoal.cluster.errors import BadRequestError, GoneError, UnavailableError
from shoal.cluster.port import EVERYTHING, Selector, WatchEvent
from shoal.cluster.resources import CONFIG_MAPS, EVENTS, PODS, Object, Resource
from tests.apiserver.registry.objects import Clock, config_map, names, opened, pod

Seen = tuple[str, str]


def seen(event: WatchEvent[Object]) -> Seen:
    return event.type, event.object["metadata"]["name"] if event.object else ""


async def all_of(
    registry: Registry,
    version: str,
    selector: Selector = EVERYTHING,
    resource: Resource[Object] = CONFIG_MAPS,
) -> list[Seen]:
    """Return the events of a watch that ends when there are no more."""
    async with registry.watch(resource, selector, version=version, timeout=0) as events:
        return [seen(event) async for event in events if event.type != "BOOKMARK"]


async def label(registry: Registry, name: str, team: str | None) -> None:
    await registry.patch(CONFIG_MAPS, name, patch={"metadata": {"labels": {"team": team}}})


async def test_a_watch_without_a_version_starts_with_existing_objects() -> None:
    async with opened() as registry:
        for name in "ba":
            await registry.create(CONFIG_MAPS, config_map(name))
        version = registry.version
        await registry.delete(CONFIG_MAPS, "b")
        await registry.create(CONFIG_MAPS, config_map("c"))
        assert await all_of(registry, "") == [("ADDED", "a"), ("ADDED", "c")]
        assert await all_of(registry, "0") == [("ADDED", "a"), ("ADDED", "c")]
        assert await all_of(registry, version) == [("DELETED", "b"), ("ADDED", "c")]


async def test_entering_and_leaving_the_selection() -> None:
    async with opened() as registry:
        start = registry.version
        await registry.create(CONFIG_MAPS, config_map("a"))
        await label(registry, "a", "x")
        matching = await registry.patch(CONFIG_MAPS, "a", patch={"data": {"k": "v"}})
        await label(registry, "a", "y")
        left = registry.version
        await registry.delete(CONFIG_MAPS, "a")
        selector = Selector(labels="team=x")
        assert await all_of(registry, start, selector) == [
            ("ADDED", "a"),
            ("MODIFIED", "a"),
            ("DELETED", "a"),
        ]
        async with registry.watch(CONFIG_MAPS, selector, version=start, timeout=0) as events:
            *_, last = [event async for event in events if event.object]
        assert last.version == left
        assert last.object is not None
        assert last.object["metadata"] == matching["metadata"] | {"resourceVersion": left}


WHERE: dict[str, tuple[Selector, list[str]]] = {
    "everywhere": (Selector(), ["a", "b", "c"]),
    "a namespace": (Selector(namespace="default"), ["a", "b"]),
    "no such namespace": (Selector(namespace="no"), []),
    "a label": (Selector(labels="team=x"), ["a", "c"]),
    "a label and a namespace": (Selector(namespace="kube-system", labels="team=x"), ["c"]),
    "a field": (Selector(fields="metadata.name=b"), ["b"]),
    "a namespace by field": (Selector(fields="metadata.namespace!=default"), ["c"]),
}


@pytest.mark.parametrize("case", WHERE)
async def test_lists_and_watches_use_the_same_selectors(case: str) -> None:
    selector, expected = WHERE[case]
    async with opened() as registry:
        start = registry.version
        for name, team, namespace in (
            ("a", "x", "default"),
            ("b", "y", "default"),
            ("c", "x", "kube-system"),
        ):
            body = config_map(name, labels={"team": team}, namespace=namespace)
            await registry.create(CONFIG_MAPS, body)
        page = await registry.list(CONFIG_MAPS, selector)
        assert [obj["metadata"]["name"] for obj in page.items] == expected
        assert [name for _, name in await all_of(registry, start, selector)] == expected
        assert [name for _, name in await all_of(registry, "", selector)] == expected


async def test_a_watch_follows_concurrent_writes() -> None:
    async with opened() as registry, registry.watch(CONFIG_MAPS, version=registry.version) as events:
        found = []
        for name in "abc":
            reading = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            await registry.create(CONFIG_MAPS, config_map(name))
            found.append(seen(await reading))
        assert found == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


async def test_an_idle_watch_gets_bookmarks() -> None:
    registry = Registry(bookmark_interval=0.001)
    async with registry, registry.watch(PODS, version=registry.version) as events:
        first = await anext(events)
        assert (first.type, first.object, first.version) == ("BOOKMARK", None, registry.version)
        await registry.create(CONFIG_MAPS, config_map())
        async for event in events:
            assert event.type == "BOOKMARK"
            if event.version == registry.version:
                break


async def test_a_watch_ends_with_a_bookmark() -> None:
    async with opened() as registry:
        start = registry.version
        await registry.create(CONFIG_MAPS, config_map())
        async with registry.watch(PODS, version=start, timeout=0) as events:
            assert [(event.type, event.version) async for event in events] == [("BOOKMARK", registry.version)]


async def test_watches_end_with_the_registry() -> None:
    registry = Registry()
    async with registry:
        watch = registry.watch(PODS)
        events = await watch.__aenter__()
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
    with pytest.raises(StopAsyncIteration):
        await reading
    with pytest.raises(UnavailableError):
        await registry.get(PODS, "a")


async def test_a_watch_from_a_future_version_gets_gone() -> None:
    async with opened() as registry:
        with pytest.raises(GoneError, match="unknown resource version"):
            await all_of(registry, str(int(registry.version) + 1))
        with pytest.raises(UnavailableError, match="Too large resource version"):
            await registry.list(CONFIG_MAPS, at="9999")


async def test_an_invalid_version_is_refused() -> None:
    async with opened() as registry:
        for version in ("abc", "-1", "9" * 5000):
            with pytest.raises(BadRequestError):
                await all_of(registry, version)
            with pytest.raises(BadRequestError):
                await registry.list(CONFIG_MAPS, at=version)
        with pytest.raises(BadRequestError):
            await registry.list(CONFIG_MAPS, start="abc")


# --- history -----------------------------------------------------------------------------------------------


async def test_history_is_truncated_by_number() -> None:
    async with opened(retention=Retention(changes=10)) as registry:
        await registry.create(CONFIG_MAPS, config_map("first"))
        old = registry.version
        page = await registry.list(CONFIG_MAPS, limit=1)
        async with registry.watch(CONFIG_MAPS, version=old) as slow:
            for i in range(30):
                await registry.create(CONFIG_MAPS, config_map(f"c{i}"))
            with pytest.raises(GoneError):
                await anext(slow)
        with pytest.raises(GoneError):
            await all_of(registry, old)
        with pytest.raises(GoneError):
            await registry.list(CONFIG_MAPS, at=old)
        assert page.next == ""


async def test_history_is_truncated_by_size() -> None:
    async with opened(retention=Retention(size=100_000)) as registry:
        await registry.create(CONFIG_MAPS, config_map("first"))
        old = registry.version
        for i in range(8):
            await registry.create(CONFIG_MAPS, config_map(f"c{i}") | {"data": {"a": "x" * 20_000}})
        with pytest.raises(GoneError):
            await all_of(registry, old)
        kept = await all_of(registry, str(int(registry.version) - 3))
        assert kept == [("ADDED", "c5"), ("ADDED", "c6"), ("ADDED", "c7")]


async def test_history_is_truncated_by_age() -> None:
    clock = Clock()
    async with opened(clock=clock, retention=Retention(seconds=60)) as registry:
        await registry.create(CONFIG_MAPS, config_map())
        old = registry.version
        clock.now += 30
        await registry.create(CONFIG_MAPS, config_map("d"))
        clock.now += 31
        await registry.clean_up()
        assert await all_of(registry, old) == [("ADDED", "d")]
        with pytest.raises(GoneError):
            await all_of(registry, str(int(old) - 1))


async def test_events_are_deleted_after_an_hour() -> None:
    clock = Clock()
    async with opened(clock=clock) as registry:
        for name, age in (("old", 0), ("new", 3000)):
            clock.now += age
            await registry.create(EVENTS, {"metadata": {"name": name}, "involvedObject": {}})
        clock.now += 601
        start = registry.version
        await registry.clean_up()
        assert await names(registry, EVENTS) == ["new"]
        assert await all_of(registry, start, resource=EVENTS) == [("DELETED", "old")]


# --- pages -------------------------------------------------------------------------------------------------


async def test_pages_show_one_state() -> None:
    async with opened() as registry:
        for name in "abcde":
            await registry.create(CONFIG_MAPS, config_map(name))
        first = await registry.list(CONFIG_MAPS, limit=2)
        await registry.delete(CONFIG_MAPS, "d")
        await registry.create(CONFIG_MAPS, config_map("cc"))
        await registry.patch(CONFIG_MAPS, "e", patch={"data": {"new": "x"}})
        second = await registry.list(CONFIG_MAPS, limit=2, start=first.next)
        third = await registry.list(CONFIG_MAPS, limit=2, start=second.next)
        pages = (first, second, third)
        assert ["".join(t["metadata"]["name"] for t in page.items) for page in pages] == ["ab", "cd", "e"]
        assert third.items[0]["data"] == {"a": "b"}
        assert {page.version for page in pages} == {first.version}
        assert [page.remaining for page in pages] == [3, 1, None]
        assert third.next == ""


async def test_pages_of_a_selection_have_no_remaining_count() -> None:
    async with opened() as registry:
        for name in "abc":
            await registry.create(CONFIG_MAPS, config_map(name, labels={"a": "b"}))
        page = await registry.list(CONFIG_MAPS, Selector(labels="a=b"), limit=2)
        assert (len(page.items), page.remaining, bool(page.next)) == (2, None, True)
        page = await registry.list(CONFIG_MAPS, Selector(labels="a=b"), limit=3)
        assert (len(page.items), page.next) == (3, "")


async def test_a_negative_limit_is_no_limit() -> None:
    async with opened() as registry:
        for name in "abc":
            await registry.create(CONFIG_MAPS, config_map(name))
        for selector in (Selector(), Selector(labels="!a")):
            page = await registry.list(CONFIG_MAPS, selector, limit=-2)
            assert (len(page.items), page.next) == (3, "")


async def test_a_page_that_is_too_old_is_gone() -> None:
    async with opened(retention=Retention(changes=5)) as registry:
        for name in "abc":
            await registry.create(CONFIG_MAPS, config_map(name))
        page = await registry.list(CONFIG_MAPS, limit=1)
        for i in range(20):
            await registry.create(CONFIG_MAPS, config_map(f"x{i}"))
        with pytest.raises(GoneError, match="continue parameter is too old"):
            await registry.list(CONFIG_MAPS, limit=1, start=page.next)


async def test_raw_text_is_returned_as_stored() -> None:
    async with opened() as registry:
        await registry.create(PODS, pod())
        (first,) = (await registry.list(PODS.read_as(bytes))).items
        (second,) = (await registry.list(PODS.read_as(bytes))).items
        assert first is second
