"""The stages of TYJobs: every case as it is, and with a crash of the controller after each of its writes."""

import pytest

from tests.kinds.job_cases import play, play_with_crashes
from tests.kinds.job_cluster import JobCluster
from tests.kinds.tyjob.cases_of_jobs import INFEASIBLE_CASES, SPEC_CASES, STAGE_CASES
from tests.kinds.tyjob.cases_of_pods import DISRUPTION_CASES, END_CASES
from tests.kinds.tyjob.cluster import LEADER, TYJobCluster, actors, tyjob

CASES = STAGE_CASES | END_CASES | DISRUPTION_CASES | INFEASIBLE_CASES | SPEC_CASES


@pytest.mark.parametrize("name", CASES)
def test_stage(name: str) -> None:
    play(TYJobCluster, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_crash_after_any_write_changes_no_outcome(name: str) -> None:
    play_with_crashes(TYJobCluster, CASES[name])


@pytest.mark.parametrize("pod", [LEADER, *actors(0)])
def test_the_back_off_doubles(pod: str) -> None:
    """All pods of a slot have one name, so each is deleted and recreated in one reconcile."""
    cluster = TYJobCluster(tyjob(restartLimit=9))
    cluster.run_all()
    for failures, seconds in enumerate((1, 2, 4, 8, 16, 32, 60, 60), start=1):
        cluster.end(pod, 1)
        cluster.now += seconds - 0.5
        cluster.settle()
        assert cluster.status["restarts"] == {pod.removeprefix("j-"): failures}
        assert pod not in cluster.running, "the ended pod stays during back-off"
        cluster.now += 0.5
        JobCluster.run_all(cluster)
        assert pod in cluster.running
