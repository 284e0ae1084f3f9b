"""Lists: their order, their version, and their pages."""

import pytest

from shoal.cluster.errors import BadRequestError, GoneError
from shoal.cluster.port import Cluster, Selector
from shoal.cluster.resources import CONFIG_MAPS, NAMESPACES, Object, resource_of
from tests.conformance.cases import cases
from tests.conformance.conftest import CreateTemporary
from tests.conformance.objects import config_map, make, name_of, unique, version_of
from tests.conformance.waiting import summaries, take

NAMES = ["a", "a-b", "a.b", "a0", "ab", "b", "b1", "b10", "b2", "c"]
"""In byte order."""


async def fill(cluster: Cluster, namespace: str, names: list[str] = NAMES) -> None:
    for name in reversed(names):
        await cluster.create(CONFIG_MAPS, config_map(name, namespace))


def names(items: list[Object]) -> list[str]:
    return [name_of(item) for item in items]


async def test_a_list_is_ordered_by_name(cluster: Cluster, namespace: str) -> None:
    await fill(cluster, namespace)
    assert names((await cluster.list(CONFIG_MAPS, Selector(namespace=namespace))).items) == NAMES


async def test_a_list_of_all_namespaces_is_ordered_by_namespace(cluster: Cluster) -> None:
    prefix = unique("order")
    spaces = [f"{prefix}-{letter}" for letter in "ab"]
    for space in reversed(spaces):
        await cluster.create(NAMESPACES, make(NAMESPACES, space))
        for name in ("z", "y"):
            await cluster.create(CONFIG_MAPS, config_map(name, space, metadata={"labels": {"of": prefix}}))
    found = await cluster.list(CONFIG_MAPS, Selector(labels=f"of={prefix}"))
    assert [(item["metadata"]["namespace"], name_of(item)) for item in found.items] == [
        (space, name) for space in spaces for name in ("y", "z")
    ]


async def test_an_empty_list_has_a_version_to_watch_from(cluster: Cluster, namespace: str) -> None:
    page = await cluster.list(CONFIG_MAPS, Selector(namespace=namespace))
    assert (page.items, page.next, page.remaining or 0) == ([], "", 0)
    assert page.version
    assert page.version != "0"
    await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    async with cluster.watch(CONFIG_MAPS, Selector(namespace=namespace), version=page.version) as events:
        assert summaries(await take(events, 1)) == [("ADDED", "a")]


async def test_a_list_includes_the_last_write(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    for value in range(20):
        made = await cluster.patch(CONFIG_MAPS, "a", namespace, patch={"data": {"a": str(value)}})
        assert (await cluster.list(CONFIG_MAPS, Selector(namespace=namespace))).items == [made]


# --- pages ---------------------------------------------------------------------------------------------


async def pages(cluster: Cluster, selector: Selector, limit: int) -> list[list[str]]:
    page = await cluster.list(CONFIG_MAPS, selector, limit=limit)
    found = [names(page.items)]
    while page.next:
        page = await cluster.list(CONFIG_MAPS, selector, limit=limit, start=page.next)
        found.append(names(page.items))
    return found


SIZES = [
    ("one each", 1, [[name] for name in NAMES]),
    ("pages of three", 3, [NAMES[:3], NAMES[3:6], NAMES[6:9], NAMES[9:]]),
    ("a last page that is full", 5, [NAMES[:5], NAMES[5:]]),
    ("one page that is just full", 10, [NAMES]),
    ("one page with room", 11, [NAMES]),
    ("no limit", 0, [NAMES]),
]


@cases("limit, expected", SIZES)
async def test_all_pages_but_the_last_are_full(
    cluster: Cluster, namespace: str, limit: int, expected: list[list[str]]
) -> None:
    await fill(cluster, namespace)
    assert await pages(cluster, Selector(namespace=namespace), limit) == expected


async def test_pages_have_the_remaining_count(cluster: Cluster, namespace: str) -> None:
    await fill(cluster, namespace)
    selector = Selector(namespace=namespace)
    first = await cluster.list(CONFIG_MAPS, selector, limit=3)
    second = await cluster.list(CONFIG_MAPS, selector, limit=3, start=first.next)
    last = await cluster.list(CONFIG_MAPS, selector, limit=10, start=second.next)
    assert (first.remaining, second.remaining, last.remaining or 0) == (7, 4, 0)


async def test_all_pages_show_one_state(cluster: Cluster, namespace: str) -> None:
    await fill(cluster, namespace)
    selector = Selector(namespace=namespace)
    before = (await cluster.list(CONFIG_MAPS, selector)).items
    first = await cluster.list(CONFIG_MAPS, selector, limit=3)
    await cluster.patch(CONFIG_MAPS, "ab", namespace, patch={"data": {"a": "2"}})
    await cluster.delete(CONFIG_MAPS, "b", namespace)
    await cluster.create(CONFIG_MAPS, config_map("b11", namespace))
    rest = await cluster.list(CONFIG_MAPS, selector, limit=100, start=first.next)
    assert first.items + rest.items == before
    assert (rest.version, rest.next) == (first.version, "")


async def test_a_watch_continues_from_the_version_of_the_pages(cluster: Cluster, namespace: str) -> None:
    await fill(cluster, namespace)
    selector = Selector(namespace=namespace)
    first = await cluster.list(CONFIG_MAPS, selector, limit=3)
    await cluster.patch(CONFIG_MAPS, "b", namespace, patch={"data": {"a": "2"}})
    rest = await cluster.list(CONFIG_MAPS, selector, start=first.next)
    async with cluster.watch(CONFIG_MAPS, selector, version=rest.version) as events:
        assert summaries(await take(events, 1)) == [("MODIFIED", "b")]


async def test_pages_of_a_selection(cluster: Cluster, namespace: str) -> None:
    for number in range(12):
        labels = {"even": "yes" if number % 2 == 0 else "no"}
        await cluster.create(CONFIG_MAPS, config_map(f"n{number:02}", namespace, metadata={"labels": labels}))
    found = await pages(cluster, Selector(namespace=namespace, labels="even=yes"), 4)
    assert found == [["n00", "n02", "n04", "n06"], ["n08", "n10"]]


async def test_pages_continue_across_namespaces(cluster: Cluster) -> None:
    prefix = unique("page")
    for letter in "ab":
        await cluster.create(NAMESPACES, make(NAMESPACES, f"{prefix}-{letter}"))
        for name in ("x", "y", "z"):
            body = config_map(name, f"{prefix}-{letter}", metadata={"labels": {"of": prefix}})
            await cluster.create(CONFIG_MAPS, body)
    found = await pages(cluster, Selector(labels=f"of={prefix}"), 2)
    assert [name for page in found for name in page] == ["x", "y", "z", "x", "y", "z"]


async def test_pages_of_cluster_scoped_objects(cluster: Cluster, create_temporary: CreateTemporary) -> None:
    prefix = unique("page")
    made = [
        await create_temporary(
            resource_of("Pool"),
            make(resource_of("Pool"), f"{prefix}-{number}", metadata={"labels": {"of": prefix}}),
        )
        for number in range(3)
    ]
    first = await cluster.list(resource_of("Pool"), Selector(labels=f"of={prefix}"), limit=2)
    rest = await cluster.list(resource_of("Pool"), Selector(labels=f"of={prefix}"), limit=2, start=first.next)
    assert first.items + rest.items == made


BAD = ["nonsense", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "e30", "////"]


@pytest.mark.parametrize("start", BAD)
async def test_an_invalid_continue_token_is_refused(cluster: Cluster, namespace: str, start: str) -> None:
    with pytest.raises((BadRequestError, GoneError)):
        await cluster.list(CONFIG_MAPS, Selector(namespace=namespace), limit=1, start=start)


async def test_versions_are_global(cluster: Cluster, namespace: str) -> None:
    page = await cluster.list(CONFIG_MAPS, Selector(namespace=namespace))
    made = await cluster.create(resource_of("Pool"), make(resource_of("Pool"), unique()))
    await cluster.delete(resource_of("Pool"), name_of(made))
    assert (await cluster.list(CONFIG_MAPS, Selector(namespace=namespace))).version != page.version
    assert version_of(made) != page.version
