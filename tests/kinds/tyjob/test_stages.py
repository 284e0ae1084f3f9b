"""The stages of TYJobs: every case as it is, and with a crash of the controller after each of its writes."""

from copy import deepcopy
from itertools import count

import pytest

from tests.kinds.tyjob.acts import wait
from tests.kinds.tyjob.case import Case
from tests.kinds.tyjob.cases_of_jobs import INFEASIBLE_CASES, SPEC_CASES, STAGE_CASES
from tests.kinds.tyjob.cases_of_pods import DISRUPTION_CASES, END_CASES
from tests.kinds.tyjob.cluster import TYJobCluster

CASES = STAGE_CASES | END_CASES | DISRUPTION_CASES | INFEASIBLE_CASES | SPEC_CASES


def play(case: Case, crash_at: int | None = None) -> bool:
    """Check the outcome of every step; return whether the controller was killed.

    It is killed once `crash_at` writes were made, and goes on from what is written.
    """
    cluster = TYJobCluster(deepcopy(case.spec))
    cluster.crash_at = crash_at
    for place, (act, expected) in enumerate([(wait(0), case.begin), *case.steps]):
        act(cluster)
        cluster.settle()
        seen = cluster.outcome
        assert {name: seen[name] for name in expected} == dict(expected), f"step {place}"
    return crash_at is not None and cluster.crash_at is None


@pytest.mark.parametrize("name", CASES)
def test_stage(name: str) -> None:
    play(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_crash_after_any_write_changes_no_outcome(name: str) -> None:
    for crash_at in count():
        if not play(CASES[name], crash_at):
            break
    assert crash_at > 0, "there are writes"
