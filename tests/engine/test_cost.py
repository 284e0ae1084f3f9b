"""The cost of a cycle is counted in what it looks at, not in seconds."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from shoal.api.intake import take
from shoal.cache.snapshots import build_snapshot
from shoal.cache.world import World
from shoal.engine import scores
from shoal.engine.config import SchedulerConfig
from shoal.engine.cycle import cycle
from shoal.engine.ledger import Demand, Ledger
from shoal.engine.nodes import Mask, NodeSpan
from shoal.engine.placement import PlaceOutcome, Placer
from shoal.engine.snapshot import Snapshot
from shoal.engine.workload import Task
from tests.builders import node, pod, priority_class, template, tyjob

CONFIG = SchedulerConfig()


class Untouchable(Sequence[Any]):
    """A sequence that nobody may look into."""

    def __getitem__(self, index: object) -> NoReturn:
        raise AssertionError(index)

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError

    def __len__(self) -> NoReturn:
        raise AssertionError


def snapshot(*objects: dict[str, Any]) -> Snapshot:
    world = World(0.0)
    world.put(*(view for _, view in take(("test", raw) for raw in objects).views))
    return build_snapshot(world, CONFIG, 0.0).snapshot


def test_a_cycle_looks_at_no_workload_that_is_settled_and_at_no_pod_that_stays() -> None:
    running = [pod(f"r{i}", cpu=1, node="n1") for i in range(5)]
    seen = snapshot(node("n1"), *running, pod("new", cpu=1))
    blind = replace(seen, workloads=Untouchable(), occupants=Untouchable())
    assert [placement.task.name for placement in cycle(blind, CONFIG).placements] == ["new"]


LARGE, SMALL = template(cpu=2), template(cpu=1)
RATINGS = {
    "workers that are alike are rated once, however many": ("BinPack", {"w": (60, LARGE)}, 2),
    "with their leader, if that is alike": ("BinPack", {"w": (60, SMALL)}, 1),
    "each set is rated once": ("BinPack", {"v": (30, SMALL), "w": (30, LARGE)}, 2),
    "also where every worker goes to another node": ("JobAntiAffinity", {"w": (60, SMALL)}, 2),
}


@pytest.mark.parametrize("policy, workers, most", RATINGS.values(), ids=RATINGS.keys())
def test_all_nodes_are_rated_once_for_tasks_that_are_alike(
    policy: str, workers: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rated: list[int] = []
    fitting = Ledger.fitting

    def counted(self: Ledger, demand: Demand, span: NodeSpan) -> Mask:
        rated.append(1)
        return fitting(self, demand, span)

    monkeypatch.setattr(Ledger, "fitting", counted)
    nodes = [node(f"n{i:02}", cpu=16) for i in range(20)]
    seen = snapshot(*nodes, tyjob("a", leader=SMALL, workers=workers, policy=policy))
    assert len(cycle(seen, CONFIG).placements) == 61
    assert len(rated) == most


TIES = {
    "15 % and 15 %, which floats think is a little more": [
        *(node(name, cpu=10, memory=10) for name in "ab"),
        pod("a1", cpu=3, node="a"),
        pod("b1", cpu=1, memory=2, node="b"),
    ],
    "a third and two thirds, a half and a half": [
        node("a", cpu=2, memory=2),
        node("b", cpu=3, memory=3),
        pod("a1", cpu=1, memory=1, node="a"),
        pod("b1", cpu=1, memory=2, node="b"),
    ],
    "nothing used of nodes of all sizes": [
        node(name, cpu=7 + i, memory=5 + i) for i, name in enumerate("abc")
    ],
}


@pytest.mark.parametrize("objects", TIES.values(), ids=TIES.keys())
def test_a_tie_goes_to_the_first_name_whatever_floats_make_of_it(objects: list[dict[str, Any]]) -> None:
    seen = snapshot(*objects, pod("new"))
    assert [seen.nodes.names[placement.column] for placement in cycle(seen, CONFIG).placements] == ["a"]


def test_a_difference_that_floats_cannot_see_is_still_a_difference() -> None:
    large = 2**50 - 1
    nodes = [node("a", cpu=1, memory=large), node("b", cpu=1, memory=large)]
    used = [pod("a1", memory=large // 3, node="a"), pod("b1", memory=large // 3 + 1, node="b")]
    seen = snapshot(*nodes, *used, pod("new", memory=1))
    assert [seen.nodes.names[placement.column] for placement in cycle(seen, CONFIG).placements] == ["b"]


def test_nodes_that_are_alike_in_what_counts_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    exact_score = scores.AllocationScore.exact_score

    def counted(self: scores.AllocationScore, ledger: Ledger, demand: Demand, column: int) -> Fraction:
        compared.append(column)
        return exact_score(self, ledger, demand, column)

    monkeypatch.setattr(scores.AllocationScore, "exact_score", counted)
    cycle(snapshot(*(node(f"n{i:03}", cpu=9, memory=1000 + i) for i in range(100)), pod("new")), CONFIG)
    assert len(compared) == 1


def test_a_gang_is_not_placed_anew_for_every_victim(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    place = Placer.place

    def counted(
        self: Placer, tasks: Sequence[Task], need: int, *, minimum_only: bool = False
    ) -> PlaceOutcome:
        tried.append(1)
        return place(self, tasks, need, minimum_only=minimum_only)

    monkeypatch.setattr(Placer, "place", counted)
    nodes = [node(f"n{i:02}", cpu=8) for i in range(50)]
    residents = [pod(f"p{i:03}", cpu=4, node=f"n{i % 50:02}") for i in range(100)]
    large, small = template(cpu=4, priority="high"), template(cpu=2, priority="high")
    gang = tyjob("gang", leader=large, workers={"v": (20, large), "w": (38, small)}, policy="Gang")
    seen = snapshot(*nodes, *residents, priority_class("high", 10), gang)
    assert len(cycle(seen, CONFIG).evictions) == 40
    assert len(tried) < 20


CROWDS: dict[str, list[dict[str, Any]]] = {
    "that no node could ever take": [pod(f"w{i:02}", cpu=99) for i in range(50)],
    "that there is no room for": [pod("r", cpu=8, node="n1"), *(pod(f"w{i:02}", cpu=8) for i in range(50))],
    "that minds somebody, but all in the same way": [
        pod(f"w{i:02}", cpu=99, host_port=80) for i in range(50)
    ],
}


@pytest.mark.parametrize("crowd", CROWDS.values(), ids=CROWDS.keys())
def test_a_crowd_that_is_alike_has_one_turn_and_one_verdict(crowd: list[dict[str, Any]]) -> None:
    plan = cycle(snapshot(node("n1"), *crowd), CONFIG)
    told = {id(verdict) for workload, verdict in plan.verdicts.items() if workload.name.startswith("w")}
    assert len(told) == 1
    assert sum(verdict.state != "ScheduledSucceed" for verdict in plan.verdicts.values()) == 50
