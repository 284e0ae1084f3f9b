"""Simulated days with faults on, many seeds: no promise is broken, and every run can be had again."""

import os

import pytest

from shoal.simulator import ChangeLog, DropEvent, Schedule
from tests.soak.running import Soak, soaked, told

SHORT = range(1, 7)
LONG = range(100, 100 + int(os.environ.get("SHOAL_SEEDS", "20")))

pytestmark = pytest.mark.timeout(3600)
"""Longer than usual, in seconds: after a failure the schedule of faults is shrunk, which takes many runs."""


def check(soak: Soak) -> None:
    broken = soaked(soak).broken
    if broken:
        pytest.fail(told(soak, soak.schedule(), broken))


@pytest.mark.parametrize("seed", SHORT)
def test_hours_with_faults(seed: int) -> None:
    check(Soak(seed=seed, days=0.2, faults=250, arrivals=240))


@pytest.mark.soak
@pytest.mark.parametrize("seed", LONG)
def test_days_with_faults(seed: int) -> None:
    check(Soak(seed=seed, days=2))


@pytest.mark.soak
@pytest.mark.parametrize("seed", LONG)
def test_busy_days(seed: int) -> None:
    check(Soak(seed=seed, days=1, faults=150, arrivals=300))


def test_a_seed_is_played_again_to_the_byte() -> None:
    soak, first, second = Soak(seed=5, days=0.05, faults=400, arrivals=300), ChangeLog(), ChangeLog()
    assert soaked(soak, chronicle=first) == soaked(soak, chronicle=second)
    assert first.text() == second.text()


def test_a_failure_tells_the_fault_that_it_takes_and_how_to_see_it_again() -> None:
    soak = Soak(seed=3, days=0.03, faults=100, arrivals=300)
    to_blame = DropEvent(nth=1, on="event pods")
    schedule = Schedule((*soak.schedule().faults, to_blame))
    text = told(soak, schedule, soaked(soak, schedule).broken)
    assert text.startswith("who_waits_says_why: pod soak/")
    assert "It takes these faults:\n" + str(Schedule((to_blame,))) + "To see it again" in text
