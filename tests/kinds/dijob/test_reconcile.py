"""The DIJob controller as a pure function: a job and its pods go in, changes come out."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.managed import ManagedPod
from shoal.cluster.times import format_time
from shoal.controllers.jobs.ends import next_attempt, pod_end, retry_time
from shoal.controllers.jobs.names import dns_label, label_value
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob.controller import reconcile
from shoal.kinds.dijob.types import ManagedDIJob
from tests.kinds.job_cluster import NOW, TEMPLATE, UID, JobCluster, make_object


def make_job(name: str = "job", *, status: dict[str, Any] | None = None, **spec: object) -> dict[str, Any]:
    return make_object(name, spec if "tasks" in spec else {"template": TEMPLATE} | spec, status)


def task(kind: str, replicas: int = 1) -> dict[str, Any]:
    return {"type": kind, "replicas": replicas, "template": TEMPLATE}


class Cluster(JobCluster[ManagedDIJob]):
    """One DIJob."""

    def __init__(self, job: dict[str, Any], config: SchedulerConfig | None = None) -> None:
        settings = config or SchedulerConfig()
        super().__init__(job, ManagedDIJob, lambda view, now: reconcile(view, now, settings))

    @property
    def phase(self) -> str:
        return str(self.status.get("phase"))


# --- phases ------------------------------------------------------------------------------------------------


def test_a_job_runs_from_pending_to_succeeded() -> None:
    cluster = Cluster(make_job())
    cluster.settle()
    assert (cluster.phase, list(cluster.pods)) == ("Starting", ["job-0-0"])
    assert cluster.service
    cluster.run()
    cluster.settle()
    assert (cluster.phase, cluster.status["readyReplicas"]) == ("Running", 1)
    cluster.end("job-0-0")
    cluster.settle()
    assert cluster.phase == "Succeeded"
    assert cluster.status["readyReplicas"] == 0
    assert not cluster.service
    assert cluster.events == ["JobPending", "JobStarting", "SuccessfulCreate", "JobRunning", "JobSucceeded"]
    true = [c["type"] for c in cluster.status["conditions"] if c["status"] == "True"]
    assert true == ["Succeeded"]


def test_all_succeed_straight_from_starting() -> None:
    cluster = Cluster(make_job(minReplicas=2, engineFields={"topology": "alone"}))
    cluster.settle()
    for pod in list(cluster.pods):
        cluster.end(pod)
    cluster.settle()
    assert cluster.phase == "Succeeded"


@pytest.mark.parametrize("limit, phase", [(0, "Failed"), (1, "Restarting")])
def test_a_failure_restarts_within_the_limit(limit: int, phase: str) -> None:
    cluster = Cluster(make_job(minReplicas=2, backoffLimit=limit))
    cluster.run_all()
    cluster.end("job-0-1", 3)
    cluster.step()
    assert (cluster.phase, cluster.status["failures"]) == (phase, 1)
    worker = cluster.status["workers"][1]
    assert (worker["phase"], worker["reason"], worker["restarts"]) == ("Failed", "exit 3", 1)


def test_a_replaced_rank_keeps_its_rank_and_waits() -> None:
    cluster = Cluster(make_job(minReplicas=4, backoffLimit=9))
    cluster.run_all()
    others = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items() if name != "job-0-1"}
    cluster.end("job-0-1", 1)
    cluster.settle()
    assert "job-0-1" in cluster.pods, "the ended pod stays during back-off"
    assert cluster.status["generation"] == 0
    cluster.now += 1
    cluster.settle()
    assert cluster.pods["job-1-1"]["metadata"]["annotations"]["shoal.io/attempt"] == "2"
    assert "job-0-1" not in cluster.pods
    cluster.run_all()
    assert (cluster.phase, cluster.status["generation"]) == ("Running", 1)
    assert others.items() <= {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}.items()
    assert cluster.env("job-1-1")["DI_RANK"] == "1"


def test_workers_that_fail_together_cost_one() -> None:
    cluster = Cluster(make_job(minReplicas=3, backoffLimit=1))
    cluster.run_all()
    cluster.now += 5
    cluster.end("job-0-0", 1)
    cluster.settle()
    cluster.end("job-0-1", 1)
    cluster.end("job-0-2", 1)
    cluster.settle()
    assert (cluster.phase, cluster.status["failures"]) == ("Restarting", 1)


def test_a_deleted_worker_is_replaced_and_costs_nothing() -> None:
    cluster = Cluster(make_job(minReplicas=2))
    cluster.run_all()
    cluster.delete("job-0-1")
    cluster.settle()
    assert cluster.phase == "Restarting"
    assert len(cluster.created) == 2, "the old pod still runs"
    cluster.end("job-0-1", 0)
    cluster.settle()
    assert cluster.created[-1] == "job-1-1"
    assert cluster.status["failures"] == 0
    cluster.run_all()
    assert cluster.phase == "Running"


def test_a_rank_that_succeeded_does_not_run_again() -> None:
    cluster = Cluster(make_job(minReplicas=2, backoffLimit=5))
    cluster.run_all()
    cluster.now += 5
    cluster.end("job-0-1")
    cluster.settle()
    cluster.now += 5
    cluster.delete("job-0-1")
    cluster.settle()
    assert cluster.phase == "Running"
    assert "job-0-1" not in cluster.pods
    cluster.end("job-0-0")
    cluster.settle()
    assert (cluster.phase, len(cluster.created)) == ("Succeeded", 2)


def test_suspend_and_resume() -> None:
    cluster = Cluster(make_job(minReplicas=2))
    cluster.run_all()
    cluster.job["spec"]["suspend"] = True
    cluster.settle()
    assert (cluster.phase, "startTime" in cluster.status) == ("Pending", False)
    assert all(pod["metadata"].get("deletionTimestamp") for pod in cluster.pods.values())
    for pod in list(cluster.pods):
        cluster.end(pod, 143)
    cluster.settle()
    assert cluster.pods == {}
    cluster.job["spec"]["suspend"] = False
    cluster.run_all()
    assert (cluster.phase, sorted(cluster.pods)) == ("Running", ["job-1-0", "job-1-1"])
    assert [worker["restarts"] for worker in cluster.status["workers"]] == [0, 0]


def test_scaling_leaves_running_workers_alone() -> None:
    cluster = Cluster(make_job(minReplicas=2))
    cluster.run_all()
    first = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    cluster.status["replicas"] = 4
    cluster.settle()
    assert cluster.phase == "Restarting"
    cluster.run_all()
    assert (cluster.phase, cluster.status["generation"], len(cluster.pods)) == ("Running", 0, 4)
    cluster.status["replicas"] = 2
    cluster.settle()
    leaving = [name for name, pod in cluster.pods.items() if pod["metadata"].get("deletionTimestamp")]
    assert sorted(leaving) == ["job-0-2", "job-0-3"]
    for name in leaving:
        cluster.end(name, 143)
    cluster.settle()
    assert (cluster.phase, {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}) == (
        "Running",
        first,
    )
    cluster.status["replicas"] = 0
    cluster.settle()
    for name in list(cluster.pods):
        cluster.end(name)
    cluster.settle()
    assert (cluster.phase, cluster.pods) == ("Pending", {})


@pytest.mark.parametrize(
    "field, reason",
    [("activeDeadlineSeconds", "DeadlineExceeded"), ("startingDeadlineSeconds", "StartingDeadlineExceeded")],
)
def test_deadlines(field: str, reason: str) -> None:
    cluster = Cluster(make_job(**dict[str, Any]({field: 10})))
    cluster.settle()
    cluster.pods["job-0-0"]["spec"]["nodeName"] = "n"
    assert cluster.step().requeue_at == NOW + 10
    cluster.now += 10
    cluster.settle()
    assert cluster.phase == "Failed"
    assert [c["reason"] for c in cluster.status["conditions"] if c["status"] == "True"] == [reason]


def test_waiting_for_a_node_is_not_starting() -> None:
    cluster = Cluster(make_job(startingDeadlineSeconds=10))
    cluster.settle()
    cluster.now += 100
    cluster.settle()
    assert cluster.phase == "Starting"


def test_a_preemptible_job_gets_pods_for_its_allocation() -> None:
    cluster = Cluster(make_job(preemptible=True, minReplicas=1, maxReplicas=3))
    cluster.settle()
    assert (cluster.phase, cluster.pods) == ("Pending", {})
    cluster.status["allocation"] = ["n", "", "n"]
    cluster.run_all()
    assert (cluster.phase, sorted(cluster.pods)) == ("Running", ["job-0-0", "job-0-2"])
    nodes = cluster.env("job-0-2")["DI_NODES"].split(",")
    assert len(nodes) == 3
    assert nodes[1] == nodes[2], "a hole is filled with the pod's own name"


def test_ttl_deletes_the_job() -> None:
    cluster = Cluster(make_job(ttlSecondsAfterFinished=5))
    cluster.run_all()
    cluster.end("job-0-0")
    cluster.settle()
    cluster.now += 5
    cluster.settle()
    assert cluster.is_deleted


@pytest.mark.parametrize("code", [0, 3, 143])
def test_ends_of_a_suspended_job_count_neither_as_restarts_nor_as_failures(code: int) -> None:
    cluster = Cluster(make_job(minReplicas=2))
    cluster.run_all()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.finish(code)
    cluster.settle()
    assert (cluster.phase, cluster.pods, cluster.status["failures"]) == ("Pending", {}, 0)
    assert [worker.get("restarts", 0) for worker in cluster.status["workers"]] == [0, 0]
    cluster.edit(suspend=False)
    cluster.run_all()
    assert (cluster.phase, sorted(cluster.pods)) == ("Running", ["job-1-0", "job-1-1"])


@pytest.mark.parametrize("policy", ["All", "None", "Running"])
@pytest.mark.parametrize("pods, running", [("RRFS", 2), ("FSF", 0), ("PRFR", 3), ("FFF", 0), ("SSS", 0)])
def test_clean_up(policy: str, pods: str, running: int) -> None:
    removed = {"All": len(pods), "None": 0, "Running": running}[policy]
    status = {"phase": "Failed", "completionTimestamp": format_time(NOW)}
    cluster = Cluster(make_job(cleanPodPolicy=policy, status=status))
    cluster.service = {"metadata": {"name": "di-job", "namespace": "default", "uid": "s"}}
    for rank, letter in enumerate(pods):
        name = f"job-0-{rank}"
        owner = {"kind": "DIJob", "name": "job", "uid": UID, "controller": True}
        meta = {"name": name, "namespace": "default", "ownerReferences": [owner]}
        cluster.create({"metadata": meta, "spec": {}})
        phase = {"R": "Running", "F": "Failed", "S": "Succeeded", "P": "Pending"}[letter]
        cluster.pods[name]["status"] = {"phase": phase}
    cluster.settle()
    assert len(pods) - len(cluster.pods) == removed
    assert not cluster.service


# --- ranks and the environment -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topology, replicas, workers, addresses",
    [
        *(("alone", n, p, 0) for n, p in ((1, 1), (2, 3), (3, 4))),
        *(("star", n, p, count) for n, p, count in ((1, 1, 0), (2, 3, 1), (3, 4, 2))),
        *(("mesh", n, p, count) for n, p, count in ((1, 1, 0), (2, 3, 3), (3, 3, 9), (3, 4, 12))),
    ],
)
def test_attached_addresses(topology: str, replicas: int, workers: int, addresses: int) -> None:
    engine = {"topology": topology, "parallelWorkers": workers}
    cluster = Cluster(make_job(minReplicas=replicas, engineFields=engine))
    cluster.run_all()
    texts = [cluster.env(pod)["DI_ATTACHED_NODES_ARG"] for pod in cluster.pods]
    assert sum(text.count("tcp://") for text in texts) == addresses
    assert sum(len(cluster.env(pod)["DI_NODES"].split(",")) for pod in cluster.pods) == replicas**2


@pytest.mark.parametrize(
    "topology, batches",
    [
        ("alone", [["job-0-0", "job-0-1", "job-0-2"]]),
        ("star", [["job-0-0"], ["job-0-1", "job-0-2"]]),
        ("mesh", [["job-0-0"], ["job-0-1"], ["job-0-2"]]),
    ],
)
def test_order_of_creation(topology: str, batches: Sequence[list[str]]) -> None:
    cluster, made = Cluster(make_job(minReplicas=3, engineFields={"topology": topology})), []
    for _ in batches:
        before = len(cluster.created)
        cluster.settle()
        made.append(cluster.created[before:])
        cluster.run()
    assert made == list(batches)


def test_growing_every_task_changes_no_rank() -> None:
    tasks = [task("learner"), task("evaluator"), task("collector")]
    cluster = Cluster(make_job(tasks=tasks))
    cluster.run_all()
    before = {name: cluster.env(name)["DI_RANK"] for name in cluster.pods}
    uids = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    for one in tasks:
        one["replicas"] += 1
    cluster.job["metadata"]["generation"] = 2
    cluster.run_all()
    after = {name: cluster.env(name)["DI_RANK"] for name in cluster.pods}
    assert before.items() <= after.items()
    assert sorted(after.values()) == ["0", "1", "2", "3", "4", "5"]
    assert uids.items() <= {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}.items()
    assert cluster.env("job-learner-1")["DI_LEARNER_NODES"].count(",") == 1


def test_a_freed_rank_is_used_again() -> None:
    tasks = [task("learner"), task("collector", 2)]
    cluster = Cluster(make_job(tasks=tasks))
    cluster.run_all()
    tasks[1]["replicas"] = 1
    cluster.settle()
    cluster.end("job-collector-1", 143)
    cluster.settle()
    tasks[0]["replicas"] = 2
    cluster.run_all()
    assert cluster.env("job-learner-1")["DI_RANK"] == "2"


def test_names_with_dots() -> None:
    cluster = Cluster(make_job("a.b"))
    cluster.settle()
    assert cluster.service
    assert (list(cluster.pods), cluster.service["metadata"]["name"]) == (["a.b-0-0"], "di-a-b-0123abcd")
    spec = cluster.pods["a.b-0-0"]["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("a-b-0-0123abcd", "di-a-b-0123abcd")
    assert spec["restartPolicy"] == "Never"
    assert cluster.env("a.b-0-0")["DI_NODES"] == "a-b-0-0123abcd.di-a-b-0123abcd.default.svc.cluster.local"


@given(
    names=st.lists(st.from_regex(r"\A[a-z0-9]([a-z0-9.-]{0,168}[a-z0-9])?\Z"), min_size=1, max_size=3),
    number=st.integers(0, 4999),
)
def test_labels_are_valid_and_distinct(names: list[str], number: int) -> None:
    for name in names:
        labels = {dns_label(name, UID, suffix=f"-{rank}") for rank in (number, number + 1)}
        assert len(labels) == 2
        assert all(len(label) <= 63 and "." not in label for label in labels)
        assert len(label_value(name, UID)) <= 63


# --- ends --------------------------------------------------------------------------------------------------


def pod(
    phase: str = "Failed", *, code: int = 1, reason: str = "", asked: float | None = None, attempt: int = 1
) -> ManagedPod:
    metadata: dict[str, Any] = {"name": "p", "annotations": {"shoal.io/attempt": str(attempt)}}
    if asked is not None:
        metadata |= {"deletionTimestamp": format_time(asked + 30), "deletionGracePeriodSeconds": 30}
    terminated = {"exitCode": code, "startedAt": format_time(NOW - 5), "finishedAt": format_time(NOW)}
    statuses = [] if reason.startswith("OutOf") else [{"name": "w", "state": {"terminated": terminated}}]
    status = {"phase": phase, "reason": reason, "containerStatuses": statuses}
    return msgspec.convert({"metadata": metadata, "status": status}, ManagedPod)


@pytest.mark.parametrize(
    "ended, end",
    [
        (pod("Succeeded", code=0), "succeeded"),
        (pod("Succeeded", code=0, asked=NOW + 1), "succeeded"),
        (pod("Succeeded", code=0, asked=NOW), "disrupted"),
        (pod("Succeeded", code=0, asked=NOW - 5), "disrupted"),
        (pod(code=1), "failed"),
        (pod(code=137), "failed"),
        (pod(code=143), "disrupted"),
        (pod(code=1, asked=NOW - 5), "disrupted"),
        (pod(code=1, asked=NOW + 5), "failed"),
        *(
            (pod(code=1, reason=reason), "disrupted")
            for reason in ("Evicted", "NodeLost", "OutOfcpu", "NodeAffinity")
        ),
        (pod("Running", asked=NOW), "disrupted"),
    ],
)
def test_how_a_pod_ended(ended: ManagedPod, end: str) -> None:
    assert pod_end(ended) == end


@pytest.mark.parametrize(
    "ended, wait, attempt",
    [
        (pod(code=1), 1, 2),
        (pod(code=1, attempt=4), 8, 5),
        (pod(code=1, attempt=20), 60, 21),
        (pod(code=143, attempt=4), None, 1),
        (pod(code=1, reason="UnexpectedAdmissionError"), 1, 2),
    ],
)
def test_back_off(ended: ManagedPod, wait: float | None, attempt: int) -> None:
    assert retry_time(ended) == (0.0 if wait is None else NOW + wait)
    assert next_attempt(ended) == attempt


# --- the environment for frameworks ------------------------------------------------------------------------


def place(cluster: Cluster, pod: str) -> tuple[str, str, str]:
    env = cluster.env(pod)
    return env["SHOAL_ROLE"], env["SHOAL_INDEX"], env["SHOAL_RESTART"]


def test_workers_of_the_template_form_are_data_parallel() -> None:
    cluster = Cluster(make_job(preemptible=True, minReplicas=1, maxReplicas=4))
    cluster.status["allocation"] = ["n", "n"]
    cluster.run_all()
    assert place(cluster, "job-0-1") == ("worker", "1", "0")
    env = cluster.env("job-0-1")
    assert (env["PET_NNODES"], env["MASTER_ADDR"]) == ("1:4", "job-0.di-job.default.svc.cluster.local")
    assert "WORLD_SIZE" not in env


def test_of_tasks_only_learners_are_data_parallel() -> None:
    cluster = Cluster(make_job(tasks=[task("collector", 2), task("learner", 2)]))
    cluster.run_all()
    assert place(cluster, "job-collector-1") == ("collector", "1", "0")
    assert not {"WORLD_SIZE", "MASTER_ADDR", "PET_NNODES"} & cluster.env("job-collector-1").keys()
    env = cluster.env("job-learner-1")
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == (
        "1",
        "2",
        "job-learner-0.di-job.default.svc.cluster.local",
    )


def test_a_recreated_rank_knows_how_often() -> None:
    cluster = Cluster(make_job(minReplicas=2, backoffLimit=9))
    cluster.run_all()
    for generation in (1, 2):
        cluster.end(f"job-{generation - 1}-1" if generation > 1 else "job-0-1", 1)
        cluster.settle()
        cluster.now += 60
        cluster.run_all()
        assert place(cluster, f"job-{generation}-1") == ("worker", "1", str(generation))
    assert place(cluster, "job-0-0") == ("worker", "0", "0")


def test_the_host_files_follow_the_size() -> None:
    cluster = Cluster(make_job(minReplicas=2))
    cluster.run_all()
    assert cluster.host_files == {"hosts.worker": ["job-0", "job-1"]}
    cluster.status["replicas"] = 3
    cluster.settle()
    assert cluster.host_files == {"hosts.worker": ["job-0", "job-1", "job-2"]}
    cluster.status["replicas"] = 1
    cluster.settle()
    assert cluster.host_files == {"hosts.worker": ["job-0"]}
    (volume,) = cluster.pods["job-0-0"]["spec"]["volumes"]
    assert cluster.config_map
    assert volume["projected"]["sources"] == [{"configMap": {"name": cluster.config_map["metadata"]["name"]}}]
    cluster.finish()
    cluster.end("job-0-0")
    cluster.settle()
    assert (cluster.phase, cluster.host_files) == ("Succeeded", {})


def test_each_task_has_a_host_file() -> None:
    cluster = Cluster(make_job(tasks=[task("learner"), task("collector", 2)]))
    cluster.run_all()
    assert cluster.host_files == {
        "hosts.learner": ["job-learner-0"],
        "hosts.collector": ["job-collector-0", "job-collector-1"],
    }
