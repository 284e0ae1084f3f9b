"""Ranks, sizes and generations of DIJobs: which pods there are, in which order, and their peers."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from shoal.controllers.jobs.ends import ATTEMPT
from shoal.engine.config import SchedulerConfig
from tests.kinds.dijob.cases import (
    Case,
    DIJobCluster,
    delete,
    edit,
    end,
    finish,
    later,
    make_job,
    play,
    run,
    run_all,
    status,
    task,
    together,
)
from tests.kinds.job_cluster import TEMPLATE

ALONE: Final = {"engineFields": {"topology": "alone"}}
ELASTIC: Final[dict[str, Any]] = {"preemptible": True, "minReplicas": 1, "maxReplicas": 4}
FOREIGN: Final[dict[str, Any]] = {"template": {"spec": TEMPLATE["spec"] | {"schedulerName": "other"}}}
TASKS: Final = [task("learner"), task("evaluator"), task("collector")]


def grown(*names: str) -> list[dict[str, Any]]:
    return [one | {"replicas": 2 if one["type"] in names else 1} for one in TASKS]


CASES: Final = {
    # --- sizes ---------------------------------------------------------------------------------------------
    "a raised minReplicas raises the size": Case(
        {"minReplicas": 2} | ALONE,
        {"replicas": 2},
        [(edit(minReplicas=3, maxReplicas=3), {"replicas": 3, "observedGeneration": 2})],
    ),
    "a lowered minReplicas changes nothing": Case(
        {"minReplicas": 3} | ALONE, {"replicas": 3}, [(edit(minReplicas=1), {"replicas": 3})]
    ),
    "a size below minReplicas stays if the spec does not change": Case(
        {"minReplicas": 3} | ALONE,
        {"replicas": 3},
        [(status(replicas=1), {"replicas": 1, "live": ["job-0-0"]})],
    ),
    "a preemptible job that another scheduler places is sized like any other": Case(
        ELASTIC | FOREIGN | ALONE | {"minReplicas": 2}, {"replicas": 2, "live": ["job-0-0", "job-0-1"]}
    ),
    "a preemptible job has the size that the scheduler writes": Case(
        ELASTIC | ALONE,
        {"live": []},
        [
            (status(allocation=["n", "n"], replicas=2), {"live": ["job-0-0", "job-0-1"]}),
            (run_all, {"phase": "Running"}),
            (status(allocation=["n", "n", "n"], replicas=3), {"phase": "Restarting", "generation": 0}),
            (run_all, {"phase": "Running", "generation": 0, "restarts": [0, 0, 0]}),
        ],
    ),
    "bound pods of a shrunk preemptible job are left to the scheduler": Case(
        ELASTIC | ALONE,
        {"live": []},
        [
            (status(allocation=["n", "n"]), {"live": ["job-0-0", "job-0-1"]}),
            (run_all, {"phase": "Running"}),
            (status(allocation=["n"]), {"terminating": [], "phase": "Restarting"}),
            (delete("job-0-1"), {"terminating": ["job-0-1"]}),
            (finish(), {"pods": ["job-0-0"], "phase": "Running", "worker phases": ["Running"]}),
            (
                status(allocation=["n", "n"]),
                {"live": ["job-0-0", "job-0-1"], "generation": 0, "restarts": [0, 0]},
            ),
        ],
    ),
    "as many ranks as minReplicas are wanted, whichever have nodes": Case(
        ELASTIC | ALONE | {"minReplicas": 3},
        {"live": [], "worker phases": ["", "", ""]},
        [
            (together(status(allocation=["n", "n", "n"]), run_all), {"phase": "Running"}),
            (
                together(status(allocation=["n", "n", "", "m"]), delete("job-0-2"), finish()),
                {"phase": "Restarting", "live": ["job-0-0", "job-0-1", "job-0-3"]},
            ),
            (run_all, {"phase": "Running", "readyReplicas": 3}),
        ],
    ),
    "completed ranks stay wanted without a node, and count towards minReplicas": Case(
        ELASTIC | ALONE | {"minReplicas": 2},
        {"live": []},
        [
            (together(status(allocation=["n", "n", "n"]), run_all), {"phase": "Running"}),
            (end("job-0-0", "job-0-2"), {"phase": "Running"}),
            (together(status(allocation=[]), delete("job-0-1")), {"terminating": ["job-0-1"]}),
            (finish(), {"phase": "Succeeded"}),
        ],
    ),
    "unbound pods of a shrunk preemptible job are deleted": Case(
        ELASTIC | ALONE,
        {"live": []},
        [
            (status(allocation=["n", "n"]), {"live": ["job-0-0", "job-0-1"]}),
            (status(allocation=["n"]), {"pods": ["job-0-0"]}),
        ],
    ),
    "a rank that is nominated, or below minReplicas, has an entry and no pod": Case(
        ELASTIC | {"minReplicas": 2} | ALONE,
        {"worker phases": ["", ""]},
        [(status(nominations={"job-0-2": "n"}), {"worker phases": ["", "", ""], "live": []})],
    ),
    # --- generations ---------------------------------------------------------------------------------------
    "ranks that are recreated together raise the generation once": Case(
        {"minReplicas": 3, "backoffLimit": 9} | ALONE,
        {"generation": 0},
        [
            (run_all, {"phase": "Running"}),
            (end("job-0-1", "job-0-2", code=1), {"generation": 0}),
            (later(2), {"generation": 1, "live": ["job-0-0", "job-1-1", "job-1-2"]}),
        ],
    ),
    "a rank that follows another one takes the present generation": Case(
        {"minReplicas": 2, "backoffLimit": 9} | ALONE,
        {"generation": 0},
        [
            (run_all, {"phase": "Running"}),
            (end("job-0-0", code=1), {"generation": 0}),
            (later(2), {"generation": 1, "live": ["job-0-1", "job-1-0"]}),
            (end("job-0-1", code=1), {"generation": 1}),
            (later(2), {"generation": 1, "live": ["job-1-0", "job-1-1"]}),
            (end("job-1-1", code=1), {"generation": 1}),
            (later(4), {"generation": 2, "live": ["job-1-0", "job-2-1"]}),
        ],
    ),
    "a rank that is added after a restart has the present generation": Case(
        {"backoffLimit": 1},
        {"generation": 0},
        [
            (run_all, {"phase": "Running"}),
            (end("job-0-0", code=1), {}),
            (together(later(2), run_all), {"generation": 1}),
            (status(replicas=2), {"generation": 1, "live": ["job-1-0", "job-1-1"]}),
        ],
    ),
    "a rank that moves is stopped, and recreated when it has room": Case(
        ELASTIC | ALONE,
        {"live": []},
        [
            (together(status(allocation=["a", "a"]), run_all), {"phase": "Running"}),
            (
                together(status(allocation=["a", ""], nominations={"job-0-1": "b"}), delete("job-0-1")),
                {"phase": "Restarting", "worker phases": ["Running", "Terminating"]},
            ),
            (finish(0), {"live": ["job-0-0"], "restarts": [0, 1]}),
            (
                status(allocation=["a", "b"], nominations={}),
                {"live": ["job-0-0", "job-1-1"], "generation": 1, "restarts": [0, 1]},
            ),
        ],
    ),
    "a pod that is gone without an end is a restart": Case(
        {"minReplicas": 2} | ALONE,
        {"generation": 0},
        [
            (run_all, {"phase": "Running"}),
            (
                lambda cluster: cluster.pods.pop("job-0-1"),
                {"phase": "Restarting", "generation": 1, "restarts": [0, 1], "live": ["job-0-0", "job-1-1"]},
            ),
        ],
    ),
    # --- order ---------------------------------------------------------------------------------------------
    "a hole and a completed rank are not waited for": Case(
        ELASTIC | {"engineFields": {"topology": "mesh"}, "minReplicas": 0},
        {"live": []},
        [
            (status(allocation=["n", "", "n"]), {"live": ["job-0-0"]}),
            (run("job-0-0"), {"live": ["job-0-0", "job-0-2"]}),
            (end("job-0-0"), {"worker phases": ["Succeeded", "Pending"]}),
            (delete("job-0-2"), {"live": ["job-1-2"]}),
        ],
    ),
    "star: a worker waits until rank 0 runs again": Case(
        {"minReplicas": 2, "backoffLimit": 9},
        {"live": ["job-0-0"]},
        [
            (run_all, {"phase": "Running"}),
            (end("job-0-0", "job-0-1", code=1), {"live": []}),
            (later(2), {"live": ["job-1-0"]}),
            (run("job-1-0"), {"live": ["job-1-0", "job-1-1"]}),
        ],
    ),
    "tasks: in the order of ranks": Case(
        {"tasks": TASKS},
        {"created": ["job-learner-0"]},
        [
            (run("job-learner-0"), {"created": ["job-learner-0", "job-evaluator-0"]}),
            (run("job-evaluator-0"), {"live": ["job-collector-0", "job-evaluator-0", "job-learner-0"]}),
        ],
    ),
    # --- tasks ---------------------------------------------------------------------------------------------
    "tasks: a pod that is replaced has the same name, and a new generation": Case(
        {"tasks": TASKS},
        {},
        [
            (run_all, {"phase": "Running", "generation": 0}),
            (delete("job-learner-0"), {"phase": "Restarting"}),
            (finish(), {"generation": 1, "restarts": [1, 0, 0]}),
            (run_all, {"phase": "Running"}),
        ],
    ),
    "tasks: a task that shrinks loses its last pods": Case(
        {"tasks": grown("collector")},
        {},
        [
            (run_all, {"phase": "Running", "replicas": 4}),
            (edit(tasks=TASKS), {"terminating": ["job-collector-1"], "replicas": 3}),
            (finish(), {"phase": "Running", "pods": ["job-collector-0", "job-evaluator-0", "job-learner-0"]}),
        ],
    ),
    "tasks: a rank that is free is not completed because its last pod succeeded": Case(
        {"tasks": grown("collector")},
        {},
        [
            (run_all, {"phase": "Running"}),
            (end("job-collector-1"), {"phase": "Running"}),
            (edit(tasks=grown("learner")), {"replicas": 4, "phase": "Restarting"}),
            (run_all, {"phase": "Running", "worker phases": ["Running"] * 4, "generation": 0}),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_ranks(name: str) -> None:
    play(CASES[name])


# --- ranks of tasks ----------------------------------------------------------------------------------------


def ranks(cluster: DIJobCluster) -> dict[str, int]:
    """The rank of each pod, which its environment, its label and the status agree on."""
    recorded = {worker["pod"]: worker["rank"] for worker in cluster.status["workers"]}
    for name in cluster.live:
        labels = cluster.pods[name]["metadata"]["labels"]
        assert cluster.env(name)["DI_RANK"] == labels["diengine/rank"] == str(recorded[name])
    return {name.removeprefix("job-"): recorded[name] for name in cluster.live}


def test_growing_every_task_changes_no_rank_and_no_address() -> None:
    cluster = DIJobCluster(make_job(tasks=grown()))
    cluster.run_all()
    before = ranks(cluster)
    bodies = {name: dict(cluster.pods[name]) for name in cluster.live}
    assert before == {"learner-0": 0, "evaluator-0": 1, "collector-0": 2}
    cluster.edit(tasks=grown("learner", "evaluator", "collector"))
    cluster.run_all()
    assert ranks(cluster) == before | {"learner-1": 3, "evaluator-1": 4, "collector-1": 5}
    assert bodies.items() <= cluster.pods.items()
    assert cluster.env("job-learner-1")["DI_LEARNER_NODES"].split(",") == [
        f"job-learner-{i}.di-job.default.svc.cluster.local" for i in (0, 1)
    ]


def test_a_freed_rank_is_used_again_before_one_is_appended() -> None:
    cluster = DIJobCluster(make_job(tasks=grown("collector")))
    cluster.run_all()
    cluster.edit(tasks=grown("evaluator"))
    cluster.settle()
    assert ranks(cluster) == {"learner-0": 0, "evaluator-0": 1, "collector-0": 2, "evaluator-1": 4}, (
        "a pod that still ends keeps its rank"
    )
    cluster.run()
    cluster.finish()
    cluster.settle()
    cluster.edit(tasks=grown("learner", "evaluator"))
    cluster.run_all()
    assert ranks(cluster)["learner-1"] == 3


def test_a_pod_that_returns_does_not_take_the_rank_that_another_one_got() -> None:
    cluster = DIJobCluster(make_job(tasks=grown("collector")))
    cluster.run_all()
    cluster.now += 5
    cluster.end("job-collector-1", 1)
    cluster.edit(tasks=grown("learner"))
    cluster.step()
    assert "job-collector-1" in cluster.pods
    assert {worker["pod"]: worker["rank"] for worker in cluster.status["workers"]}["job-learner-1"] == 3
    cluster.edit(tasks=grown("learner", "collector"))
    cluster.now += 60
    cluster.run_all()
    assert ranks(cluster) | {"learner-1": 3, "collector-1": 4} == ranks(cluster)


def test_the_rank_is_recorded_before_the_pod_is_created() -> None:
    cluster = DIJobCluster(make_job(tasks=[task("learner")]))
    cluster.step(killed_after=1)
    assert (cluster.status["workers"][0]["pod"], cluster.created) == ("job-learner-0", [])


# --- peers -------------------------------------------------------------------------------------------------


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
    cluster = DIJobCluster(make_job(minReplicas=replicas, engineFields=engine))
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
    cluster, made = DIJobCluster(make_job(minReplicas=3, engineFields={"topology": topology})), []
    for _ in batches:
        before = len(cluster.created)
        cluster.settle()
        made.append(cluster.created[before:])
        cluster.run()
    assert made == list(batches)


def test_a_hole_between_ranks_has_the_name_of_the_pod_itself() -> None:
    cluster = DIJobCluster(make_job(**ELASTIC))
    cluster.settle()
    cluster.status["allocation"] = ["n", "", "n"]
    cluster.run_all()
    for rank, name in ((0, "job-0-0"), (2, "job-0-2")):
        hosts = [host.partition(".")[0] for host in cluster.env(name)["DI_NODES"].split(",")]
        assert hosts == ["job-0", f"job-{rank}", "job-2"]


def test_a_replaced_rank_keeps_its_host_and_its_peers() -> None:
    cluster = DIJobCluster(make_job(minReplicas=4, backoffLimit=9))
    cluster.run_all()
    others = {name: dict(pod) for name, pod in cluster.pods.items() if name != "job-0-1"}
    old = cluster.pods["job-0-1"]
    cluster.end("job-0-1", 1)
    cluster.settle()
    assert "job-0-1" in cluster.pods, "the ended pod stays during back-off"
    cluster.now += 1
    cluster.run_all()
    new = cluster.pods["job-1-1"]
    assert new["spec"]["hostname"] == old["spec"]["hostname"] == "job-1"
    assert (cluster.env("job-1-1")["DI_RANK"], cluster.env("job-1-1")["DI_JOB_ID"]) == ("1", "default.job.1")
    assert others.items() <= cluster.pods.items()


def test_pods_of_another_scheduler_are_created_without_an_allocation() -> None:
    cluster = DIJobCluster(make_job(**ELASTIC | FOREIGN), SchedulerConfig(scheduler_names=("shoal",)))
    cluster.run_all()
    assert (cluster.phase, cluster.live) == ("Running", ["job-0-0"])
    assert cluster.pods["job-0-0"]["spec"]["schedulerName"] == "other"


def test_every_rank_that_fails_is_a_further_attempt() -> None:
    """A rank waits for rank 0 too: its ended pod stays until then, and tells the number of the attempt."""
    cluster = DIJobCluster(make_job(minReplicas=3, backoffLimit=9))
    for attempt in ("1", "2", "3"):
        cluster.run_all()
        assert [cluster.pods[name]["metadata"]["annotations"][ATTEMPT] for name in cluster.live] == [
            attempt
        ] * 3
        for name in cluster.live:
            cluster.end(name, 1)
        cluster.settle()
        cluster.now += 60
