"""Concurrent writers: no write is lost or applied twice."""

import asyncio

from shoal.cluster.errors import AlreadyExistsError, ConflictError, NotFoundError
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import CONFIG_MAPS, NAMESPACES, PODS, Object
from tests.conformance.objects import config_map, make, name_of, pod, unique, version_of
from tests.conformance.waiting import exists


async def increment(cluster: Cluster, namespace: str) -> None:
    """Increment a counter, with a retry on each conflict."""
    while True:
        counter = await cluster.get(CONFIG_MAPS, "counter", namespace)
        data = {"count": str(int(counter["data"]["count"]) + 1)}
        try:
            await cluster.update(CONFIG_MAPS, {**counter, "data": data})
        except ConflictError:
            continue
        return


async def test_a_hundred_increments_add_up(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map("counter", namespace, data={"count": "0"}))

    async def ten() -> None:
        for _ in range(10):
            await increment(cluster, namespace)

    await asyncio.gather(*(ten() for _ in range(10)))
    assert (await cluster.get(CONFIG_MAPS, "counter", namespace))["data"]["count"] == "100"


async def test_concurrent_patches_of_different_fields_are_all_stored(
    cluster: Cluster, namespace: str
) -> None:
    await cluster.create(CONFIG_MAPS, config_map("a", namespace, data={}))
    keys = [f"k{number}" for number in range(20)]
    await asyncio.gather(
        *(cluster.patch(CONFIG_MAPS, "a", namespace, patch={"data": {key: key}}) for key in keys)
    )
    assert (await cluster.get(CONFIG_MAPS, "a", namespace))["data"] == {key: key for key in keys}


async def test_one_of_concurrent_creates_succeeds(cluster: Cluster, namespace: str) -> None:
    bodies = [config_map("a", namespace, data={"by": str(number)}) for number in range(20)]
    results = await asyncio.gather(
        *(cluster.create(CONFIG_MAPS, body) for body in bodies), return_exceptions=True
    )
    won = [result for result in results if not isinstance(result, BaseException)]
    assert len(won) == 1
    assert sum(isinstance(result, AlreadyExistsError) for result in results) == 19
    assert await cluster.get(CONFIG_MAPS, "a", namespace) == won[0]


async def test_one_of_concurrent_bindings_succeeds(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod("a", namespace))
    nodes = [f"n{number}" for number in range(20)]
    results = await asyncio.gather(
        *(cluster.bind("a", namespace, node) for node in nodes), return_exceptions=True
    )
    won = [node for node, result in zip(nodes, results, strict=True) if result is None]
    assert sum(isinstance(result, ConflictError) for result in results) == 19
    assert won == [(await cluster.get(PODS, "a", namespace))["spec"]["nodeName"]]


async def test_one_of_concurrent_updates_succeeds(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    bodies = [{**made, "data": {"by": str(number)}} for number in range(20)]
    results = await asyncio.gather(
        *(cluster.update(CONFIG_MAPS, body) for body in bodies), return_exceptions=True
    )
    assert sum(isinstance(result, ConflictError) for result in results) == 19
    (won,) = [result for result in results if not isinstance(result, BaseException)]
    assert await cluster.get(CONFIG_MAPS, "a", namespace) == won


async def test_one_of_concurrent_deletions_succeeds(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map("a", namespace))
    deletion = Deletion(version=version_of(made))

    async def delete() -> Object | None:
        return await cluster.delete(CONFIG_MAPS, "a", namespace, deletion)

    results = await asyncio.gather(*(delete() for _ in range(20)), return_exceptions=True)
    assert results.count(None) == 1
    assert sum(isinstance(result, NotFoundError | ConflictError) for result in results) == 19
    assert not await exists(cluster, CONFIG_MAPS, "a", namespace)


async def test_all_concurrent_writes_are_stored(cluster: Cluster) -> None:
    spaces = [name_of(await cluster.create(NAMESPACES, make(NAMESPACES, unique()))) for _ in range(3)]
    mark = {"labels": {"mark": unique("mark")}}
    bodies = [config_map(f"n{number}", space, metadata=mark) for number in range(30) for space in spaces]
    made = await asyncio.gather(*(cluster.create(CONFIG_MAPS, body) for body in bodies))
    assert len({version_of(item) for item in made}) == 90
    found = await cluster.list(CONFIG_MAPS, Selector(labels=f"mark={mark['labels']['mark']}"))
    assert len(found.items) == 90
