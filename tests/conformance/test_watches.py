"""Watches: every matching change once and in order."""

import asyncio

import pytest

from shoal.cluster.errors import BadRequestError, GoneError, InternalError
from shoal.cluster.port import Cluster, Deletion, Selector, WatchEvent
from shoal.cluster.resources import CONFIG_MAPS, NAMESPACES, PODS, Object, Resource, resource_of
from tests.conformance.cases import kinds
from tests.conformance.conftest import CreateTemporary
from tests.conformance.objects import config_map, make, name_of, pod, unique, version_of
from tests.conformance.waiting import PATIENCE, summaries, take


async def put(cluster: Cluster, namespace: str, name: str, **labels: str) -> Object:
    return await cluster.create(CONFIG_MAPS, config_map(name, namespace, metadata={"labels": labels}))


async def relabel(cluster: Cluster, namespace: str, name: str, **labels: str | None) -> Object:
    return await cluster.patch(CONFIG_MAPS, name, namespace, patch={"metadata": {"labels": labels}})


async def test_a_watch_without_a_version_starts_with_existing_objects(
    cluster: Cluster, namespace: str
) -> None:
    made = [await put(cluster, namespace, name) for name in "ba"]
    async with cluster.watch(CONFIG_MAPS, Selector(namespace=namespace)) as events:
        first = await take(events, 2)
        assert sorted(summaries(first)) == [("ADDED", "a"), ("ADDED", "b")]
        assert {event.version for event in first} == {version_of(item) for item in made}
        changed = await relabel(cluster, namespace, "a", x="1")
        assert await take(events, 1) == [WatchEvent("MODIFIED", changed, version_of(changed))]


async def test_a_watch_from_a_version_has_later_changes(cluster: Cluster, namespace: str) -> None:
    await put(cluster, namespace, "before")
    page = await cluster.list(CONFIG_MAPS, Selector(namespace=namespace))
    added = await put(cluster, namespace, "a")
    changed = await relabel(cluster, namespace, "a", x="1")
    await cluster.delete(CONFIG_MAPS, "a", namespace)
    async with cluster.watch(CONFIG_MAPS, Selector(namespace=namespace), version=page.version) as events:
        seen = await take(events, 3)
    assert seen[:2] == [
        WatchEvent("ADDED", added, version_of(added)),
        WatchEvent("MODIFIED", changed, version_of(changed)),
    ]
    assert seen[2].type == "DELETED"


@kinds(CONFIG_MAPS, resource_of("TYJob"))
async def test_a_deleted_event_has_the_last_object_with_a_new_version(
    cluster: Cluster, namespace: str, resource: Resource[Object]
) -> None:
    made = await cluster.create(resource, make(resource, "a", namespace))
    where = Selector(namespace=namespace)
    async with cluster.watch(resource, where, version=version_of(made)) as events:
        await cluster.delete(resource, "a", namespace, Deletion(grace=0))
        after = await cluster.create(resource, make(resource, "b", namespace))
        gone, added = await take(events, 2)
    assert gone.type == "DELETED"
    assert gone.object is not None
    assert gone.object["spec" if "spec" in made else "data"] == made["spec" if "spec" in made else "data"]
    assert gone.version == version_of(gone.object)
    assert gone.version not in (version_of(made), version_of(after))
    assert added.object == after


async def test_a_watch_can_go_on_from_a_deletion(cluster: Cluster, namespace: str) -> None:
    made = await put(cluster, namespace, "a")
    where = Selector(namespace=namespace)
    async with cluster.watch(CONFIG_MAPS, where, version=version_of(made)) as events:
        await cluster.delete(CONFIG_MAPS, "a", namespace)
        (gone,) = await take(events, 1)
    await put(cluster, namespace, "b")
    async with cluster.watch(CONFIG_MAPS, where, version=gone.version) as events:
        assert summaries(await take(events, 1)) == [("ADDED", "b")]


async def test_removing_the_last_finalizer_is_a_deleted_event(cluster: Cluster, namespace: str) -> None:
    body = config_map("a", namespace, metadata={"finalizers": ["example.com/a"]})
    made = await cluster.create(CONFIG_MAPS, body)
    where = Selector(namespace=namespace)
    async with cluster.watch(CONFIG_MAPS, where, version=version_of(made)) as events:
        await cluster.delete(CONFIG_MAPS, "a", namespace)
        await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"metadata": {"finalizers": []}})
        assert summaries(await take(events, 2)) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_an_unchanged_write_has_no_event(cluster: Cluster, namespace: str) -> None:
    made = await put(cluster, namespace, "a", x="1")
    async with cluster.watch(CONFIG_MAPS, Selector(namespace=namespace), version=version_of(made)) as events:
        await cluster.update(CONFIG_MAPS, made)
        await relabel(cluster, namespace, "a", x="1")
        await put(cluster, namespace, "b")
        assert summaries(await take(events, 1)) == [("ADDED", "b")]


async def test_no_events_of_other_namespaces_and_kinds(cluster: Cluster, namespace: str) -> None:
    other = name_of(await cluster.create(NAMESPACES, make(NAMESPACES, unique())))
    async with cluster.watch(CONFIG_MAPS, Selector(namespace=namespace)) as events:
        await put(cluster, other, "a")
        await cluster.create(PODS, pod("b", namespace))
        await put(cluster, namespace, "c")
        assert summaries(await take(events, 1)) == [("ADDED", "c")]


async def test_a_watch_of_all_namespaces_sees_all(cluster: Cluster, namespace: str) -> None:
    other = name_of(await cluster.create(NAMESPACES, make(NAMESPACES, unique())))
    mark = unique("mark")
    async with cluster.watch(CONFIG_MAPS, Selector(labels=f"mark={mark}")) as events:
        await put(cluster, other, "a", mark=mark)
        await put(cluster, namespace, "b", mark=mark)
        seen = await take(events, 2)
    assert [event.object["metadata"]["namespace"] for event in seen if event.object] == [other, namespace]


# --- selectors -----------------------------------------------------------------------------------------


async def test_objects_enter_and_leave_a_selection(cluster: Cluster, namespace: str) -> None:
    made = await put(cluster, namespace, "a", x="0")
    where = Selector(namespace=namespace, labels="x=1")
    async with cluster.watch(CONFIG_MAPS, where, version=version_of(made)) as events:
        entered = await relabel(cluster, namespace, "a", x="1")
        changed = await relabel(cluster, namespace, "a", y="2")
        left = await relabel(cluster, namespace, "a", x="2")
        await relabel(cluster, namespace, "a", y="3")
        back = await relabel(cluster, namespace, "a", x="1")
        seen = await take(events, 4)
    assert [(event.type, event.version) for event in seen] == [
        ("ADDED", version_of(entered)),
        ("MODIFIED", version_of(changed)),
        ("DELETED", version_of(left)),
        ("ADDED", version_of(back)),
    ]
    assert [event.object for event in seen[:2]] == [entered, changed]


async def test_leaving_the_selection_sends_the_last_matching_object(cluster: Cluster, namespace: str) -> None:
    made = await put(cluster, namespace, "a", x="1", y="1")
    where = Selector(namespace=namespace, labels="x=1")
    async with cluster.watch(CONFIG_MAPS, where, version=version_of(made)) as events:
        left = await relabel(cluster, namespace, "a", x=None, y="2")
        (gone,) = await take(events, 1)
    assert gone.object is not None
    assert gone.object["metadata"]["labels"] == {"x": "1", "y": "1"}
    assert version_of(gone.object) == version_of(left)


async def test_no_event_for_deletions_outside_the_selection(cluster: Cluster, namespace: str) -> None:
    made = await put(cluster, namespace, "a", x="0")
    where = Selector(namespace=namespace, labels="x=1")
    async with cluster.watch(CONFIG_MAPS, where, version=version_of(made)) as events:
        await cluster.delete(CONFIG_MAPS, "a", namespace)
        await put(cluster, namespace, "b", x="1")
        assert summaries(await take(events, 1)) == [("ADDED", "b")]


async def test_pods_enter_the_selection_of_their_node(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, pod("a", namespace))
    on_node = Selector(namespace=namespace, fields="spec.nodeName=n1")
    waiting = Selector(namespace=namespace, fields="spec.nodeName=,status.phase=Pending")
    async with (
        cluster.watch(PODS, on_node, version=version_of(made)) as theirs,
        cluster.watch(PODS, waiting, version=version_of(made)) as queue,
    ):
        await cluster.bind("a", namespace, "n1")
        assert summaries(await take(theirs, 1)) == [("ADDED", "a")]
        assert summaries(await take(queue, 1)) == [("DELETED", "a")]


async def test_past_changes_are_selected_by_their_state_then(cluster: Cluster, namespace: str) -> None:
    start = await put(cluster, namespace, "zero")
    await put(cluster, namespace, "a", x="1")
    await relabel(cluster, namespace, "a", x="0")
    await relabel(cluster, namespace, "a", x="1")
    await cluster.delete(CONFIG_MAPS, "a", namespace)
    where = Selector(namespace=namespace, labels="x=1")
    async with cluster.watch(CONFIG_MAPS, where, version=version_of(start)) as events:
        seen = await take(events, 4)
    assert [event.type for event in seen] == ["ADDED", "DELETED", "ADDED", "DELETED"]


async def test_a_watch_without_matches_waits(cluster: Cluster, namespace: str) -> None:
    where = Selector(namespace=namespace, fields="metadata.name=later")
    async with cluster.watch(CONFIG_MAPS, where) as events:
        await put(cluster, namespace, "sooner")
        await put(cluster, namespace, "later")
        assert summaries(await take(events, 1)) == [("ADDED", "later")]


# --- ends and errors -----------------------------------------------------------------------------------


async def test_a_watch_ends_after_its_timeout(cluster: Cluster, namespace: str) -> None:
    await put(cluster, namespace, "a")
    async with (
        asyncio.timeout(PATIENCE),
        cluster.watch(CONFIG_MAPS, Selector(namespace=namespace), timeout=1) as events,
    ):
        seen = [event async for event in events]
    assert [event.type for event in seen if event.type != "BOOKMARK"] == ["ADDED"]


async def test_a_watch_ends_with_a_bookmark(cluster: Cluster, namespace: str) -> None:
    """A watch that ends after its timeout sends a bookmark first, if the home supports it."""
    made = await put(cluster, namespace, "a")
    where = Selector(namespace=namespace, labels="x=1")
    async with (
        asyncio.timeout(PATIENCE),
        cluster.watch(CONFIG_MAPS, where, version=version_of(made), timeout=3) as events,
    ):
        last = await put(cluster, namespace, "b")
        seen = [event async for event in events]
    assert {(event.type, event.object) for event in seen} == {("BOOKMARK", None)}
    async with cluster.watch(CONFIG_MAPS, Selector(namespace=namespace), version=seen[-1].version) as events:
        after = await put(cluster, namespace, "c")
        assert [event.object for event in await take(events, 1)] == [after]
    assert last != after


async def test_a_compacted_version_is_gone(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(GoneError):
        async with (
            asyncio.timeout(PATIENCE),
            cluster.watch(resource_of("TYJob"), Selector(namespace=namespace), version="1") as events,
        ):
            await anext(events)


@pytest.mark.parametrize("version", ["x", "-1", "1.5", "\u0661"])
async def test_an_invalid_version_is_refused(cluster: Cluster, namespace: str, version: str) -> None:
    with pytest.raises((BadRequestError, InternalError)):
        async with cluster.watch(CONFIG_MAPS, Selector(namespace=namespace), version=version) as events:
            await anext(events)


async def test_a_watch_can_be_left_early(cluster: Cluster, namespace: str) -> None:
    where = Selector(namespace=namespace)
    async with cluster.watch(CONFIG_MAPS, where) as others:
        async with cluster.watch(CONFIG_MAPS, where) as events:
            await put(cluster, namespace, "a")
            await take(events, 1)
        await put(cluster, namespace, "b")
        assert summaries(await take(others, 2)) == [("ADDED", "a"), ("ADDED", "b")]


# --- many ----------------------------------------------------------------------------------------------


async def write_a_lot(cluster: Cluster, namespace: str, count: int) -> list[tuple[str, str]]:
    """Create, change and delete objects; returns the expected events as types and names."""
    story: list[tuple[str, str]] = []
    for number in range(count):
        name = f"n{number}"
        await put(cluster, namespace, name)
        await relabel(cluster, namespace, name, x=str(number))
        story += [("ADDED", name), ("MODIFIED", name)]
        if number % 2:
            await cluster.delete(CONFIG_MAPS, name, namespace)
            story.append(("DELETED", name))
    return story


async def test_watches_have_the_same_events_in_the_same_order(cluster: Cluster, namespace: str) -> None:
    page = await cluster.list(CONFIG_MAPS, Selector(namespace=namespace))

    async def follow(count: int) -> list[WatchEvent[Object]]:
        where = Selector(namespace=namespace)
        async with cluster.watch(CONFIG_MAPS, where, version=page.version) as events:
            return await take(events, count)

    watchers = [asyncio.create_task(follow(25)) for _ in range(5)]
    story = await write_a_lot(cluster, namespace, 10)
    first, *others = await asyncio.gather(*watchers)
    assert summaries(first) == story
    assert others == [first] * 4


async def test_a_resumed_watch_has_every_event_once(cluster: Cluster, namespace: str) -> None:
    version = (await cluster.list(CONFIG_MAPS, Selector(namespace=namespace))).version
    writer = asyncio.create_task(write_a_lot(cluster, namespace, 20))
    seen: list[WatchEvent[Object]] = []
    while len(seen) < 50:
        async with cluster.watch(CONFIG_MAPS, Selector(namespace=namespace), version=version) as events:
            seen += await take(events, min(3, 50 - len(seen)))
            version = seen[-1].version
    assert summaries(seen) == await writer
    assert len({event.version for event in seen}) == 50


async def test_events_of_concurrent_writes_are_ordered_by_version(
    cluster: Cluster, create_temporary: CreateTemporary
) -> None:
    mark = unique("mark")
    async with cluster.watch(resource_of("Pool"), Selector(labels=f"mark={mark}")) as events:
        bodies = [
            make(resource_of("Pool"), f"{mark}-{n}", metadata={"labels": {"mark": mark}}) for n in range(30)
        ]
        await asyncio.gather(*(create_temporary(resource_of("Pool"), body) for body in bodies))
        seen = await take(events, 30)
    versions = [int(event.version) for event in seen]
    assert versions == sorted(set(versions))
