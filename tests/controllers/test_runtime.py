"""The runtime with a toy controller: a ConfigMap with the number of children that it wants."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from shoal.cluster.errors import InternalError, NotFoundError, UnavailableError
from shoal.cluster.events import ObjectEvent, ObjectReference
from shoal.cluster.object_store import Key
from shoal.cluster.port import Cluster, Deletion, Selector
from shoal.cluster.resources import CONFIG_MAPS, EVENTS, PODS, Object
from shoal.controllers.changes import NO_CHANGES, Changes, Create, Delete, Patch
from shoal.controllers.runtime import Controller, Watch
from shoal.controllers.stores import Stores
from tests.controllers.harness import delayed_watch, observe, registry, run_runtime
from tests.controllers.virtual_time import START_TIME, run_virtual

View = tuple[Object, list[Object]]


def owner(thing: Object) -> str:
    references = thing["metadata"].get("ownerReferences") or [{}]
    return str(references[0].get("name", ""))


def toy(stores: Stores) -> Controller[View]:
    """Creates `wanted` children, counts them in `made`, and removes `until` at that time."""
    maps = stores.of(CONFIG_MAPS)
    by_owner = maps.index(lambda thing: [(thing["metadata"]["namespace"], owner(thing))])

    def get_view(key: Key) -> View | None:
        parent = maps.items.get(key)
        return None if parent is None or "wanted" not in parent.get("data", {}) else (parent, by_owner[key])

    return Controller(
        name="toy",
        resource=CONFIG_MAPS,
        get_view=get_view,
        reconcile=reconcile,
        watches=(
            Watch(resource=CONFIG_MAPS, keys=lambda thing: [(thing["metadata"]["namespace"], owner(thing))]),
        ),
    )


def reconcile(view: View, now: float) -> Changes:
    parent, children = view
    metadata, data = parent["metadata"], parent["data"]
    name, wanted = metadata["name"], int(data["wanted"])
    if wanted < 0:
        raise ValueError("wanted is negative")
    reference = {k: metadata[k] for k in ("name", "uid")}
    regarding = ObjectReference(api_version="v1", kind="ConfigMap", namespace="default", **reference)
    owned = [{"apiVersion": "v1", "kind": "ConfigMap", "controller": True, **reference}]
    create = tuple(
        Create(
            resource=CONFIG_MAPS,
            owner=metadata["uid"],
            body={"metadata": {"name": f"{name}-{k}", "namespace": "default", "ownerReferences": owned}},
        )
        for k in range(wanted)
        if f"{name}-{k}" not in {child["metadata"]["name"] for child in children}
    )
    delete = tuple(
        Delete(
            resource=CONFIG_MAPS,
            name=c["metadata"]["name"],
            namespace="default",
            deletion=Deletion(uid=c["metadata"]["uid"]),
        )
        for c in children[wanted:]
    )
    count = Patch(
        resource=CONFIG_MAPS, name=name, namespace="default", patch={"data": {"made": str(len(children))}}
    )
    counted = data.get("made") == str(len(children))
    until = float(data["until"]) if "until" in data else None
    renewed = Patch(resource=CONFIG_MAPS, name=name, namespace="default", patch={"data": {"until": None}})
    due = until is not None and now >= until
    return Changes(
        regarding=regarding,
        stages=(() if counted else (count,), (*create, *delete), (renewed,) if due else ()),
        events=(ObjectEvent(regarding=regarding, reason="Made", message=f"Made {len(create)}"),)
        if create
        else (),
        requeue_at=None if due else until,
    )


def parent(name: str = "p", **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def names(cluster: Cluster) -> list[str]:
    return [item["metadata"]["name"] for item in (await cluster.list(CONFIG_MAPS, Selector("default"))).items]


def test_the_desired_state_is_reached_and_nothing_is_written_twice() -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        async with registry() as store:
            port, cluster = observe(store)
            async with run_runtime(cluster, [toy]):
                await store.create(CONFIG_MAPS, parent(wanted="3"))
                await asyncio.sleep(5)
                await store.patch(CONFIG_MAPS, "p", "default", patch={"data": {"wanted": "2"}})
                await asyncio.sleep(5)
            return await names(store), sorted(port.of("configmaps"))

    found, writes = run_virtual(scenario)
    assert found == ["p", "p-0", "p-1"]
    assert writes == ["create configmaps"] * 3 + ["delete configmaps"] + ["patch configmaps"] * 3


def test_one_change_of_a_watched_object_is_one_reconcile() -> None:
    reconciles: list[Key] = []

    def watching(stores: Stores) -> Controller[Object]:
        items = stores.of(CONFIG_MAPS).items
        watch = Watch(resource=CONFIG_MAPS, keys=lambda _: [("default", "p")])

        def get_view(key: Key) -> Object | None:
            reconciles.append(key)
            return items.get(key)

        return Controller(
            name="watching",
            resource=PODS,
            get_view=get_view,
            reconcile=lambda _view, _now: NO_CHANGES,
            watches=(watch,),
        )

    async def scenario() -> None:
        async with registry() as store:
            await store.create(CONFIG_MAPS, parent())
            async with run_runtime(store, [watching]):
                await asyncio.sleep(5)
                reconciles.clear()
                await store.patch(CONFIG_MAPS, "p", "default", patch={"data": {"a": "b"}})
                await asyncio.sleep(5)

    run_virtual(scenario)
    assert reconciles == [("default", "p")]


def test_existing_objects_are_reconciled_at_the_start() -> None:
    async def scenario() -> list[str]:
        async with registry() as store:
            await store.create(CONFIG_MAPS, parent(wanted="1"))
            async with run_runtime(store, [toy]):
                await asyncio.sleep(5)
            return await names(store)

    assert run_virtual(scenario) == ["p", "p-0"]


def test_a_key_is_reconciled_at_the_requested_time() -> None:
    async def scenario() -> list[bool]:
        async with registry() as store, run_runtime(store, [toy]):
            await store.create(CONFIG_MAPS, parent(wanted="0", until=str(START_TIME + 3000)))
            seen = []
            for _ in range(2):
                await asyncio.sleep(2000)
                seen.append("until" in (await store.get(CONFIG_MAPS, "p", "default"))["data"])
            return seen

    assert run_virtual(scenario) == [True, False]


def test_an_object_of_another_owner_is_left_alone_and_reported() -> None:
    async def scenario() -> tuple[Object, list[Object]]:
        async with registry() as store:
            other = await store.create(CONFIG_MAPS, parent("p-0", owner="other"))
            async with run_runtime(store, [toy]):
                await store.create(CONFIG_MAPS, parent(wanted="2"))
                await asyncio.sleep(60)
            assert await store.get(CONFIG_MAPS, "p-0", "default") == other
            return await store.get(CONFIG_MAPS, "p-1", "default"), (await store.list(EVENTS)).items

    made, events = run_virtual(scenario)
    assert owner(made) == "p", "a taken name does not prevent the other creations"
    (event,) = events
    assert (event["reason"], event["type"]) == ("NameTaken", "Warning")
    assert (
        event["message"] == "ConfigMap default/p-0 exists already and has another owner: delete or rename it"
    )
    assert event["count"] > 1, "it is counted, not written again"


def test_an_exception_affects_one_key_only(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> list[str]:
        async with registry() as store, run_runtime(store, [toy]):
            await store.create(CONFIG_MAPS, parent("bad", wanted="-1"))
            await store.create(CONFIG_MAPS, parent("good", wanted="1"))
            await asyncio.sleep(60)
            return await names(store)

    assert run_virtual(scenario) == ["bad", "good", "good-0"]
    assert "toy default/bad failed" in caplog.text


def refusing(times: int, error: Exception) -> Callable[[str], None]:
    left = [error] * times

    def refuse(_: str) -> None:
        if left:
            raise left.pop()

    return refuse


@pytest.mark.parametrize("when", ["before", "after"])
def test_failed_writes_are_retried_whether_they_took_effect_or_not(when: str) -> None:
    async def scenario() -> list[str]:
        async with registry() as store:
            _, cluster = observe(store, **{when: refusing(20, UnavailableError("no answer"))})
            async with run_runtime(cluster, [toy]):
                await store.create(CONFIG_MAPS, parent(wanted="3"))
                await asyncio.sleep(600)
            return await names(store)

    assert run_virtual(scenario) == ["p", "p-0", "p-1", "p-2"]


def test_failures_to_write_events_are_ignored() -> None:
    async def scenario() -> list[str]:
        def refuse(write: str) -> None:
            if write.endswith(" events"):
                raise InternalError("no events today")

        async with registry() as store:
            port, cluster = observe(store, before=refuse)
            async with run_runtime(cluster, [toy]):
                await store.create(CONFIG_MAPS, parent(wanted="1"))
                await asyncio.sleep(60)
            assert port.of("events") == []
            return await names(store)

    assert run_virtual(scenario) == ["p", "p-0"]


def test_stop_finishes_running_reconciles_and_starts_no_new_ones() -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        async with registry() as store:
            await store.create(CONFIG_MAPS, parent(wanted="2"))
            stopping: list[Any] = []
            _, cluster = observe(store, before=lambda _: [stop.stop() for stop in stopping])
            async with run_runtime(cluster, [toy]) as runtime:
                stopping.append(runtime)
                await asyncio.sleep(5)
                before = await names(store)
                await store.patch(CONFIG_MAPS, "p", "default", patch={"data": {"wanted": "9"}})
                await asyncio.sleep(60)
                return before, await names(store)

    before, after = run_virtual(scenario)
    assert before == after == ["p", "p-0", "p-1"], "all writes of the running reconcile, and no others"


class Lagging:
    """A cluster whose watches are delayed: stores are stale for a while."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self._cluster, self._seconds = cluster, seconds

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of the port
        return getattr(self._cluster, name)

    def watch(self, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - as the port has it
        return delayed_watch(self._cluster.watch(*arguments, **more), self._seconds)


@pytest.mark.parametrize("lag", [0.1, 0.9, 5.0])
def test_a_key_waits_until_its_writes_are_observed(lag: float) -> None:
    async def scenario() -> list[str]:
        async with registry() as store:
            port, cluster = observe(Lagging(store, lag))
            async with run_runtime(cluster, [toy]):
                await store.create(CONFIG_MAPS, parent(wanted="2"))
                await asyncio.sleep(100)
            return port.of("configmaps")

    creates = [write for write in run_virtual(scenario) if write == "create configmaps"]
    assert len(creates) == 2


def test_an_object_that_was_deleted_before_it_was_observed_is_not_waited_for() -> None:
    async def scenario() -> int:
        async with registry() as store:

            async def delete() -> None:
                try:
                    await store.delete(CONFIG_MAPS, "p-0", "default")
                except NotFoundError:
                    pytest.fail("it was created")

            deletions: list[asyncio.Task[None]] = []

            def after(write: str) -> None:
                if write == "create configmaps" and not deletions:
                    deletions.append(asyncio.create_task(delete()))

            port, cluster = observe(store, after=after)
            async with run_runtime(cluster, [toy]):
                await store.create(CONFIG_MAPS, parent(wanted="1"))
                await asyncio.sleep(60)
            return len([write for write in port.writes if write == "create configmaps"])

    assert run_virtual(scenario) == 2
