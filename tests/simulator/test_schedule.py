"""Schedules are data: they are read as they were printed, and what makes no sense is refused."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.simulator import (
    AnyFault,
    ClockJump,
    Crash,
    Cut,
    Extent,
    Lose,
    NodeLoss,
    Outage,
    Refuse,
    Schedule,
    Slow,
    Twice,
    parse,
    random_schedule,
    shrunk,
)

EXTENT = Extent(faults=40, nodes=("n1", "n2"))


@given(st.integers(0, 10_000))
def test_a_schedule_is_read_as_it_was_printed(seed: int) -> None:
    schedule = random_schedule(random.Random(seed), EXTENT)
    assert parse(str(schedule)) == schedule
    assert len(schedule.faults) == 40


def test_the_same_dice_make_the_same_schedule() -> None:
    one, again, other = (random_schedule(random.Random(seed), EXTENT) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_nothing_is_made_that_is_to_be_left_out_or_that_no_cluster_may_do() -> None:
    schedule = random_schedule(random.Random(1), Extent(faults=2000), leave_out=(Crash, Outage))
    kinds = {type(fault).__name__ for fault in schedule.faults}
    assert kinds == {"Refuse", "Slow", "Twice", "Cut", "ClockJump"}


def test_nodes_are_away_for_as_long_as_is_asked_for_and_nothing_else_is() -> None:
    extent = Extent(faults=2000, nodes=("n1",), absence=3000.0)
    faults = random_schedule(random.Random(1), extent).faults
    absences = [fault.seconds for fault in faults if isinstance(fault, NodeLoss)]
    others = [abs(fault.seconds) for fault in faults if isinstance(fault, Outage | ClockJump | Slow)]
    assert 300 < max(absences) <= 3000
    assert max(others) <= 300


def test_a_schedule_is_written_by_hand() -> None:
    text = """
        {"fault": "crash", "nth": 17, "after": true}

        {"fault": "node", "at": 5, "node": "n1", "seconds": 60}
    """
    assert parse(text) == Schedule((Crash(nth=17, after=True), NodeLoss(at=5, node="n1", seconds=60)))


WRONG = {
    '{"fault": "crash"}': "line 1: Crash: say either `at` or `nth`",
    '{"fault": "crash", "at": 1, "nth": 1}': "line 1: Crash: say either `at` or `nth`",
    '{"fault": "crash", "nth": 0}': "line 1: Crash: `at` is 0 or more, `nth` is 1 or more",
    '{"fault": "crash", "at": -1}': "line 1: Crash: `at` is 0 or more, `nth` is 1 or more",
    '\n{"fault": "crash", "nth": 1, "on": "list"}': "line 2: Crash: cannot be on 'list', only on write",
    '{"fault": "cut", "nth": 1, "on": "write"}': "line 1: Cut: cannot be on 'write', only on event",
    '{"fault": "refuse", "nth": 1, "code": 404}': "line 1: Refuse: `code` is one of 409, 410, 429, 500, 503",
    '{"fault": "refuse", "nth": 1, "on": "get", "code": 410}': "line 1: Refuse: only a list, a watch or an",
    '{"fault": "refuse", "nth": 1, "code": 410}': "line 1: Refuse: only a list, a watch or an",
    '{"fault": "refuse", "nth": 1, "on": "list", "code": 409}': "line 1: Refuse: only writes have conflicts",
    '{"fault": "refuse", "nth": 1, "on": "get", "applied": true}': "line 1: Refuse: only writes",
    '{"fault": "refuse", "nth": 1, "on": "sing"}': "line 1: Refuse: cannot be on 'sing'",
    '{"fault": "quake", "nth": 1}': "line 1: Invalid value 'quake'",
    "{": "line 1: Input data was truncated",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"line \d") as refused:
        parse(text)
    assert str(refused.value).startswith(WRONG[text])


# --- shrinking --------------------------------------------------------------------------------------------

A, B, C, D = Slow(nth=1, seconds=1), Twice(nth=2), Cut(nth=3), Lose(nth=4)
OTHERS: tuple[AnyFault, ...] = tuple(Refuse(nth=number) for number in range(1, 60))

GUILTY = {
    "one fault": (A,),
    "two that are far apart": (A, D),
    "several": (A, B, C, D),
    "none: it fails by itself": (),
}


@pytest.mark.parametrize("guilty", GUILTY.values(), ids=list(GUILTY))
@pytest.mark.parametrize("seed", range(5))
def test_a_schedule_shrinks_to_what_is_to_blame(guilty: tuple[AnyFault, ...], seed: int) -> None:
    faults = [*OTHERS, *guilty]
    random.Random(seed).shuffle(faults)
    runs = 0

    def still_fails(schedule: Schedule) -> bool:
        nonlocal runs
        runs += 1
        return set(guilty) <= set(schedule.faults)

    small = shrunk(Schedule(tuple(faults)), still_fails)
    assert set(small.faults) == set(guilty)
    assert [fault for fault in faults if fault in small.faults] == list(small.faults), "in their order"
    assert runs <= 130


@given(st.sets(st.integers(0, 19)), st.integers(1, 6))
def test_no_fault_of_a_shrunk_schedule_can_be_left_out(needed: set[int], enough: int) -> None:
    """It fails when `enough` of those needed are there: there are many ways to be small."""
    faults = tuple(Refuse(nth=number + 1) for number in range(20))
    enough = min(enough, len(needed))

    def still_fails(schedule: Schedule) -> bool:
        return len({fault.nth for fault in schedule.faults} & {number + 1 for number in needed}) >= enough

    assert len(shrunk(Schedule(faults), still_fails).faults) == enough
