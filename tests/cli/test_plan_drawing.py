"""Drawing of a plan: contents, limits, and no control characters."""

import pytest

from shoal.cli.output import plan
from shoal.engine.layout import Amounts
from shoal.engine.plan import Plan
from shoal.engine.report import used_after
from shoal.engine.snapshot import Snapshot
from tests.builders import node, pod, pool, priority_class
from tests.cli.rendering import render_plan


def test_usage_is_computed_once_for_all_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Snapshot] = []

    def counted(snapshot: Snapshot, plan: Plan) -> Amounts:
        calls.append(snapshot)
        return used_after(snapshot, plan)

    monkeypatch.setattr(plan, "used_after", counted)
    pools = [pool(name, selector={"pool": name}) for name in ("a", "b")]
    nodes = [node(f"n-{name}", labels={"pool": name}) for name in ("a", "b", "c")]
    text = render_plan(*pools, *nodes, pod("p", cpu=1))
    assert len(calls) == 1
    assert all(f"n-{name}" in text for name in ("a", "b", "c"))
    assert "1 pod placed" in text


def test_idle_nodes_are_counted_if_there_are_many() -> None:
    text = render_plan(*(node(f"n{i}", cpu=1) for i in range(31)), *(pod(f"p{i}", cpu=1) for i in range(40)))
    assert "… and 1 other node (-o wide shows all)" in text


def test_control_characters_in_names_are_escaped() -> None:
    gang = pod("p", gang="[/x] \x1b[31mred", pool="y\x1b[2Jz")
    text = render_plan(node("n1"), gang, pod("q", cpu=99))
    assert "[/x]" in text
    assert "\x1b" not in text


def test_evictions_show_reason_and_beneficiary() -> None:
    low, high = priority_class("low", 1), priority_class("high", 2)
    victim = pod("victim", cpu=8, node="n1", priority="low")
    text = render_plan(node("n1", cpu=8), low, high, victim, pod("urgent", cpu=8, priority="high"))
    (line,) = [line.split() for line in text.splitlines() if line.startswith("default/victim")]
    assert line == ["default/victim", "n1", "Preempted", "Pod/default/urgent"]


def test_bars_are_shorter_on_a_narrow_console() -> None:
    world = [node("n1", cpu=2), pod("p", cpu=1)]
    assert "█████░░░░░ 1/2" in render_plan(*world, width=120)
    assert " ██░░░ 1/2" in render_plan(*world, width=80)
