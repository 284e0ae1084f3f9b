"""Pods placed on and nominated for each node of a plan, with compact names."""

import pytest
from msgspec.structs import replace

from shoal.cli.output.plan import compact_names, node_notes
from shoal.engine.report import Report
from tests.builders import dijob, node, pod, template
from tests.cli.rendering import plan_objects

RANGES: list[tuple[str, list[str], list[str]]] = [
    ("no names", [], []),
    ("consecutive numbers are joined", ["a-2", "a-0", "a-1", "a-4"], ["a-0…2", "a-4"]),
    ("numbers are sorted as numbers", ["a-10", "a-9"], ["a-9…10"]),
    ("different stems are not joined", ["a-0", "b-1"], ["a-0", "b-1"]),
    ("a name without a number", ["a", "a-b"], ["a", "a-b"]),
    ("a name that is a number", ["5", "6"], ["5", "6"]),
    ("leading zeros are part of the name", ["a-007", "a-08"], ["a-007", "a-08"]),
    ("a number too large to count", [f"a-{'9' * 200}"], [f"a-{'9' * 200}"]),
]


@pytest.mark.parametrize("sentence, names, expected", RANGES, ids=[row[0] for row in RANGES])
def test_compact_names(sentence: str, names: list[str], expected: list[str]) -> None:
    assert compact_names(names) == expected, sentence


def note_texts(report: Report) -> dict[str, str]:
    return {name: text.plain for name, text in node_notes(report).items()}


def test_a_pod_that_was_evicted_again_is_not_shown() -> None:
    report = plan_objects(node("n1"), pod("p", cpu=1), pod("q", cpu=1)).report
    assert note_texts(report) == {"n1": "p, q"}
    p, q = report.jobs
    gone, moved = replace(p, allocation={}), replace(q, allocation={"q": "n2"})
    then = replace(report.placements[1], node="n2")
    later = replace(report, jobs=(gone, moved), placements=(*report.placements, then))
    assert note_texts(later) == {"n2": "q"}


def test_nominated_pods_are_shown_beside_placed_ones() -> None:
    leaving = pod("old", cpu=8, node="n1", terminating=True)
    small = pod("small", cpu=2, created="2024-05-01T00:00:00Z")
    gang = dijob("gang", template(cpu=4), replicas=(2, 2), created="2024-05-01T00:00:01Z")
    report = plan_objects(node("n1", cpu=10), node("n2", cpu=1), leaving, small, gang).report
    assert note_texts(report) == {"n1": "small; kept for gang-0-0…1"}
