"""The status of Pools: computed by the engine, written when it changes and not too often."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from shoal.api.loader import load_objects
from shoal.api.managed import ManagedMeta
from shoal.api.pool import PoolStatus
from shoal.cache.dry_run import run_cycles, world_of
from shoal.cluster.resources import Object, resource_of
from shoal.cluster.times import to_datetime
from shoal.controllers.changes import PatchStatus
from shoal.controllers.pools import (
    ManagedPool,
    PoolStatusSource,
    PoolView,
    pool_controller,
    pool_statuses,
    reconcile,
)
from shoal.controllers.runtime import Controller
from shoal.controllers.stores import Stores
from shoal.engine.config import SchedulerConfig
from shoal.engine.report import CycleResult
from tests.builders import node, open_pool, pod
from tests.controllers.harness import observe, registry, run_runtime
from tests.controllers.virtual_time import START_TIME, clock, run_virtual

A, B = {"pool": "a"}, {"pool": "b"}


def cycle_of(objects: Iterable[Object]) -> CycleResult:
    """Run one cycle on these objects."""
    views = [view for _, view in load_objects(("test", raw) for raw in objects).views]
    return run_cycles(world_of(views, START_TIME), SchedulerConfig())[-1]


def two_pools(*, away: bool = True) -> list[Object]:
    """Two pools; a pod of the first runs in the second, and one requests more than there is."""
    return [
        open_pool("a"),
        open_pool("b", preempts=False),
        open_pool("c"),
        node("a1", cpu=4, memory="8Gi", labels=A, ready="True"),
        node("b1", cpu=8, memory="8Gi", gpu=2, labels=B, ready="True"),
        node("b2", cpu=8, memory="8Gi", gpu=2, labels=B, unschedulable=True),
        pod("home", cpu=3, memory="1Gi", pool="a", node="a1"),
        *([pod("away", cpu=2, gpu=1, pool="a", node="b1")] if away else []),
        pod("daemon", cpu=1, node="b1", scheduler="other"),
        pod("huge", cpu=64, pool="a"),
    ]


ROWS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "allocatable and used amounts": (
        "a",
        {"nodes": 1, "cpu": "3/4", "memory": "1Gi/8Gi", "gpu": "0/0", "preemption": True, "pending_pods": 1},
    ),
    "a summary of all GPUs": ("b", {"nodes": 2, "cpu": "3/16", "gpu": "1/4", "preemption": False}),
    "a pool without nodes": ("c", {"nodes": 0, "cpu": "0/0", "memory": "0/0", "gpu": "", "pending_pods": 0}),
    "the default pool": ("default", {"nodes": 0, "sharing": True}),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_status_of_a_pool(name: str) -> None:
    which, expected = ROWS[name]
    found = msgspec.structs.asdict(pool_statuses(cycle_of(two_pools()))[which])
    assert {field: found[field] for field in expected} == expected


def test_amounts_by_kind_of_use() -> None:
    found = pool_statuses(cycle_of(two_pools()))
    cpus = {
        name: {
            what: getattr(status, what).get("cpu")
            for what in ("used", "shared", "system", "borrowed", "free")
        }
        for name, status in found.items()
    }
    assert cpus["a"] == {"used": "3", "shared": "0", "system": "0", "borrowed": "2", "free": "1"}
    assert cpus["b"] == {"used": "3", "shared": "2", "system": "1", "borrowed": "0", "free": "13"}
    assert found["a"].pending["cpu"] == "64"


@pytest.mark.parametrize(
    "which, expected",
    [
        ("a", ("True", "HasNodes", "1 of 1 nodes can take pods")),
        ("b", ("True", "HasNodes", "1 of 2 nodes can take pods")),
        ("c", ("False", "NoNodes", "0 of 0 nodes can take pods")),
    ],
)
def test_a_pool_is_ready_if_it_has_a_node_that_can_take_pods(
    which: str, expected: tuple[str, str, str]
) -> None:
    (condition,) = pool_statuses(cycle_of(two_pools()))[which].conditions
    assert (condition.status, condition.reason, condition.message) == expected


def test_a_pool_with_only_unschedulable_nodes_is_not_ready() -> None:
    world = [open_pool("b"), node("b2", labels=B, unschedulable=True)]
    (condition,) = pool_statuses(cycle_of(world))["b"].conditions
    assert (condition.status, condition.reason) == ("False", "NoUsableNode")


# --- writes -----------------------------------------------------------------------------------------------


def patched(current: PoolStatus | None, wanted: PoolStatus, now: float = START_TIME) -> Object:
    view = PoolView(pool=ManagedPool(metadata=ManagedMeta(name="a"), status=current), status=wanted)
    writes = [write for stage in reconcile(view, now).stages for write in stage]
    if not writes:
        return {}
    (write,) = writes
    assert isinstance(write, PatchStatus)
    return dict(write.patch["status"])


def test_the_whole_status_is_written_at_first_and_then_only_changes() -> None:
    one, other = (pool_statuses(cycle_of(two_pools(away=away)))["a"] for away in (True, False))
    first = patched(None, one)
    assert first.keys() == {field.encode_name for field in msgspec.structs.fields(PoolStatus)}
    current = msgspec.convert(first, PoolStatus)
    assert current.conditions[0].last_transition_time == to_datetime(START_TIME)
    assert patched(current, one, START_TIME + 60) == {}
    later = patched(current, other, START_TIME + 60)
    assert later["borrowed"]["cpu"] == "0"
    assert later.keys().isdisjoint({"nodes", "cpu", "memory", "conditions"})


def test_the_status_is_written_every_few_seconds_at_most() -> None:
    async def scenario() -> tuple[int, list[str]]:
        async with registry() as store:
            source = PoolStatusSource(clock, min_interval=5.0)

            def pools(stores: Stores) -> Controller[PoolView]:
                return pool_controller(stores, source)

            port, cluster = observe(store)
            for name in ("a", "default"):
                await store.create(resource_of("Pool"), {"metadata": {"name": name}})
            async with run_runtime(cluster, [pools]):
                for number in range(100):
                    source.publish(cycle_of([*two_pools(), pod("more", cpu=number % 50, pool="a")]))
                    await asyncio.sleep(0.2)
                await asyncio.sleep(10)
            found = [(await store.get(resource_of("Pool"), name))["status"] for name in ("a", "default")]
            return len(port.of("pools")), [status["pending"]["cpu"] for status in found]

    writes, pending = run_virtual(scenario)
    assert pending == ["113", "0"], "the last cycle is what counts"
    assert 5 <= writes <= 7


def test_a_pool_that_is_added_right_after_another_waits_for_no_interval() -> None:
    async def scenario() -> Object:
        async with registry() as store:
            source = PoolStatusSource(clock, min_interval=5.0)
            await store.create(resource_of("Pool"), {"metadata": {"name": "a"}})
            async with run_runtime(store, [lambda stores: pool_controller(stores, source)]):
                source.publish(cycle_of([one for one in two_pools() if one["metadata"]["name"] != "b"]))
                await asyncio.sleep(0.5)
                await store.create(resource_of("Pool"), {"metadata": {"name": "b"}})
                source.publish(cycle_of(two_pools()))
                await asyncio.sleep(0.5)
                return dict((await store.get(resource_of("Pool"), "b")).get("status", {}))

    assert run_virtual(scenario)["cpu"] == "3/16"


def test_a_new_pool_gets_its_status_at_once() -> None:
    async def scenario() -> Object:
        async with registry() as store:
            source = PoolStatusSource(clock)
            async with run_runtime(store, [lambda stores: pool_controller(stores, source)]):
                source.publish(cycle_of(two_pools()))
                await asyncio.sleep(60)
                await store.create(resource_of("Pool"), {"metadata": {"name": "b"}})
                await asyncio.sleep(1)
                return dict((await store.get(resource_of("Pool"), "b"))["status"])

    assert run_virtual(scenario)["cpu"] == "3/16"
