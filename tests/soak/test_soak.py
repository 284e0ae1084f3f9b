"""Simulated days with faults, many seeds: no invariant is violated, and every run is reproducible."""

import os

import pytest

from shoal.simulator import ChangeLog, DropEvent, Schedule
from tests.soak.runs import SoakConfig, describe_failure, run_soak

SHORT = range(1, 7)
LONG = range(100, 100 + int(os.environ.get("SHOAL_SEEDS", "20")))

pytestmark = pytest.mark.timeout(3600)
"""Longer than usual, in seconds: after a failure the schedule of faults is shrunk, which takes many runs."""


def check(soak: SoakConfig) -> None:
    violation = run_soak(soak).violation
    if violation:
        pytest.fail(describe_failure(soak, soak.schedule(), violation))


@pytest.mark.parametrize("seed", SHORT)
def test_hours_with_faults(seed: int) -> None:
    check(SoakConfig(seed=seed, days=0.2, faults=250, arrivals=240))


@pytest.mark.soak
@pytest.mark.parametrize("seed", LONG)
def test_days_with_faults(seed: int) -> None:
    check(SoakConfig(seed=seed, days=2))


@pytest.mark.soak
@pytest.mark.parametrize("seed", LONG)
def test_busy_days(seed: int) -> None:
    check(SoakConfig(seed=seed, days=1, faults=150, arrivals=300))


def test_a_seed_is_reproducible_byte_for_byte() -> None:
    soak, first, second = SoakConfig(seed=5, days=0.05, faults=400, arrivals=300), ChangeLog(), ChangeLog()
    assert run_soak(soak, change_log=first) == run_soak(soak, change_log=second)
    assert first.text() == second.text()


def test_a_failure_is_reported_with_its_minimal_faults_and_command() -> None:
    soak = SoakConfig(seed=3, days=0.03, faults=100, arrivals=300)
    cause = DropEvent(nth=1, on="event pods")
    schedule = Schedule((*soak.schedule().faults, cause))
    text = describe_failure(soak, schedule, run_soak(soak, schedule).violation)
    assert text.startswith("pending_pods_have_a_reason: pod soak/")
    assert "It takes these faults:\n" + str(Schedule((cause,))) + "To reproduce it" in text
