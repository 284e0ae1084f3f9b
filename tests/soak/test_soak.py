"""Simulated days with faults on, many seeds: no promise is broken, and every run can be had again."""

import os

import pytest

from shoal.cluster.simulated import Chronicle
from tests.soak.running import Soak, soaked, told

SHORT = range(1, 4)
LONG = range(100, 100 + int(os.environ.get("SHOAL_SEEDS", "20")))


def check(soak: Soak) -> None:
    broken = soaked(soak).broken
    if broken:
        pytest.fail(told(soak, broken))


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
    soak, first, second = Soak(seed=5, days=0.05, faults=400, arrivals=300), Chronicle(), Chronicle()
    assert soaked(soak, chronicle=first) == soaked(soak, chronicle=second)
    assert first.text() == second.text()
