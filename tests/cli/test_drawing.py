"""How a plan is drawn: names in short, and nothing reckoned twice."""

import io
from typing import Any

import pytest
from rich.console import Console

from shoal.api.intake import take
from shoal.cli import drawing
from shoal.scheduling.config import SchedulerConfig
from shoal.scheduling.plan import Plan
from shoal.scheduling.pools import used_after
from shoal.scheduling.report import report
from shoal.scheduling.resources import Amounts
from shoal.scheduling.snapshot import Snapshot
from shoal.world.rehearsal import plan_objects
from tests.builders import node, pod, pool, priority_class

RANGES: list[tuple[str, list[str], list[str]]] = [
    ("nobody", [], []),
    ("neighbours are drawn together", ["a-2", "a-0", "a-1", "a-4"], ["a-0…2", "a-4"]),
    ("numbers come in their order", ["a-10", "a-9"], ["a-9…10"]),
    ("others are not neighbours", ["a-0", "b-1"], ["a-0", "b-1"]),
    ("a name without a number", ["a", "a-b"], ["a", "a-b"]),
    ("a name that is a number", ["5", "6"], ["5", "6"]),
    ("zeros before a number are part of the name", ["a-007", "a-08"], ["a-007", "a-08"]),
    ("a number beyond all counting", [f"a-{'9' * 200}"], [f"a-{'9' * 200}"]),
]


@pytest.mark.parametrize("sentence, names, drawn", RANGES, ids=[row[0] for row in RANGES])
def test_ranges(sentence: str, names: list[str], drawn: list[str]) -> None:
    assert drawing._ranges(names) == drawn, sentence


def drawn(*objects: dict[str, Any]) -> str:
    settings = SchedulerConfig()
    views = [view for _, view in take(("test", raw) for raw in objects).views]
    steps = plan_objects(views, settings)
    paper = Console(file=io.StringIO(), width=120)
    drawing.draw(paper, steps[-1], report(steps, settings))
    assert isinstance(paper.file, io.StringIO)
    return paper.file.getvalue()


def test_use_is_reckoned_once_for_all_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Snapshot] = []

    def reckoned(snapshot: Snapshot, plan: Plan) -> Amounts:
        calls.append(snapshot)
        return used_after(snapshot, plan)

    monkeypatch.setattr(drawing, "used_after", reckoned)
    pools = [pool(name, selector={"pool": name}) for name in ("a", "b")]
    nodes = [node(f"n-{name}", labels={"pool": name}) for name in ("a", "b", "c")]
    text = drawn(*pools, *nodes, pod("p", cpu=1))
    assert len(calls) == 1
    assert all(f"n-{name}" in text for name in ("a", "b", "c"))
    assert "1 pod placed" in text


def test_nodes_that_got_nothing_are_counted_where_there_are_many() -> None:
    text = drawn(*(node(f"n{i}", cpu=1) for i in range(31)), *(pod(f"p{i}", cpu=1) for i in range(40)))
    assert "… and 1 other node (-o wide shows all)" in text


def test_names_that_are_no_names_are_shown_as_they_are() -> None:
    gang = pod("p", gang="[/x] \x1b[31mred", pool="y\x1b[2Jz")
    text = drawn(node("n1"), gang, pod("q", cpu=99))
    assert "[/x]" in text
    assert "\x1b" not in text


def test_who_must_leave_is_shown_with_the_reason_and_for_whom() -> None:
    low, high = priority_class("low", 1), priority_class("high", 2)
    victim = pod("victim", cpu=8, node="n1", priority="low")
    text = drawn(node("n1", cpu=8), low, high, victim, pod("urgent", cpu=8, priority="high"))
    (line,) = [line.split() for line in text.splitlines() if line.startswith("default/victim")]
    assert line == ["default/victim", "n1", "Preempted", "Pod/default/urgent"]
