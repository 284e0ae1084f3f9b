"""A World that follows a cluster: it converges to the objects of the cluster, invalid ones left out."""

import asyncio
import random
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from shoal.apiserver.registry.registry import Registry
from shoal.cache.live import followed
from shoal.cache.snapshots import SnapshotBuilder, build_snapshot
from shoal.cache.world import World
from shoal.cluster.errors import ConflictError, NotFoundError
from shoal.cluster.port import EVERYTHING, Deletion, Page, Selector, WatchEvent
from shoal.cluster.reflector import ReflectorOptions
from shoal.cluster.resources import NODES, PODS, Object, Resource, by_kind, resource_of
from shoal.engine.config import SchedulerConfig
from tests.builders import (
    batch_job,
    budget,
    dijob,
    namespace,
    node,
    open_pool,
    pod,
    priority_class,
    resources,
    template,
    trainingjob,
    tyjob,
)
from tests.cluster.live_world import follow_world, wait_until
from tests.incremental import NOW, snapshot_data, view

SMALL = template(cpu=1)


# --- a registry ---------------------------------------------------------------------------------------------


def objects() -> list[Object]:
    """Objects of every kind."""
    return [
        namespace("team", labels={"team": "a"}, pool="a"),
        priority_class("high", 10),
        open_pool("a"),
        *(node(f"n{i}", cpu=4, labels={"pool": "a" if i % 2 else "b"}) for i in range(4)),
        *(pod(f"p{i}", cpu=1, namespace="team") for i in range(6)),
        tyjob("t", leader=SMALL, workers={"w": (2, SMALL)}, namespace="team"),
        dijob("d", SMALL, replicas=(1, 3), preemptible=True),
        trainingjob("e", trainer=resources(1), trainers=(1, 2)),
        batch_job("b", SMALL, parallelism=2),
        budget("g", selector={"app": "x"}, min_available=1),
    ]


async def create(registry: Registry, one: Object) -> None:
    """Create an object, and write its status with a second request."""
    resource = by_kind()[one["apiVersion"], one["kind"]]
    await registry.create(resource, one)
    if "status" in one:
        meta = one["metadata"]
        status = {"status": one["status"]}
        await registry.patch_status(resource, meta["name"], meta.get("namespace", "default"), patch=status)


async def build_fresh(registry: Registry, config: SchedulerConfig) -> Object:
    """The snapshot of a world that lists everything once."""
    world = World(NOW)
    for resource in followed():
        world.put(*map(view, (await registry.list(resource)).items))
    return snapshot_data(build_snapshot(world, config, NOW).snapshot)


async def test_a_live_world_follows_the_cluster() -> None:
    rng, config = random.Random(7), SchedulerConfig()
    async with Registry(clock=lambda: NOW, rng=random.Random(1)) as registry:
        for one in objects():
            await create(registry, one)
        async with follow_world(registry) as live:
            await live.synced()
            assembler = SnapshotBuilder(live.world, config)
            for _ in range(40):
                for _ in range(rng.randrange(4)):
                    await rng.choice(WRITES)(registry, rng)
                wanted = await build_fresh(registry, config)
                await wait_until(lambda: snapshot_data(assembler.build(NOW).snapshot) == wanted)  # noqa: B023 - at once
            assert live.unreadable == {}
            assert live.reflectors.errors == []


async def bind_one(registry: Registry, rng: random.Random) -> None:
    with suppress(ConflictError, NotFoundError):
        await registry.bind(f"p{rng.randrange(6)}", "team", f"n{rng.randrange(4)}")


async def run_one(registry: Registry, rng: random.Random) -> None:
    phase = {"status": {"phase": rng.choice(["Running", "Succeeded", "Failed"])}}
    with suppress(NotFoundError):
        await registry.patch_status(PODS, f"p{rng.randrange(6)}", "team", patch=phase)


async def replace_one(registry: Registry, rng: random.Random) -> None:
    name = f"p{rng.randrange(6)}"
    with suppress(NotFoundError):
        await registry.delete(PODS, name, "team", Deletion(grace=0))
    await create(registry, pod(name, cpu=rng.randrange(1, 4), namespace="team"))


async def cordon_one(registry: Registry, rng: random.Random) -> None:
    patch = {"spec": {"unschedulable": rng.random() < 0.5}}
    await registry.patch(NODES, f"n{rng.randrange(4)}", patch=patch)


async def allocate_one(registry: Registry, rng: random.Random) -> None:
    allocations = {"t-leader": f"n{rng.randrange(4)}"}
    patch = {"status": {"allocations": rng.choice([allocations, None])}}
    await registry.patch_status(resource_of("TYJob"), "t", "team", patch=patch)


WRITES = (bind_one, run_one, replace_one, cordon_one, allocate_one)


async def test_an_allocation_counts_from_its_decision_on_and_the_watch_confirms_it() -> None:
    async with Registry(clock=lambda: NOW, rng=random.Random(1)) as registry:
        for one in objects():
            await create(registry, one)
        async with follow_world(registry) as live:
            await live.synced()
            world, key = live.world, ("team", "t")
            assumption = world.assume_status("TYJob", key, allocations={"t-leader": "n1"})
            assert assumption is not None
            patch = {"status": {"allocations": {"t-leader": "n1"}}}
            written = await registry.patch_status(resource_of("TYJob"), "t", "team", patch=patch)
            world.written(assumption, int(written["metadata"]["resourceVersion"]))
            assert world.jobs["TYJob"][key].status.allocations == {"t-leader": "n1"}
            await wait_until(lambda: not world.assumed)
            assert world.jobs["TYJob"][key].status.allocations == {"t-leader": "n1"}


# --- invalid objects and missing kinds ----------------------------------------------------------------------


class ConstantCluster:
    """A cluster with constant, possibly invalid objects, whose watches have no events."""

    def __init__(self, *items: Object, without: Collection[str] = ()) -> None:
        self._items = items
        self.without = without

    async def list(
        self, resource: Resource[Any], selector: Selector = EVERYTHING, *, limit: int = 0, start: str = ""
    ) -> Page[Any]:
        await asyncio.sleep(0)
        if resource.kind in self.without:
            raise NotFoundError("the server could not find the requested resource")
        texts = [msgspec.json.encode(one) for one in self._items if one["kind"] == resource.kind]
        return Page(items=[resource.decode(text) for text in texts], version="1")

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        version: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - as the port has it
    ) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        yield self._no_events()

    async def _no_events(self) -> AsyncIterator[WatchEvent[Any]]:
        await asyncio.Event().wait()
        for event in list[WatchEvent[Any]]():
            yield event


def broken(one: Object, **parts: object) -> Object:
    return one | parts


UNREADABLE: dict[str, tuple[Object, list[str]]] = {
    "a pod with an invalid request": (
        pod(
            "bad",
            spec={"containers": [{"name": "m", "resources": {"requests": {"cpu": "x", "memory": "y"}}}]},
        ),
        ["spec.containers[0].resources.requests.cpu", "spec.containers[0].resources.requests.memory"],
    ),
    "a pod with a negative request": (
        pod("bad", spec={"containers": [{"name": "m", "resources": {"requests": {"cpu": "-1"}}}]}),
        ["spec.containers[0].resources.requests.cpu"],
    ),
    "a node with an invalid amount": (
        broken(node("bad"), status={"capacity": {"cpu": "many"}, "conditions": 7}),
        ["status.capacity.cpu", "status.conditions"],
    ),
    "a job without a template": (broken(batch_job("bad", SMALL), spec={}), ["spec.template"]),
    "a pool whose selector is a number": (
        broken(open_pool("bad"), spec={"nodeSelector": 7}),
        ["spec.nodeSelector"],
    ),
}


@pytest.mark.parametrize("bad, paths", UNREADABLE.values(), ids=UNREADABLE.keys())
async def test_only_the_undecodable_object_is_left_out(bad: Object, paths: list[str]) -> None:
    async with follow_world(ConstantCluster(node("n1"), bad, pod("good", cpu=1))) as live:
        await live.synced()
        ((kind, key), problem) = next(iter(live.unreadable.items()))
        assert (kind, key[1]) == (bad["kind"], "bad")
        assert [part.partition(": ")[0] for part in problem.split("; ")] == paths
        seen = build_snapshot(live.world, SchedulerConfig(), NOW).snapshot
        assert [workload.key for workload in seen.workloads] == ["Pod/default/good"]
        assert seen.nodes.names == ("n1",)


async def test_a_null_is_an_absent_field_for_pods_too() -> None:
    odd = pod("p", cpu=1) | {"status": None}
    odd["spec"] |= {"nodeSelector": None, "tolerations": None, "priority": None}
    async with follow_world(ConstantCluster(node("n1"), odd)) as live:
        await live.synced()
        assert live.unreadable == {}
        assert live.world.pods["default", "p"].phase == "Pending"


async def test_a_kind_that_is_not_installed_is_empty_until_it_is() -> None:
    job = tyjob("t", leader=SMALL, workers={"w": (1, SMALL)})
    cluster = ConstantCluster(node("n1"), job, without={"TYJob", "Pool"})
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    async with follow_world(cluster, ReflectorOptions(sleep=sleep)) as live:
        await live.synced()
        assert list(live.world.nodes) == ["n1"]
        assert live.world.jobs["TYJob"] == {}
        await wait_until(lambda: len(waits) > 3)
        assert live.reflectors.errors == []
        cluster.without = ()
        await wait_until(lambda: ("default", "t") in live.world.jobs["TYJob"])
