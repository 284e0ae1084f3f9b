"""A reflector behind a faulty proxy, on servers that are restarted: it ends with the actual objects."""

import asyncio
import itertools
import os
import random
from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from shoal.cluster.backoff import Backoff
from shoal.cluster.kubernetes.access import token_access
from shoal.cluster.kubernetes.cluster import KubernetesCluster
from shoal.cluster.kubernetes.transport import TransportLimits
from shoal.cluster.object_store import Change, Deleted, Key, ObjectCache
from shoal.cluster.port import Selector
from shoal.cluster.reflector import Reflector, ReflectorOptions
from shoal.cluster.resources import CONFIG_MAPS, Object
from tests.cluster.faults.proxy import Proxy
from tests.cluster.faults.schedule import Schedule
from tests.k8s.controlplane import ControlPlane
from tests.k8s.processes import TIMEOUT, Process

NAMES: Final = [f"object-{number}" for number in range(40)]
SHORT_LIMITS: Final = TransportLimits(connect=5, request=5, watch_idle=1, max_retry_after=0.05)
SEEDS: Final = range(int(os.environ.get("SHOAL_SEEDS", "20")))


class CheckedCache(ObjectCache[Object]):
    """Fails if an object changes its uid without having been deleted."""

    def __call__(self, changes: Sequence[Change[Object]]) -> None:  # type: ignore[override]
        for change in changes:
            if not isinstance(change, Deleted) and change.key in self.items:
                before = self.items[change.key]["metadata"]
                assert change.item["metadata"]["uid"] == before["uid"]
            super().__call__([change])


class Changer:
    """Creates, changes and deletes random objects, directly on the server."""

    def __init__(self, cluster: KubernetesCluster, namespace: str, rng: random.Random) -> None:
        self._cluster, self._namespace, self._rng = cluster, namespace, rng
        self._existing: set[str] = set()

    async def change(self, number: int) -> None:
        name = self._rng.choice(NAMES)
        if name not in self._existing:
            metadata = {"name": name, "namespace": self._namespace}
            body = {"metadata": metadata, "data": {"x": "x" * self._rng.choice([10, 1000, 20_000])}}
            await self._cluster.create(CONFIG_MAPS, body)
            self._existing.add(name)
        elif self._rng.random() < 0.4:
            await self._cluster.delete(CONFIG_MAPS, name, self._namespace)
            self._existing.discard(name)
        else:
            patch = {"data": {"number": str(number)}}
            await self._cluster.patch(CONFIG_MAPS, name, self._namespace, patch=patch)


async def list_objects(cluster: KubernetesCluster, selector: Selector) -> Mapping[Key, Object]:
    page = await cluster.list(CONFIG_MAPS, selector)
    return {(selector.namespace, item["metadata"]["name"]): item for item in page.items}


async def wait_until_equal(cache: CheckedCache, expected: Mapping[Key, Object]) -> None:
    """Wait until the cache has the expected objects."""
    for _ in range(int(TIMEOUT / 0.05)):
        if cache.items == expected:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the cache differs in {sorted(cache.items.keys() ^ expected.keys())}")


async def follow(plane: ControlPlane, namespace: str, *, seed: int, changes: int, restarts: int) -> None:
    """Follow changing objects through a proxy; a failure reports the faults."""
    schedule = Schedule(seed)
    direct = KubernetesCluster(token_access(plane.url, plane.client().token, plane.authority))
    try:
        async with (
            Proxy(plane.url, plane.client().tls, schedule).serving() as proxy,
            asyncio.TaskGroup() as group,
        ):
            behind = KubernetesCluster(
                token_access(proxy.url, plane.client().token, proxy.authority.pem), SHORT_LIMITS
            )
            cache, selector = CheckedCache(), Selector(namespace)
            options = ReflectorOptions(
                page_size=7,
                backoff=Backoff(0.01, 0.1, jitter=0.5),
                min_watch_timeout=1,
                max_watch_timeout=3,
                rng=random.Random(seed),
            )
            task = group.create_task(Reflector(behind, CONFIG_MAPS, cache, selector, options).run())
            await change_all(
                plane, Changer(direct, namespace, random.Random(seed)), schedule, changes, restarts
            )
            schedule.stopped = True
            await wait_until_equal(cache, await list_objects(direct, selector))
            task.cancel()
            await behind.close()
    except BaseException as failure:
        failure.add_note(str(schedule))
        raise
    await direct.close()


async def change_all(
    plane: ControlPlane, changer: Changer, schedule: Schedule, changes: int, restarts: int
) -> None:
    """Change objects, and restart servers in between."""
    rng = random.Random(schedule.seed)
    processes = itertools.cycle((plane.etcd, plane.api_server))
    stops = dict(zip(rng.sample(range(changes), restarts), processes, strict=False))
    for number in range(changes):
        await changer.change(number)
        await schedule.wait_for(number // 40)  # so that faults occur between changes
        if number in stops:
            await restart(plane, stops[number], schedule)


async def restart(plane: ControlPlane, process: Process, schedule: Schedule) -> None:
    schedule.faults.append(f"restart of {process.name}")
    await asyncio.to_thread(plane.restart, process)


@pytest.mark.parametrize("seed", range(3))
async def test_the_cache_ends_equal_to_a_list(k8s: ControlPlane, namespace: str, seed: int) -> None:
    await follow(k8s, namespace, seed=seed, changes=500, restarts=2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
async def test_the_cache_ends_equal_to_a_list_after_many_changes(
    k8s: ControlPlane, namespace: str, seed: int
) -> None:
    await follow(k8s, namespace, seed=seed, changes=10_000, restarts=10)
