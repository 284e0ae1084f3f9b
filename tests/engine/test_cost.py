"""The cost of a cycle, counted in what it looks at and not in seconds."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from shoal.api.loader import load_objects
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


class Forbidden(Sequence[Any]):
    """A sequence that must not be accessed."""

    def __getitem__(self, index: object) -> NoReturn:
        raise AssertionError(index)

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError

    def __len__(self) -> NoReturn:
        raise AssertionError


def take_snapshot(*objects: dict[str, Any]) -> Snapshot:
    world = World(0.0)
    world.put(*(view for _, view in load_objects(("test", raw) for raw in objects).views))
    return build_snapshot(world, CONFIG, 0.0).snapshot


def test_a_cycle_does_not_look_at_settled_workloads_and_running_pods() -> None:
    running = [pod(f"r{i}", cpu=1, node="n1") for i in range(5)]
    snapshot = take_snapshot(node("n1"), *running, pod("new", cpu=1))
    restricted = replace(snapshot, workloads=Forbidden(), occupants=Forbidden())
    assert [placement.task.name for placement in cycle(restricted, CONFIG).placements] == ["new"]


LARGE, SMALL = template(cpu=2), template(cpu=1)
SCORING_PASSES = {
    "equal workers are scored once, however many": ("BinPack", {"w": (60, LARGE)}, 2),
    "with their leader, if it is equal": ("BinPack", {"w": (60, SMALL)}, 1),
    "each set is scored once": ("BinPack", {"v": (30, SMALL), "w": (30, LARGE)}, 2),
    "also if every worker goes to another node": ("JobAntiAffinity", {"w": (60, SMALL)}, 2),
}


@pytest.mark.parametrize("policy, workers, most", SCORING_PASSES.values(), ids=SCORING_PASSES.keys())
def test_all_nodes_are_scored_once_for_equal_tasks(
    policy: str, workers: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    fitting = Ledger.fitting

    def counting(self: Ledger, demand: Demand, span: NodeSpan) -> Mask:
        passes.append(1)
        return fitting(self, demand, span)

    monkeypatch.setattr(Ledger, "fitting", counting)
    nodes = [node(f"n{i:02}", cpu=16) for i in range(20)]
    snapshot = take_snapshot(*nodes, tyjob("a", leader=SMALL, workers=workers, policy=policy))
    assert len(cycle(snapshot, CONFIG).placements) == 61
    assert len(passes) == most


TIES = {
    "15 % and 15 %, which differ as floats": [
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
    "unused nodes of different sizes": [node(name, cpu=7 + i, memory=5 + i) for i, name in enumerate("abc")],
}


@pytest.mark.parametrize("objects", TIES.values(), ids=TIES.keys())
def test_a_tie_goes_to_the_first_name_despite_float_error(objects: list[dict[str, Any]]) -> None:
    snapshot = take_snapshot(*objects, pod("new"))
    assert [snapshot.nodes.names[placement.column] for placement in cycle(snapshot, CONFIG).placements] == [
        "a"
    ]


def test_a_difference_below_float_precision_decides() -> None:
    large = 2**50 - 1
    nodes = [node("a", cpu=1, memory=large), node("b", cpu=1, memory=large)]
    used = [pod("a1", memory=large // 3, node="a"), pod("b1", memory=large // 3 + 1, node="b")]
    snapshot = take_snapshot(*nodes, *used, pod("new", memory=1))
    assert [snapshot.nodes.names[placement.column] for placement in cycle(snapshot, CONFIG).placements] == [
        "b"
    ]


def test_nodes_with_equal_scored_amounts_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    exact_score = scores.AllocationScore.exact_score

    def counting(self: scores.AllocationScore, ledger: Ledger, demand: Demand, column: int) -> Fraction:
        compared.append(column)
        return exact_score(self, ledger, demand, column)

    monkeypatch.setattr(scores.AllocationScore, "exact_score", counting)
    cycle(take_snapshot(*(node(f"n{i:03}", cpu=9, memory=1000 + i) for i in range(100)), pod("new")), CONFIG)
    assert len(compared) == 1


def test_a_gang_is_not_placed_again_for_every_victim(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    place = Placer.place

    def counting(
        self: Placer, tasks: Sequence[Task], need: int, *, minimum_only: bool = False
    ) -> PlaceOutcome:
        tried.append(1)
        return place(self, tasks, need, minimum_only=minimum_only)

    monkeypatch.setattr(Placer, "place", counting)
    nodes = [node(f"n{i:02}", cpu=8) for i in range(50)]
    running = [pod(f"p{i:03}", cpu=4, node=f"n{i % 50:02}") for i in range(100)]
    large, small = template(cpu=4, priority="high"), template(cpu=2, priority="high")
    gang = tyjob("gang", leader=large, workers={"v": (20, large), "w": (38, small)}, policy="Gang")
    snapshot = take_snapshot(*nodes, *running, priority_class("high", 10), gang)
    assert len(cycle(snapshot, CONFIG).evictions) == 40
    assert len(tried) < 20


EQUAL_PODS: dict[str, list[dict[str, Any]]] = {
    "that never fit": [pod(f"w{i:02}", cpu=99) for i in range(50)],
    "without room": [pod("r", cpu=8, node="n1"), *(pod(f"w{i:02}", cpu=8) for i in range(50))],
    "with equal inter-pod rules": [pod(f"w{i:02}", cpu=99, host_port=80) for i in range(50)],
}


@pytest.mark.parametrize("pods", EQUAL_PODS.values(), ids=EQUAL_PODS.keys())
def test_equal_pods_share_one_result_and_one_verdict(pods: list[dict[str, Any]]) -> None:
    plan = cycle(take_snapshot(node("n1"), *pods), CONFIG)
    verdict_ids = {
        id(verdict) for workload, verdict in plan.verdicts.items() if workload.name.startswith("w")
    }
    assert len(verdict_ids) == 1
    assert sum(verdict.state != "ScheduledSucceed" for verdict in plan.verdicts.values()) == 50
