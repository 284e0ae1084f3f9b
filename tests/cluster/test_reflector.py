"""A reflector and a cluster that does what a script says: each fault by itself, and what comes of it."""

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


def made(name: str, version: int, uid: str = "", value: object = 0) -> bytes:
    metadata = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return json.dumps({"metadata": metadata, "value": value}).encode()


@dataclass
class Lists:
    """One answer to a list."""

    version: int
    items: Sequence[bytes] = ()
    next: str = ""


@dataclass
class Tells:
    """One watch: what it tells, and how it ends."""

    events: Sequence[tuple[str, bytes]] = ()
    end: errors.ClusterError | None = None


@dataclass
class Fails:
    """A request that is refused."""

    error: errors.ClusterError


Step = Lists | Tells | Fails
GONE = errors.GoneError("too old resource version")
DROPPED = errors.UnavailableError("the connection was reset")
BROKEN = errors.InternalError("etcd is unwell")
BUSY = errors.TooManyRequestsError("later", retry_after=7)


@dataclass
class Scripted:
    """A cluster that does what a script says, writes down what it is asked, and then falls silent."""

    steps: list[Step]
    asked: list[str] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def list(
        self, resource: Resource[Any], selector: Selector = EVERYTHING, *, limit: int = 0, start: str = ""
    ) -> Page[Any]:
        step = await self._next(f"list {limit}{start and ' after '}{start}")
        assert isinstance(step, Lists)
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
        assert isinstance(step, Tells)
        yield self._events(resource, step)

    async def _events(self, resource: Resource[Any], step: Tells) -> AsyncIterator[WatchEvent[Any]]:
        for kind, text in step.events:
            version = json.loads(text)["metadata"]["resourceVersion"]
            item = None if kind == "BOOKMARK" else resource.decode(text)
            yield WatchEvent(cast("Any", kind), item, version)
        if step.end is not None:
            raise step.end

    async def _next(self, asked: str) -> Step:
        self.asked.append(asked)
        await asyncio.sleep(0)  # no answer comes at once, and others get their turn
        if not self.steps:
            self.done.set()
            await asyncio.Event().wait()
        step = self.steps.pop(0)
        if isinstance(step, Fails):
            raise step.error
        return step


# --- cases ------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """What the cluster does; then what is passed on, what was asked, and how often was waited."""

    steps: list[Step]
    told: list[list[str]]
    asked: list[str]
    waits: int = 0


ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"
A1, A5, B3 = made("a", 1), made("a", 5), made("b", 3)
FIRST = Lists(4, [A1, B3])
TOLD_FIRST = ["put a 1", "put b 3"]
CASES = {
    "a list comes first, and then what changes": Case(
        [FIRST, Tells([(MODIFIED, A5), (DELETED, made("b", 6)), (ADDED, made("c", 7))])],
        [TOLD_FIRST, ["put a 5"], ["gone b"], ["put c 7"]],
        ["list 2", "watch 4", "watch 7"],
    ),
    "pages are passed on as one": Case(
        [Lists(4, [A1], "more"), Lists(4, [B3])],
        [TOLD_FIRST],
        ["list 2", "list 2 after more", "watch 4"],
    ),
    "a page that is too late is asked for in one piece": Case(
        [Lists(4, [A1], "more"), Fails(GONE), Lists(5, [A5])],
        [["put a 5"]],
        ["list 2", "list 2 after more", "list 0", "watch 5"],
    ),
    "a list that fails in the middle passes nothing on": Case(
        [Lists(4, [A1], "more"), Fails(DROPPED), FIRST],
        [TOLD_FIRST],
        ["list 2", "list 2 after more", "list 2", "watch 4"],
        waits=1,
    ),
    "a server that is down is asked until it is up": Case(
        [Fails(DROPPED), Fails(BROKEN), Fails(BUSY), FIRST],
        [TOLD_FIRST],
        ["list 2"] * 4 + ["watch 4"],
        waits=3,
    ),
    "a version that is gone when the watch begins": Case(
        [FIRST, Fails(GONE), Lists(9, [A5])],
        [TOLD_FIRST, ["gone b", "put a 5"]],
        ["list 2", "watch 4", "list 2", "watch 9"],
        waits=1,
    ),
    "a version that is gone on the way": Case(
        [FIRST, Tells([(MODIFIED, A5)], GONE), Lists(9, [A5, made("b", 8)])],
        [TOLD_FIRST, ["put a 5"], ["put b 8"]],
        ["list 2", "watch 4", "list 2", "watch 9"],
        waits=1,
    ),
    "a connection that breaks is taken up where it was": Case(
        [FIRST, Tells([(MODIFIED, A5)], DROPPED), Tells([(DELETED, made("b", 6))])],
        [TOLD_FIRST, ["put a 5"], ["gone b"]],
        ["list 2", "watch 4", "watch 5", "watch 6"],
        waits=1,
    ),
    "a watch that begins with a refusal goes on from the same version": Case(
        [FIRST, Fails(BUSY), Fails(DROPPED), Tells([(MODIFIED, A5)])],
        [TOLD_FIRST, ["put a 5"]],
        ["list 2", "watch 4", "watch 4", "watch 4", "watch 5"],
        waits=2,
    ),
    "an error that may be about the version makes it list again": Case(
        [FIRST, Tells([], BROKEN), Lists(4, [A1, B3])],
        [TOLD_FIRST],
        ["list 2", "watch 4", "list 2", "watch 4"],
        waits=1,
    ),
    "watches that go on failing make it list again": Case(
        [FIRST, *[Fails(DROPPED)] * 6, Lists(9, [A1])],
        [TOLD_FIRST, ["gone b"]],
        ["list 2", *["watch 4"] * 6, "list 2", "watch 9"],
        waits=6,
    ),
    "a watch that tells nothing and ends is no success": Case(
        [FIRST, Tells(), Tells([(BOOKMARK, made("", 4))]), Tells([(BOOKMARK, made("", 8))])],
        [TOLD_FIRST],
        ["list 2", "watch 4", "watch 4", "watch 4", "watch 8"],
        waits=2,
    ),
    "a bookmark moves the version and nothing else": Case(
        [FIRST, Tells([(BOOKMARK, made("", 8))])],
        [TOLD_FIRST],
        ["list 2", "watch 4", "watch 8"],
    ),
    "an object made again while nobody looked is gone, and there": Case(
        [FIRST, Fails(GONE), Lists(9, [A1, made("b", 8, uid="another")])],
        [TOLD_FIRST, ["gone b", "put b 8"]],
        ["list 2", "watch 4", "list 2", "watch 9"],
        waits=1,
    ),
    "an object that cannot be read is left out until it can": Case(
        [
            Lists(4, [A1, made("b", 3, value="nonsense")]),
            Tells([(MODIFIED, made("a", 5, value="nonsense")), (MODIFIED, made("b", 6))]),
        ],
        [["put a 1"], ["gone a"], ["put b 6"]],
        ["list 2", "watch 4", "watch 6"],
    ),
}


class Waits:
    """A clock that is always early: remembers how long was waited, and does not wait."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def strict(text: Text) -> Any:  # noqa: ANN401 - as JSON has it
    found = json.loads(bytes(text))
    if found["value"] == "nonsense":
        raise ValueError("value: expected a number")
    return found


def in_words(changes: Sequence[Change[Any]]) -> list[str]:
    return [
        f"gone {change.key[1]}" if isinstance(change, Deleted) else f"put {change.key[1]} {change.version}"
        for change in changes
    ]


def options(waits: Waits, **more: Any) -> ReflectorOptions:  # noqa: ANN401 - any of its fields
    return ReflectorOptions(page_size=2, sleep=waits, rng=random.Random(1), **more)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_it_follows(case: Case) -> None:
    cluster, waits = Scripted(list(case.steps)), Waits()
    told: list[list[str]] = []
    reflector = Reflector(
        cast("Cluster", cluster),
        CONFIG_MAPS.read_as(strict),
        lambda changes: told.append(in_words(changes)),
        options=options(waits),
    )
    task = asyncio.create_task(reflector.run())
    await asyncio.wait({task, asyncio.create_task(cluster.done.wait())}, return_when="FIRST_COMPLETED")
    assert not task.done(), task.exception()
    task.cancel()
    assert (told, cluster.asked, len(waits.seconds)) == (case.told, case.asked, case.waits)
    assert reflector.synced.is_set()


async def waited(*steps: Step) -> list[float]:
    """Return the delays of a reflector, with a back-off of 1 to 8 seconds, while the cluster does these steps."""
    cluster, waits = Scripted(list(steps)), Waits()
    settings = options(waits, backoff=Backoff(1.0, 8.0, jitter=0.5))
    reflector = Reflector(cast("Cluster", cluster), CONFIG_MAPS, lambda _: None, options=settings)
    task = asyncio.create_task(reflector.run())
    await cluster.done.wait()
    task.cancel()
    return waits.seconds


async def test_delays_grow_to_the_maximum_and_start_again_after_a_success() -> None:
    *seconds, last = await waited(*[Fails(DROPPED)] * 2000, FIRST, Tells([(MODIFIED, A5)]), Fails(DROPPED))
    assert all(0.5 <= delay <= 8.0 for delay in seconds)
    assert all(full / 2 <= delay <= full for full, delay in zip((1, 2, 4, 8), seconds, strict=False))
    assert len(set(seconds)) > 100  # reflectors that failed together do not retry together
    assert last <= 1.0


async def test_the_delay_that_a_server_asks_for_is_kept_up_to_the_maximum() -> None:
    refused = [errors.TooManyRequestsError("later", retry_after=seconds) for seconds in (7, 3600)]
    assert await waited(*map(Fails, refused)) == [7, 8]


async def test_it_says_what_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Scripted([Lists(4, [made("a", 1, value="nonsense")]), Fails(DROPPED)])
    taken: list[Any] = []
    reflector = Reflector(
        cast("Cluster", cluster), CONFIG_MAPS.read_as(strict), taken.append, options=options(Waits())
    )
    task = asyncio.create_task(reflector.run())
    await cluster.done.wait()
    task.cancel()
    assert reflector.handler.undecodable == {("", "a"): "value: expected a number"}
    assert reflector.last_error is DROPPED
    assert taken == []
    assert [record.getMessage() for record in caplog.records] == [
        "ignoring configmaps a, which cannot be decoded: value: expected a number",
        "configmaps: the connection was reset",
    ]


async def test_several_are_synced_when_all_are() -> None:
    cluster = Scripted([Lists(1, [A1]), Lists(1, [A1])])
    group = Reflectors(cast("Cluster", cluster), options(Waits()))
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
