"""The phases of TrainingJobs: every case as it is, and with a crash of the controller after each write."""

import pytest

from tests.kinds.job_cases import play, play_with_crashes
from tests.kinds.trainingjob.cases import CASES
from tests.kinds.trainingjob.cluster import TrainingJobCluster, trainingjob


@pytest.mark.parametrize("name", CASES)
def test_phase(name: str) -> None:
    play(TrainingJobCluster, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_a_crash_after_any_write_changes_no_outcome(name: str) -> None:
    play_with_crashes(TrainingJobCluster, CASES[name])


def test_the_back_off_of_an_instance_doubles() -> None:
    """Its pods have one name, so each is deleted and recreated in one reconcile: the attempts go on."""
    cluster = TrainingJobCluster(trainingjob(pservers=1))
    cluster.allocate()
    cluster.run_all()
    for failures, seconds in enumerate((1, 2, 4, 8, 16, 32, 60, 60), start=1):
        cluster.end("j-pserver-0", 1)
        cluster.now += seconds - 0.5
        cluster.settle()
        assert cluster.status["replicas"]["pserver"]["failed"] == failures
        assert "j-pserver-0" not in cluster.running, "the ended pod stays during back-off"
        cluster.now += 0.5
        cluster.run_all()
        assert "j-pserver-0" in cluster.running
