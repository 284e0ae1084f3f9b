"""Schedules: printing and parsing, validation, random schedules, shrinking."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.simulator import (
    AnyFault,
    BreakWatch,
    ChaosOptions,
    ClockJump,
    Crash,
    DropEvent,
    Duplicate,
    NodeLoss,
    Outage,
    Refuse,
    Schedule,
    Slow,
    parse_schedule,
    random_schedule,
    shrink,
)

OPTIONS = ChaosOptions(faults=40, nodes=("n1", "n2"))


@given(st.integers(0, 10_000))
def test_a_printed_schedule_is_parsed_back(seed: int) -> None:
    schedule = random_schedule(random.Random(seed), OPTIONS)
    assert parse_schedule(str(schedule)) == schedule
    assert len(schedule.faults) == 40


def test_the_same_seed_makes_the_same_schedule() -> None:
    one, again, other = (random_schedule(random.Random(seed), OPTIONS) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_excluded_faults_and_dropped_events_are_not_generated() -> None:
    schedule = random_schedule(random.Random(1), ChaosOptions(faults=2000), exclude=(Crash, Outage))
    kinds = {type(fault).__name__ for fault in schedule.faults}
    assert kinds == {"Refuse", "Slow", "Duplicate", "BreakWatch", "ClockJump"}


def test_the_maximum_of_node_losses_applies_to_them_only() -> None:
    options = ChaosOptions(faults=2000, nodes=("n1",), max_node_loss=3000.0)
    faults = random_schedule(random.Random(1), options).faults
    losses = [fault.seconds for fault in faults if isinstance(fault, NodeLoss)]
    others = [abs(fault.seconds) for fault in faults if isinstance(fault, Outage | ClockJump | Slow)]
    assert 300 < max(losses) <= 3000
    assert max(others) <= 300


def test_a_schedule_can_be_written_by_hand() -> None:
    text = """
        {"fault": "crash", "nth": 17, "after": true}

        {"fault": "node", "at": 5, "node": "n1", "seconds": 60}
    """
    assert parse_schedule(text) == Schedule(
        (Crash(nth=17, after=True), NodeLoss(at=5, node="n1", seconds=60))
    )


WRONG = {
    '{"fault": "crash"}': "line 1: Crash: give either `at` or `nth`",
    '{"fault": "crash", "at": 1, "nth": 1}': "line 1: Crash: give either `at` or `nth`",
    '{"fault": "crash", "nth": 0}': "line 1: Crash: `at` must be at least 0, `nth` at least 1",
    '{"fault": "crash", "at": -1}': "line 1: Crash: `at` must be at least 0, `nth` at least 1",
    '\n{"fault": "crash", "nth": 1, "on": "list"}': "line 2: Crash: cannot be on 'list', only on write",
    '{"fault": "cut", "nth": 1, "on": "write"}': "line 1: BreakWatch: cannot be on 'write', only on event",
    '{"fault": "refuse", "nth": 1, "code": 404}': (
        "line 1: Refuse: `code` must be one of 409, 410, 429, 500, 503"
    ),
    '{"fault": "refuse", "nth": 1, "on": "get", "code": 410}': "line 1: Refuse: only a list, a watch or an",
    '{"fault": "refuse", "nth": 1, "code": 410}': "line 1: Refuse: only a list, a watch or an",
    '{"fault": "refuse", "nth": 1, "on": "list", "code": 409}': "line 1: Refuse: only writes can have",
    '{"fault": "refuse", "nth": 1, "on": "get", "applied": true}': "line 1: Refuse: only writes",
    '{"fault": "refuse", "nth": 1, "on": "sing"}': "line 1: Refuse: cannot be on 'sing'",
    '{"fault": "quake", "nth": 1}': "line 1: Invalid value 'quake'",
    "{": "line 1: Input data was truncated",
}


@pytest.mark.parametrize("text", WRONG)
def test_invalid_schedules_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"line \d") as refused:
        parse_schedule(text)
    assert str(refused.value).startswith(WRONG[text])


# --- shrinking --------------------------------------------------------------------------------------------

A, B, C, D = Slow(nth=1, seconds=1), Duplicate(nth=2), BreakWatch(nth=3), DropEvent(nth=4)
OTHERS: tuple[AnyFault, ...] = tuple(Refuse(nth=number) for number in range(1, 60))

GUILTY = {
    "one fault": (A,),
    "two faults far apart": (A, D),
    "several": (A, B, C, D),
    "no fault: it fails without one": (),
}


@pytest.mark.parametrize("guilty", GUILTY.values(), ids=list(GUILTY))
@pytest.mark.parametrize("seed", range(5))
def test_a_schedule_shrinks_to_the_faults_that_are_to_blame(guilty: tuple[AnyFault, ...], seed: int) -> None:
    faults = [*OTHERS, *guilty]
    random.Random(seed).shuffle(faults)
    runs = 0

    def still_fails(schedule: Schedule) -> bool:
        nonlocal runs
        runs += 1
        return set(guilty) <= set(schedule.faults)

    small = shrink(Schedule(tuple(faults)), still_fails)
    assert set(small.faults) == set(guilty)
    assert [fault for fault in faults if fault in small.faults] == list(small.faults), "in their order"
    assert runs <= 130


@given(st.sets(st.integers(0, 19)), st.integers(1, 6))
def test_no_fault_of_a_shrunk_schedule_can_be_removed(needed: set[int], enough: int) -> None:
    """A run fails with any `enough` of the needed faults: there are many smallest schedules."""
    faults = tuple(Refuse(nth=number + 1) for number in range(20))
    enough = min(enough, len(needed))

    def still_fails(schedule: Schedule) -> bool:
        return len({fault.nth for fault in schedule.faults} & {number + 1 for number in needed}) >= enough

    assert len(shrink(Schedule(faults), still_fails).faults) == enough
