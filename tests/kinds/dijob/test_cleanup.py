"""The end of a DIJob: clean-up by policy, ttl, deletion, and the finalizers of pods."""

from typing import Any

import pytest

from shoal.cluster.times import format_time
from shoal.controllers.changes import Delete, Patch
from shoal.controllers.jobs.view import JobView
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob.controller import reconcile
from tests.kinds.dijob.cases import DIJobCluster, make_job
from tests.kinds.job_cluster import FINALIZER, NOW, UID

PHASES = {"R": "Running", "F": "Failed", "S": "Succeeded", "P": "Pending"}


def finished(pods: str, policy: str) -> DIJobCluster:
    """A failed job whose pods are in phases, of which the letters are the first ones."""
    status = {"phase": "Failed", "completionTimestamp": format_time(NOW)}
    cluster = DIJobCluster(make_job(cleanPodPolicy=policy, status=status))
    cluster.service = {"metadata": {"name": "di-job", "namespace": "default", "uid": "s"}}
    for rank, letter in enumerate(pods):
        name = f"job-0-{rank}"
        owner = {"kind": "DIJob", "name": "job", "uid": UID, "controller": True}
        meta = {"name": name, "namespace": "default", "ownerReferences": [owner], "finalizers": [FINALIZER]}
        cluster.create({"metadata": meta, "spec": {}})
        cluster.pods[name]["status"] = {"phase": PHASES[letter]}
    return cluster


@pytest.mark.parametrize("policy", ["All", "None", "Running"])
@pytest.mark.parametrize("pods, running", [("RRFS", 2), ("FSF", 0), ("PRFR", 3), ("FFF", 0), ("SSS", 0)])
def test_clean_up(policy: str, pods: str, running: int) -> None:
    cluster = finished(pods, policy)
    cluster.settle()
    assert len(pods) - len(cluster.pods) == {"All": len(pods), "None": 0, "Running": running}[policy]
    assert not cluster.service


def test_deletions_of_a_finished_job_are_an_event_and_finished_pods_are_released() -> None:
    cluster = finished("RF", "Running")
    cluster.settle()
    assert cluster.events == ["SuccessfulDelete"]
    assert cluster.pods["job-0-1"]["metadata"]["finalizers"] == []


@pytest.mark.parametrize("code, phase", [(0, "Succeeded"), (1, "Failed")])
def test_the_final_status_is_one_write_before_everything_else(code: int, phase: str) -> None:
    cluster = DIJobCluster(make_job(minReplicas=2))
    cluster.run_all()
    cluster.end("job-0-0", code)
    cluster.end("job-0-1", code)
    cluster.step(killed_after=1)
    assert cluster.outcome | {"phase": phase, "readyReplicas": 0, "ended": True} == cluster.outcome
    assert (cluster.service is not None, len(cluster.pods)) == (True, 2)
    cluster.settle()
    assert cluster.service is None


def test_ttl() -> None:
    cluster = DIJobCluster(make_job(ttlSecondsAfterFinished=5))
    cluster.run_all()
    cluster.end("job-0-0")
    cluster.settle()
    assert cluster.step().requeue_at == NOW + 5
    cluster.now += 5
    changes = cluster.step()
    last: Any = changes.stages[-1][0]
    assert isinstance(last, Delete)
    assert (last.deletion.propagation, last.deletion.uid, cluster.is_deleted) == ("Background", UID, True)


def test_a_ttl_that_is_added_to_a_finished_job_counts_from_its_end() -> None:
    cluster = DIJobCluster(make_job())
    cluster.run_all()
    cluster.end("job-0-0")
    cluster.settle()
    cluster.now += 50
    cluster.edit(ttlSecondsAfterFinished=10)
    cluster.settle()
    assert cluster.is_deleted


def test_a_job_that_is_deleted_only_releases_its_pods() -> None:
    cluster = DIJobCluster(make_job(minReplicas=2))
    cluster.run_all()
    cluster.job["metadata"]["deletionTimestamp"] = format_time(cluster.now)
    before = dict(cluster.status)
    cluster.delete("job-0-1")
    cluster.settle()
    assert (cluster.status, cluster.created) == (before, ["job-0-0", "job-0-1"])
    assert all(pod["metadata"]["finalizers"] == [] for pod in cluster.pods.values())


def test_pods_of_a_deleted_job_are_released() -> None:
    cluster = DIJobCluster(make_job())
    cluster.run_all()
    orphans = cluster.view().pods
    changes = reconcile(JobView(job=None, orphans=orphans), NOW, SchedulerConfig())
    (release,) = (write for stage in changes.stages for write in stage)
    assert isinstance(release, Patch)
    assert (release.name, release.patch) == ("job-0-0", {"metadata": {"finalizers": None}})


def test_the_end_of_a_pod_is_counted_before_it_is_released() -> None:
    cluster = DIJobCluster(make_job(minReplicas=2, backoffLimit=9))
    cluster.run_all()
    cluster.now += 5
    cluster.end("job-0-1", 1)
    uid = cluster.pods["job-0-1"]["metadata"]["uid"]
    cluster.step(killed_after=1)
    assert cluster.outcome | {"counted": (uid,), "failures": 1} == cluster.outcome
    assert cluster.pods["job-0-1"]["metadata"]["finalizers"] == [FINALIZER]
    cluster.step(killed_after=1)
    assert cluster.pods["job-0-1"]["metadata"]["finalizers"] == []
    cluster.settle()
    assert cluster.outcome | {"failures": 1, "restarts": [0, 1]} == cluster.outcome
    cluster.end("job-0-0", 1)
    cluster.settle()
    assert list(cluster.status["counted"]) == [cluster.pods["job-0-0"]["metadata"]["uid"]]
