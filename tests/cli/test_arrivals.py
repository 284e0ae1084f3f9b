"""Who came to a node and for whom its room is kept, with names in short."""

import pytest
from msgspec.structs import replace

from shoal.cli.output.plan import compact_names, node_notes
from shoal.engine.report import Report
from tests.builders import dijob, node, pod, template
from tests.cli.drawn import planned

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
    assert compact_names(names) == drawn, sentence


def said(answer: Report) -> dict[str, str]:
    return {name: text.plain for name, text in node_notes(answer).items()}


def test_a_pod_that_came_and_went_again_is_not_drawn_where_it_was() -> None:
    answer = planned(node("n1"), pod("p", cpu=1), pod("q", cpu=1)).answer
    assert said(answer) == {"n1": "p, q"}
    p, q = answer.jobs
    gone, moved = replace(p, allocation={}), replace(q, allocation={"q": "n2"})
    then = replace(answer.placements[1], node="n2")
    later = replace(answer, jobs=(gone, moved), placements=(*answer.placements, then))
    assert said(later) == {"n2": "q"}


def test_room_that_is_kept_is_told_beside_who_came() -> None:
    leaving = pod("old", cpu=8, node="n1", terminating=True)
    small = pod("small", cpu=2, created="2024-05-01T00:00:00Z")
    gang = dijob("gang", template(cpu=4), replicas=(2, 2), created="2024-05-01T00:00:01Z")
    answer = planned(node("n1", cpu=10), node("n2", cpu=1), leaving, small, gang).answer
    assert said(answer) == {"n1": "small; kept for gang-0-0…1"}
