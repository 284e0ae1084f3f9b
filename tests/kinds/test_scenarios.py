"""Scenarios of jobs of all kinds: the same outcomes and the same pods in every home, whatever goes wrong.

A kind adds its scenarios to `SCENARIOS`. The expectations of the steps are checked in every run, and the
promises of `JobPromises` in every simulated one.
"""

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from shoal.cluster.resources import Object
from shoal.simulator import Crash, Schedule
from shoal.simulator.chaos import ChaosOptions, random_schedule
from tests.k8s.controlplane import ControlPlane
from tests.kinds.dijob.scenarios import SCENARIOS as DIJOBS
from tests.kinds.homes import SimulatedRun, run_embedded, run_kubernetes, run_simulated
from tests.kinds.scenarios import JobScenario, ScenarioRun
from tests.kinds.trainingjob.scenarios import SCENARIOS as TRAININGJOBS
from tests.kinds.tyjob.scenarios import SCENARIOS as TYJOBS

_BY_KIND = {"DIJob": DIJOBS, "TYJob": TYJOBS, "TrainingJob": TRAININGJOBS}
SCENARIOS: Mapping[str, JobScenario] = {
    f"{kind}: {name}": one for kind, scenarios in _BY_KIND.items() for name, one in scenarios.items()
}
REAL = {name: one for name, one in SCENARIOS.items() if not one.only_simulated}
SEEDS = range(int(os.environ.get("SHOAL_SEEDS", "3")))


@cache
def undisturbed(name: str) -> SimulatedRun:
    return run_simulated(SCENARIOS[name])


def final(run: ScenarioRun) -> Object:
    """The part of the last outcome that does not depend on times, or on how many reconciles there were."""
    kept = ("gone", "phase", "stage", "reason", "conditions", "slots", "services")
    return {key: run.outcomes[-1].get(key) for key in kept}


def check_same_pods(run: ScenarioRun, name: str) -> None:
    """After every step there are the same pods as in the simulated home, with the same specs."""
    for number, (specs, expected) in enumerate(zip(run.specs, undisturbed(name).scenario.specs, strict=True)):
        assert specs == expected, f"pods after step {number}"
    assert final(run) == final(undisturbed(name).scenario)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_simulated_home(name: str) -> None:
    assert undisturbed(name).violations == []


IS_AFTER: Mapping[str, Callable[[int], bool]] = {
    "before odd writes and after even ones": lambda nth: nth % 2 == 0,
    "before": lambda _: False,
    "after": lambda _: True,
}
"""Whether Shoal is killed after the n-th write, or before it."""


@pytest.mark.parametrize(
    "when",
    [
        "before odd writes and after even ones",
        pytest.param("before", marks=pytest.mark.soak),
        pytest.param("after", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("name", [name for name, one in SCENARIOS.items() if one.with_crashes])
def test_shoal_is_killed_at_each_write_in_turn(name: str, when: str) -> None:
    for nth in count(1):
        done = run_simulated(SCENARIOS[name], Schedule((Crash(nth=nth, after=IS_AFTER[when](nth)),)))
        assert done.violations == [], f"crash at write {nth}"
        assert final(done.scenario) == final(undisturbed(name).scenario), f"crash at write {nth}"
        if not done.faults:
            break
    assert nth > 5, "there are more writes than that"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [name for name, one in SCENARIOS.items() if one.with_faults])
def test_faults_do_not_change_the_outcome(name: str, seed: int) -> None:
    options = ChaosOptions(faults=20, seconds=60, calls=60)
    schedule = random_schedule(random.Random(f"{name} {seed}"), options)
    done = run_simulated(SCENARIOS[name], schedule, seed)
    assert done.violations == [], str(schedule)
    assert final(done.scenario) == final(undisturbed(name).scenario), str(schedule)


@pytest.mark.parametrize("name", REAL)
def test_the_embedded_home(name: str, tmp_path: Path) -> None:
    check_same_pods(asyncio.run(run_embedded(SCENARIOS[name], tmp_path)), name)


@pytest.mark.parametrize("name", [name for name, one in REAL.items() if not one.loses_node])
def test_kubernetes(name: str, k8s_controllers: ControlPlane) -> None:
    check_same_pods(asyncio.run(run_kubernetes(SCENARIOS[name], k8s_controllers)), name)
