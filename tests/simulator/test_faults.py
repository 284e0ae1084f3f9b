"""Each fault has exactly the documented effect: for the caller, the store, and a watch.

The scenario is always the same. At 1, 2 and 3 seconds a, b and c are created; at 4 they are listed. They are
watched, once, from the beginning.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

import pytest

from shoal.cluster.errors import ClusterError
from shoal.cluster.resources import CONFIG_MAPS
from shoal.simulator import (
    AnyFault,
    BreakWatch,
    ClockJump,
    Connection,
    DropEvent,
    Duplicate,
    FaultInjector,
    NodeLoss,
    Outage,
    Refuse,
    SimulatedCluster,
    Simulation,
    Slow,
)
from tests.simulator.harness import config_map, name_of, run_test

END = 50.0
"""Before the first bookmark."""


@dataclass
class Case:
    """The faults; then what differs from a run without faults."""

    faults: list[AnyFault]
    answers: dict[str, str] = field(default_factory=dict)
    kept: str = "a b c"
    seen: str = "a@1 b@2 c@3"


USUAL = {"a": "done@1", "b": "done@2", "c": "done@3", "list": "done@4", "watch": "done@0"}

CASES = {
    "no faults": Case([]),
    "a conflict without effect": Case([Refuse(nth=2, code=409)], {"b": "Conflict@2"}, "a c", "a@1 c@3"),
    "a refused write has no effect": Case(
        [Refuse(nth=1, code=500)], {"a": "InternalError@1"}, "b c", "b@2 c@3"
    ),
    "too many requests, with a retry-after": Case(
        [Refuse(nth=3, code=429, retry_after=9)], {"c": "TooManyRequests@3 again in 9"}, "a b", "a@1 b@2"
    ),
    "a lost answer of a write that took effect": Case(
        [Refuse(nth=2, code=503, applied=True)], {"b": "ServiceUnavailable@2"}
    ),
    "one error hides another": Case(
        [Duplicate(nth=1, answered_by="second"), Refuse(nth=1, code=500, applied=True)],
        {"a": "InternalError@1"},
    ),
    "a duplicated write takes effect once, and the first answer counts": Case([Duplicate(nth=2)]),
    "a duplicated write with the second answer": Case(
        [Duplicate(nth=2, seconds=5, answered_by="second")], {"b": "AlreadyExists@7"}
    ),
    "a slow write takes effect later": Case([Slow(nth=1, seconds=5)], {"a": "done@6"}, seen="b@2 c@3 a@6"),
    "a slow answer of a write that took effect at once": Case(
        [Slow(nth=1, seconds=5, answer=True)], {"a": "done@6"}
    ),
    "a list is refused": Case([Refuse(nth=1, on="read", code=503)], {"list": "ServiceUnavailable@4"}),
    "a list is slow": Case([Slow(nth=1, on="list", seconds=2)], {"list": "done@6"}),
    "a list has expired": Case([Refuse(nth=1, on="list", code=410)], {"list": "Expired@4"}),
    "a fault on another verb has no effect": Case([Refuse(nth=1, on="get", code=503)]),
    "a fault on another resource has no effect": Case([Refuse(nth=1, on="create pods", code=503)]),
    "calls of one resource are counted separately": Case(
        [Refuse(nth=3, on="create configmaps", code=409)], {"c": "Conflict@3"}, "a b", "a@1 b@2"
    ),
    "a fault with a time is on the next call only": Case(
        [Refuse(at=1.5, code=503)], {"b": "ServiceUnavailable@2"}, "a c", "a@1 c@3"
    ),
    "a watch is not opened": Case(
        [Refuse(nth=1, on="watch", code=410)], {"watch": "Expired@0"}, seen="Expired@0"
    ),
    "a watch that is opened late delivers all events": Case(
        [Slow(nth=1, on="watch", seconds=1.5)], {"watch": "done@1.5"}, seen="a@1.5 b@2 c@3"
    ),
    "an open watch expires": Case([Refuse(nth=2, on="event", code=410)], seen="a@1 Expired@2"),
    "a watch that breaks delivers nothing more": Case([BreakWatch(nth=2)], seen="a@1 ServiceUnavailable@2"),
    "a watch that ends delivers nothing more": Case([BreakWatch(nth=2, clean=True)], seen="a@1 end@2"),
    "a watch delivers nothing before it breaks": Case(
        [BreakWatch(nth=2, seconds=10)], seen="a@1 ServiceUnavailable@12"
    ),
    "all watches break at a time, without an event": Case(
        [BreakWatch(at=2.5)], seen="a@1 b@2 ServiceUnavailable@2.5"
    ),
    "all watches deliver nothing from a time on": Case(
        [BreakWatch(at=1.5, seconds=10)], seen="a@1 ServiceUnavailable@11.5"
    ),
    "watches of another resource are not affected": Case([BreakWatch(at=2.5, on="event pods")]),
    "a late event delays later ones": Case([Slow(nth=1, on="event", seconds=1.5)], seen="a@2.5 b@2.5 c@3"),
    "a late event is not delivered if the watch breaks before": Case(
        [Slow(nth=1, on="event", seconds=5), BreakWatch(at=2.5)], seen="ServiceUnavailable@2.5"
    ),
    "an event is dropped": Case([DropEvent(nth=2)], seen="a@1 c@3"),
    "in an outage writes have no effect, and an idle watch goes on": Case(
        [Outage(at=1.5, seconds=1)], {"b": "ServiceUnavailable@2"}, "a c", "a@1 c@3"
    ),
    "an outage begins with a call": Case(
        [Outage(nth=1, seconds=1.5)],
        {"a": "ServiceUnavailable@1", "b": "ServiceUnavailable@2"},
        "c",
        "c@3",
    ),
    "in an outage no watch is opened": Case(
        [Slow(nth=1, on="watch", seconds=1.5), Outage(at=1.4, seconds=0.2)],
        {"watch": "ServiceUnavailable@1.5"},
        seen="ServiceUnavailable@1.5",
    ),
    "the first of two refusals counts": Case(
        [Refuse(nth=1, code=500), Refuse(nth=1, on="create", code=503)],
        {"a": "InternalError@1"},
        "b c",
        "b@2 c@3",
    ),
}


@dataclass
class Report:
    """The answers, the objects in the store, and the events of the watch."""

    answers: dict[str, str]
    kept: str
    seen: str


async def scenario(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> Report:
    now = asyncio.get_running_loop().time
    connection = Connection(store, faults)
    answers: dict[str, str] = {}
    seen: list[str] = []

    async def ask(name: str, second: float, call: Awaitable[Any]) -> None:
        await asyncio.sleep(second)
        try:
            await call
            answer = f"done@{now():g}"
        except ClusterError as error:
            again = "" if error.retry_after is None else f" again in {error.retry_after:g}"
            answer = f"{error.reason}@{now():g}{again}"
        answers[name] = answer

    async def watch(version: str) -> None:
        try:
            async with connection.watch(CONFIG_MAPS, version=version) as events:
                answers["watch"] = f"done@{now():g}"
                async for event in events:
                    assert event.object is not None, "it is too early for a bookmark"
                    seen.append(f"{name_of(event.object)}@{now():g}")
            seen.append(f"end@{now():g}")
        except ClusterError as error:
            answers.setdefault("watch", f"{error.reason}@{now():g}")
            seen.append(f"{error.reason}@{now():g}")

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch(store.version))
        for number, name in enumerate("abc"):
            group.create_task(ask(name, number + 1, connection.create(CONFIG_MAPS, config_map(name))))
        group.create_task(ask("list", 4, connection.list(CONFIG_MAPS)))
        await asyncio.sleep(END)
        watching.cancel()
    kept = " ".join(name_of(thing) for thing in store.list_now(CONFIG_MAPS))
    return Report(answers, kept, " ".join(seen))


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_faults(case: Case) -> None:
    found = run_test(scenario, *case.faults)
    assert found == Report(USUAL | case.answers, case.kept, case.seen)


# --- global faults --------------------------------------------------------------------------------------


def test_the_wall_clock_jumps_and_time_goes_on() -> None:
    async def main(_: SimulatedCluster, __: FaultInjector, simulation: Simulation) -> list[float]:
        began = simulation.clock()
        seen = []
        for _second in range(3):
            await asyncio.sleep(10)
            seen.append(simulation.clock() - began)
        return seen

    assert run_test(main, ClockJump(at=5, seconds=100), ClockJump(at=25, seconds=-50)) == [110, 120, 80]


def test_handlers_of_node_losses_are_called() -> None:
    async def main(
        store: SimulatedCluster, faults: FaultInjector, _: Simulation
    ) -> list[tuple[float, str, float]]:
        now, seen = asyncio.get_running_loop().time, list[tuple[float, str, float]]()
        faults.node_loss_handlers.append(lambda loss: seen.append((now(), loss.node, loss.seconds)))
        await asyncio.sleep(8)
        await Connection(store, faults).create(CONFIG_MAPS, config_map("a"))
        return seen

    losses = NodeLoss(at=5, node="n1", seconds=60), NodeLoss(nth=1, node="n2", seconds=7)
    assert run_test(main, *losses) == [(5, "n1", 60), (8, "n2", 7)]


def test_faults_are_logged_with_their_times() -> None:
    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> list[str]:
        await asyncio.sleep(2)
        await Connection(store, faults).create(CONFIG_MAPS, config_map("a"))
        return faults.log

    assert run_test(main, Slow(nth=1, seconds=1), ClockJump(at=1, seconds=3)) == [
        '1.000000 all: {"fault":"clock","at":1,"seconds":3}',
        '2.000000 create configmaps: {"fault":"slow","nth":1,"seconds":1}',
    ]


def test_in_an_outage_a_watch_with_an_event_breaks() -> None:
    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> float:
        async with Connection(store, faults).watch(CONFIG_MAPS, version=store.version) as events:
            await asyncio.sleep(5)
            await store.create(CONFIG_MAPS, config_map("a"))
            with pytest.raises(ClusterError, match="the connection broke"):
                await anext(events)
        return asyncio.get_running_loop().time()

    assert run_test(main, Outage(at=3, seconds=3)) == 5


# --- guarantees that faults do not break ----------------------------------------------------------------


def test_a_late_event_is_not_lost_by_a_timeout_of_the_waiter() -> None:
    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> list[str]:
        seen = []
        async with Connection(store, faults).watch(CONFIG_MAPS, version=store.version) as events:
            for name in "ab":
                await store.create(CONFIG_MAPS, config_map(name))
            for _second in range(5):
                try:
                    async with asyncio.timeout(1):
                        seen.append(name_of((await anext(events)).object or {}))
                except TimeoutError:
                    seen.append("-")
        return seen

    assert run_test(main, Slow(nth=1, on="event", seconds=2.5)) == ["-", "-", "a", "b", "-"]


def test_a_write_takes_effect_although_its_caller_timed_out() -> None:
    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> list[str]:
        body = config_map("a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await Connection(store, faults).create(CONFIG_MAPS, body)
        body["metadata"]["name"] = "changed-since"
        await asyncio.sleep(5)
        return [name_of(thing) for thing in store.list_now(CONFIG_MAPS)]

    assert run_test(main, Slow(nth=1, seconds=2)) == ["a"]


def test_closing_a_connection_ends_its_watches_and_leaves_the_store() -> None:
    async def main(store: SimulatedCluster, faults: FaultInjector, _: Simulation) -> float:
        connection = Connection(store, faults)

        async def follow() -> None:
            async with connection.watch(CONFIG_MAPS, version=store.version) as events:
                async for _event in events:
                    pass

        async with asyncio.TaskGroup() as group:
            group.create_task(follow())
            await asyncio.sleep(5)
            await connection.close()
        with pytest.raises(ClusterError, match="closed"):
            await connection.list(CONFIG_MAPS)
        await store.create(CONFIG_MAPS, config_map("a"))
        return asyncio.get_running_loop().time()

    assert run_test(main) == 5
