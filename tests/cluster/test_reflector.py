"""A reflector and a scripted cluster: each failure by itself, and what the reflector does then."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from shoal.cluster import errors
from shoal.cluster.backoff import Backoff
from shoal.cluster.object_store import Change, Deleted, Put
from shoal.cluster.port import EVERYTHING, Cluster, Page, Selector, WatchEvent
from shoal.cluster.reflector import Reflector, ReflectorOptions, Reflectors
from shoal.cluster.resources import CONFIG_MAPS, NODES, PODS, Resource, Text

# --- scripts ----------------------------------------------------------------------------------------------


def config_map(name: str, version: int, uid: str = "", value: object = 0) -> bytes:
    metadata = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return json.dumps({"metadata": metadata, "value": value}).encode()


@dataclass
class ListStep:
    """Respond to a list."""

    version: int
    items: Sequence[bytes] = ()
    next: str = ""


@dataclass
class WatchStep:
    """Serve one watch: its events, and the error that it ends with."""

    events: Sequence[tuple[str, bytes]] = ()
    end: errors.ClusterError | None = None


@dataclass
class FailStep:
    """Fail a request."""

    error: errors.ClusterError


Step = ListStep | WatchStep | FailStep
GONE = errors.GoneError("too old resource version")
DROPPED = errors.UnavailableError("the connection was reset")
BROKEN = errors.InternalError("etcd is down")
BUSY = errors.TooManyRequestsError("later", retry_after=7)


@dataclass
class ScriptedCluster:
    """A cluster that follows a script and records the requests; after the script it never responds."""

    steps: list[Step]
    requests: list[str] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def list(
        self, resource: Resource[Any], selector: Selector = EVERYTHING, *, limit: int = 0, start: str = ""
    ) -> Page[Any]:
        step = await self._next(f"list {limit}{start and ' after '}{start}")
        assert isinstance(step, ListStep)
        items = [resource.decode(item) for item in step.items]
        return Page(items=items, version=str(step.version), next=step.next)

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        version: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - as the port has it
    ) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        step = await self._next(f"watch {version}")
        assert isinstance(step, WatchStep)
        yield self._events(resource, step)

    async def _events(self, resource: Resource[Any], step: WatchStep) -> AsyncIterator[WatchEvent[Any]]:
        for kind, text in step.events:
            version = json.loads(text)["metadata"]["resourceVersion"]
            item = None if kind == "BOOKMARK" else resource.decode(text)
            yield WatchEvent(cast("Any", kind), item, version)
        if step.end is not None:
            raise step.end

    async def _next(self, request: str) -> Step:
        self.requests.append(request)
        await asyncio.sleep(0)  # no response is immediate: other tasks run first
        if not self.steps:
            self.done.set()
            await asyncio.Event().wait()
        step = self.steps.pop(0)
        if isinstance(step, FailStep):
            raise step.error
        return step


# --- cases ------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """What the cluster does; the batches of changes, the requests, and the number of delays."""

    steps: list[Step]
    batches: list[list[str]]
    requests: list[str]
    delays: int = 0


ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"
A1, A5, B3 = config_map("a", 1), config_map("a", 5), config_map("b", 3)
FIRST = ListStep(4, [A1, B3])
FIRST_CHANGES = ["put a 1", "put b 3"]
CASES = {
    "a list comes first, then the changes": Case(
        [FIRST, WatchStep([(MODIFIED, A5), (DELETED, config_map("b", 6)), (ADDED, config_map("c", 7))])],
        [FIRST_CHANGES, ["put a 5"], ["deleted b"], ["put c 7"]],
        ["list 2", "watch 4", "watch 7"],
    ),
    "all pages are one list": Case(
        [ListStep(4, [A1], "more"), ListStep(4, [B3])],
        [FIRST_CHANGES],
        ["list 2", "list 2 after more", "watch 4"],
    ),
    "after an expired continue token everything is listed at once": Case(
        [ListStep(4, [A1], "more"), FailStep(GONE), ListStep(5, [A5])],
        [["put a 5"]],
        ["list 2", "list 2 after more", "list 0", "watch 5"],
    ),
    "a list that fails in the middle changes nothing": Case(
        [ListStep(4, [A1], "more"), FailStep(DROPPED), FIRST],
        [FIRST_CHANGES],
        ["list 2", "list 2 after more", "list 2", "watch 4"],
        delays=1,
    ),
    "a server that is down is retried until it is up": Case(
        [FailStep(DROPPED), FailStep(BROKEN), FailStep(BUSY), FIRST],
        [FIRST_CHANGES],
        ["list 2"] * 4 + ["watch 4"],
        delays=3,
    ),
    "a version that has expired when the watch starts": Case(
        [FIRST, FailStep(GONE), ListStep(9, [A5])],
        [FIRST_CHANGES, ["deleted b", "put a 5"]],
        ["list 2", "watch 4", "list 2", "watch 9"],
        delays=1,
    ),
    "a version that expires during the watch": Case(
        [FIRST, WatchStep([(MODIFIED, A5)], GONE), ListStep(9, [A5, config_map("b", 8)])],
        [FIRST_CHANGES, ["put a 5"], ["put b 8"]],
        ["list 2", "watch 4", "list 2", "watch 9"],
        delays=1,
    ),
    "a broken connection is resumed": Case(
        [FIRST, WatchStep([(MODIFIED, A5)], DROPPED), WatchStep([(DELETED, config_map("b", 6))])],
        [FIRST_CHANGES, ["put a 5"], ["deleted b"]],
        ["list 2", "watch 4", "watch 5", "watch 6"],
        delays=1,
    ),
    "a watch that fails to start is retried from the same version": Case(
        [FIRST, FailStep(BUSY), FailStep(DROPPED), WatchStep([(MODIFIED, A5)])],
        [FIRST_CHANGES, ["put a 5"]],
        ["list 2", "watch 4", "watch 4", "watch 4", "watch 5"],
        delays=2,
    ),
    "an error that the version may cause leads to another list": Case(
        [FIRST, WatchStep([], BROKEN), ListStep(4, [A1, B3])],
        [FIRST_CHANGES],
        ["list 2", "watch 4", "list 2", "watch 4"],
        delays=1,
    ),
    "watches that keep failing lead to another list": Case(
        [FIRST, *[FailStep(DROPPED)] * 6, ListStep(9, [A1])],
        [FIRST_CHANGES, ["deleted b"]],
        ["list 2", *["watch 4"] * 6, "list 2", "watch 9"],
        delays=6,
    ),
    "a watch that ends without progress is a failure": Case(
        [
            FIRST,
            WatchStep(),
            WatchStep([(BOOKMARK, config_map("", 4))]),
            WatchStep([(BOOKMARK, config_map("", 8))]),
        ],
        [FIRST_CHANGES],
        ["list 2", "watch 4", "watch 4", "watch 4", "watch 8"],
        delays=2,
    ),
    "a bookmark moves the version and nothing else": Case(
        [FIRST, WatchStep([(BOOKMARK, config_map("", 8))])],
        [FIRST_CHANGES],
        ["list 2", "watch 4", "watch 8"],
    ),
    "an object that was recreated meanwhile is deleted and put": Case(
        [FIRST, FailStep(GONE), ListStep(9, [A1, config_map("b", 8, uid="another")])],
        [FIRST_CHANGES, ["deleted b", "put b 8"]],
        ["list 2", "watch 4", "list 2", "watch 9"],
        delays=1,
    ),
    "an object that cannot be decoded is ignored until it can": Case(
        [
            ListStep(4, [A1, config_map("b", 3, value="invalid")]),
            WatchStep([(MODIFIED, config_map("a", 5, value="invalid")), (MODIFIED, config_map("b", 6))]),
        ],
        [["put a 1"], ["deleted a"], ["put b 6"]],
        ["list 2", "watch 4", "watch 6"],
    ),
}


class FakeSleep:
    """Records delays, and does not sleep."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def decode_strictly(text: Text) -> Any:  # noqa: ANN401 - any JSON
    found = json.loads(bytes(text))
    if found["value"] == "invalid":
        raise ValueError("value: expected a number")
    return found


def describe(changes: Sequence[Change[Any]]) -> list[str]:
    return [
        f"deleted {change.key[1]}" if isinstance(change, Deleted) else f"put {change.key[1]} {change.version}"
        for change in changes
    ]


def options(sleep: FakeSleep, **more: Any) -> ReflectorOptions:  # noqa: ANN401 - any of its fields
    return ReflectorOptions(page_size=2, sleep=sleep, rng=random.Random(1), **more)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_changes(case: Case) -> None:
    cluster, sleep = ScriptedCluster(list(case.steps)), FakeSleep()
    batches: list[list[str]] = []
    reflector = Reflector(
        cast("Cluster", cluster),
        CONFIG_MAPS.read_as(decode_strictly),
        lambda changes: batches.append(describe(changes)),
        options=options(sleep),
    )
    task = asyncio.create_task(reflector.run())
    await asyncio.wait({task, asyncio.create_task(cluster.done.wait())}, return_when="FIRST_COMPLETED")
    assert not task.done(), task.exception()
    task.cancel()
    assert (batches, cluster.requests, len(sleep.seconds)) == (case.batches, case.requests, case.delays)
    assert reflector.synced.is_set()


async def delays_of(*steps: Step) -> list[float]:
    """Return the delays of a reflector with a back-off of 1 to 8 seconds, for these steps."""
    cluster, sleep = ScriptedCluster(list(steps)), FakeSleep()
    settings = options(sleep, backoff=Backoff(1.0, 8.0, jitter=0.5))
    reflector = Reflector(cast("Cluster", cluster), CONFIG_MAPS, lambda _: None, options=settings)
    task = asyncio.create_task(reflector.run())
    await cluster.done.wait()
    task.cancel()
    return sleep.seconds


async def test_delays_grow_to_the_maximum_and_start_again_after_a_success() -> None:
    *delays, last = await delays_of(
        *[FailStep(DROPPED)] * 2000, FIRST, WatchStep([(MODIFIED, A5)]), FailStep(DROPPED)
    )
    assert all(0.5 <= delay <= 8.0 for delay in delays)
    assert all(full / 2 <= delay <= full for full, delay in zip((1, 2, 4, 8), delays, strict=False))
    assert len(set(delays)) > 100  # reflectors that failed together do not retry together
    assert last <= 1.0


async def test_the_delay_that_a_server_asks_for_is_kept_up_to_the_maximum() -> None:
    busy = [errors.TooManyRequestsError("later", retry_after=seconds) for seconds in (7, 3600)]
    assert await delays_of(*map(FailStep, busy)) == [7, 8]


async def test_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ScriptedCluster([ListStep(4, [config_map("a", 1, value="invalid")]), FailStep(DROPPED)])
    received: list[Any] = []
    reflector = Reflector(
        cast("Cluster", cluster),
        CONFIG_MAPS.read_as(decode_strictly),
        received.append,
        options=options(FakeSleep()),
    )
    task = asyncio.create_task(reflector.run())
    await cluster.done.wait()
    task.cancel()
    assert reflector.handler.undecodable == {("", "a"): "value: expected a number"}
    assert reflector.last_error is DROPPED
    assert received == []
    assert [record.getMessage() for record in caplog.records] == [
        "ignoring configmaps a, which cannot be decoded: value: expected a number",
        "configmaps: the connection was reset",
    ]


async def test_reflectors_are_synced_when_each_is() -> None:
    cluster = ScriptedCluster([ListStep(1, [A1]), ListStep(1, [A1])])
    group = Reflectors(cast("Cluster", cluster), options(FakeSleep()))
    counts = [0, 0]

    def count(index: int, changes: Sequence[Change[Any]]) -> None:
        counts[index] += len([change for change in changes if isinstance(change, Put)])

    group.follow(PODS, lambda changes: count(0, changes))
    group.follow(NODES, lambda changes: count(1, changes))
    task = asyncio.create_task(group.run())
    await group.synced()
    assert counts == [1, 1]
    assert group.errors == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
