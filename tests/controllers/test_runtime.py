"""The runtime with a toy controller: a config map that says how many others it wants."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from shoal.cluster.errors import InternalError, NotFoundError, UnavailableError
from shoal.cluster.events import Note, Reference
from shoal.cluster.object_store import Key
from shoal.cluster.port import Cluster, Deletion, Where
from shoal.cluster.resources import CONFIG_MAPS, EVENTS, PODS, Object
from shoal.controllers.changes import NOTHING, Changes, Create, Delete, Patch
from shoal.controllers.runtime import Controller, Wake
from shoal.controllers.stores import Stores
from tests.controllers.scenes import at_work, late_watch, registry, watched
from tests.controllers.virtual import BEGINNING, virtually

View = tuple[Object, list[Object]]


def owner(thing: Object) -> str:
    references = thing["metadata"].get("ownerReferences") or [{}]
    return str(references[0].get("name", ""))


def toy(stores: Stores) -> Controller[View]:
    """Makes as many children as `wanted` says, counts them in `made`, and renews itself at `until`."""
    maps = stores.of(CONFIG_MAPS)
    by_owner = maps.index(lambda thing: [(thing["metadata"]["namespace"], owner(thing))])

    def look(key: Key) -> View | None:
        parent = maps.items.get(key)
        return None if parent is None or "wanted" not in parent.get("data", {}) else (parent, by_owner[key])

    return Controller(
        name="toy",
        resource=CONFIG_MAPS,
        look=look,
        reconcile=reconcile,
        wakes=(
            Wake(resource=CONFIG_MAPS, keys=lambda thing: [(thing["metadata"]["namespace"], owner(thing))]),
        ),
    )


def reconcile(view: View, now: float) -> Changes:
    parent, children = view
    metadata, data = parent["metadata"], parent["data"]
    name, wanted = metadata["name"], int(data["wanted"])
    if wanted < 0:
        raise ValueError("less than nothing is wanted")
    reference = {k: metadata[k] for k in ("name", "uid")}
    about = Reference(api_version="v1", kind="ConfigMap", namespace="default", **reference)
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
            how=Deletion(uid=c["metadata"]["uid"]),
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
        about=about,
        stages=(() if counted else (count,), (*create, *delete), (renewed,) if due else ()),
        notes=(Note(about=about, reason="Made", message=f"Made {len(create)}"),) if create else (),
        again=None if due else until,
    )


def parent(name: str = "p", **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def names(cluster: Cluster) -> list[str]:
    return [item["metadata"]["name"] for item in (await cluster.list(CONFIG_MAPS, Where("default"))).items]


def test_what_is_wanted_comes_about_and_nothing_is_written_twice() -> None:
    async def scene() -> tuple[list[str], list[str]]:
        async with registry() as home:
            port, cluster = watched(home)
            async with at_work(cluster, [toy]):
                await home.create(CONFIG_MAPS, parent(wanted="3"))
                await asyncio.sleep(5)
                await home.patch(CONFIG_MAPS, "p", "default", patch={"data": {"wanted": "2"}})
                await asyncio.sleep(5)
            return await names(home), sorted(port.of("configmaps"))

    found, writes = virtually(scene)
    assert found == ["p", "p-0", "p-1"]
    assert writes == ["create configmaps"] * 3 + ["delete configmaps"] + ["patch configmaps"] * 3


def test_one_change_of_what_a_key_listens_to_is_one_turn() -> None:
    turns: list[Key] = []

    def watching(stores: Stores) -> Controller[Object]:
        items = stores.of(CONFIG_MAPS).items
        wake = Wake(resource=CONFIG_MAPS, keys=lambda _: [("default", "p")])

        def look(key: Key) -> Object | None:
            turns.append(key)
            return items.get(key)

        return Controller(
            name="watching", resource=PODS, look=look, reconcile=lambda _view, _now: NOTHING, wakes=(wake,)
        )

    async def scene() -> None:
        async with registry() as home:
            await home.create(CONFIG_MAPS, parent())
            async with at_work(home, [watching]):
                await asyncio.sleep(5)
                turns.clear()
                await home.patch(CONFIG_MAPS, "p", "default", patch={"data": {"a": "b"}})
                await asyncio.sleep(5)

    virtually(scene)
    assert turns == [("default", "p")]


def test_what_was_there_before_is_looked_at_when_work_begins() -> None:
    async def scene() -> list[str]:
        async with registry() as home:
            await home.create(CONFIG_MAPS, parent(wanted="1"))
            async with at_work(home, [toy]):
                await asyncio.sleep(5)
            return await names(home)

    assert virtually(scene) == ["p", "p-0"]


def test_a_moment_that_was_asked_for_comes() -> None:
    async def scene() -> list[bool]:
        async with registry() as home, at_work(home, [toy]):
            await home.create(CONFIG_MAPS, parent(wanted="0", until=str(BEGINNING + 3000)))
            seen = []
            for _ in range(2):
                await asyncio.sleep(2000)
                seen.append("until" in (await home.get(CONFIG_MAPS, "p", "default"))["data"])
            return seen

    assert virtually(scene) == [True, False]


def test_somebody_elses_object_is_left_alone_and_told_of() -> None:
    async def scene() -> tuple[Object, list[Object]]:
        async with registry() as home:
            theirs = await home.create(CONFIG_MAPS, parent("p-0", mine="yes"))
            async with at_work(home, [toy]):
                await home.create(CONFIG_MAPS, parent(wanted="2"))
                await asyncio.sleep(60)
            assert await home.get(CONFIG_MAPS, "p-0", "default") == theirs
            return await home.get(CONFIG_MAPS, "p-1", "default"), (await home.list(EVENTS)).items

    made, events = virtually(scene)
    assert owner(made) == "p", "the name that is taken does not keep the others from being made"
    (event,) = events
    assert (event["reason"], event["type"]) == ("NameTaken", "Warning")
    assert event["message"] == "configmaps default/p-0 is there, and belongs to somebody else"
    assert event["count"] > 1, "it is counted, not written again"


def test_a_bug_in_one_key_is_that_keys_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> list[str]:
        async with registry() as home, at_work(home, [toy]):
            await home.create(CONFIG_MAPS, parent("bad", wanted="-1"))
            await home.create(CONFIG_MAPS, parent("good", wanted="1"))
            await asyncio.sleep(60)
            return await names(home)

    assert virtually(scene) == ["bad", "good", "good-0"]
    assert "toy default/bad failed" in caplog.text


def refusing(times: int, error: Exception) -> Callable[[str], None]:
    left = [error] * times

    def refuse(_: str) -> None:
        if left:
            raise left.pop()

    return refuse


@pytest.mark.parametrize("when", ["before", "after"])
def test_writes_that_fail_are_made_again_whether_they_were_made_or_not(when: str) -> None:
    async def scene() -> list[str]:
        async with registry() as home:
            _, cluster = watched(home, **{when: refusing(20, UnavailableError("no answer"))})
            async with at_work(cluster, [toy]):
                await home.create(CONFIG_MAPS, parent(wanted="3"))
                await asyncio.sleep(600)
            return await names(home)

    assert virtually(scene) == ["p", "p-0", "p-1", "p-2"]


def test_no_event_is_worth_a_failure() -> None:
    async def scene() -> list[str]:
        def refuse(write: str) -> None:
            if write.endswith(" events"):
                raise InternalError("no events today")

        async with registry() as home:
            port, cluster = watched(home, before=refuse)
            async with at_work(cluster, [toy]):
                await home.create(CONFIG_MAPS, parent(wanted="1"))
                await asyncio.sleep(60)
            assert port.of("events") == []
            return await names(home)

    assert virtually(scene) == ["p", "p-0"]


def test_stopping_ends_what_runs_and_begins_nothing_new() -> None:
    async def scene() -> tuple[list[str], list[str]]:
        async with registry() as home:
            await home.create(CONFIG_MAPS, parent(wanted="2"))
            stopping: list[Any] = []
            _, cluster = watched(home, before=lambda _: [stop.stop() for stop in stopping])
            async with at_work(cluster, [toy]) as runtime:
                stopping.append(runtime)
                await asyncio.sleep(5)
                before = await names(home)
                await home.patch(CONFIG_MAPS, "p", "default", patch={"data": {"wanted": "9"}})
                await asyncio.sleep(60)
                return before, await names(home)

    before, after = virtually(scene)
    assert before == after == ["p", "p-0", "p-1"], "all of the turn that had begun, and no other"


class Lagging:
    """A cluster whose watches tell late: caches are old for a while."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self._cluster, self._seconds = cluster, seconds

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of the port
        return getattr(self._cluster, name)

    def watch(self, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - as the port has it
        return late_watch(self._cluster.watch(*arguments, **more), self._seconds)


@pytest.mark.parametrize("lag", [0.1, 0.9, 5.0])
def test_a_cache_that_lags_is_waited_for(lag: float) -> None:
    async def scene() -> list[str]:
        async with registry() as home:
            port, cluster = watched(Lagging(home, lag))
            async with at_work(cluster, [toy]):
                await home.create(CONFIG_MAPS, parent(wanted="2"))
                await asyncio.sleep(100)
            return port.of("configmaps")

    creates = [write for write in virtually(scene) if write == "create configmaps"]
    assert len(creates) == 2


def test_an_object_that_was_gone_before_anybody_heard_of_it_is_not_waited_for_for_ever() -> None:
    async def scene() -> int:
        async with registry() as home:

            async def vanish() -> None:
                try:
                    await home.delete(CONFIG_MAPS, "p-0", "default")
                except NotFoundError:
                    pytest.fail("it was made")

            vanished: list[asyncio.Task[None]] = []

            def after(write: str) -> None:
                if write == "create configmaps" and not vanished:
                    vanished.append(asyncio.create_task(vanish()))

            port, cluster = watched(home, after=after)
            async with at_work(cluster, [toy]):
                await home.create(CONFIG_MAPS, parent(wanted="1"))
                await asyncio.sleep(60)
            return len([write for write in port.writes if write == "create configmaps"])

    assert virtually(scene) == 2
