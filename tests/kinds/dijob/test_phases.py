"""The phases of a DIJob: every row of the table in the specification."""

from typing import Final

import pytest

from tests.kinds.dijob.cases import (
    Case,
    DIJobCluster,
    Expected,
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
from tests.kinds.job_cluster import NOW

PENDING: Final[Expected] = {"phase": "Pending", "true": ["Pending"], "pods": [], "started": False}
STARTING: Final[Expected] = {"phase": "Starting", "true": ["Starting"], "started": True, "service": True}
RUNNING: Final[Expected] = {"phase": "Running", "true": ["Running"]}
RESTARTING: Final[Expected] = {"phase": "Restarting", "true": ["Restarting"]}
SUCCEEDED: Final[Expected] = {
    "phase": "Succeeded",
    "true": ["Succeeded"],
    "readyReplicas": 0,
    "ended": True,
    "service": False,
}
FAILED: Final[Expected] = SUCCEEDED | {"phase": "Failed", "true": ["Failed"]}
ALONE: Final = {"engineFields": {"topology": "alone"}}


CASES: Final = {
    "a new job has a generation and a size, and its first worker is created": Case(
        {"minReplicas": 2},
        STARTING
        | {"generation": 0, "failures": 0, "replicas": 2, "created": ["job-0-0"], "readyReplicas": 0},
    ),
    "fields that are present are not reset when the operator starts": Case(
        {"minReplicas": 1} | ALONE,
        {"generation": 4, "replicas": 3, "failures": 2, "created": ["job-4-0", "job-4-1", "job-4-2"]},
        status={"generation": 4, "replicas": 3, "failures": 2},
    ),
    "tasks: the size is their sum, and the rank of each pod is recorded": Case(
        {"tasks": [task("learner"), task("collector", 2)]}, STARTING | {"replicas": 3, "restarts": [0, 0, 0]}
    ),
    "the phase is Starting from the first worker on": Case(
        {"minReplicas": 3}, STARTING | {"live": ["job-0-0"], "reason": "WorkersCreated"}
    ),
    "it runs when all workers are ready": Case(
        {"minReplicas": 2},
        STARTING,
        [
            (run("job-0-0"), STARTING),
            (run("job-0-1"), RUNNING | {"readyReplicas": 2, "reason": "WorkersReady"}),
        ],
    ),
    "a worker that succeeded while others start counts as ready": Case(
        {"minReplicas": 2} | ALONE,
        STARTING,
        [
            (end("job-0-0"), STARTING | {"readyReplicas": 1, "message": "1 of 2 workers are ready"}),
            (run("job-0-1"), RUNNING | {"readyReplicas": 2}),
        ],
    ),
    "all succeed straight from Starting": Case(
        {"minReplicas": 2} | ALONE, STARTING, [(end("job-0-0", "job-0-1"), SUCCEEDED)]
    ),
    "all succeed one after the other": Case(
        {"minReplicas": 2},
        STARTING,
        [(run_all, RUNNING), (end("job-0-0"), RUNNING | {"readyReplicas": 2}), (end("job-0-1"), SUCCEEDED)],
    ),
    "all succeed while it restarts": Case(
        {"minReplicas": 2, "backoffLimit": 1},
        STARTING,
        [
            (run_all, RUNNING),
            (end("job-0-1", code=1), RESTARTING),
            (end("job-0-0"), RESTARTING),
            (run_all, RUNNING),
            (end("job-1-1"), SUCCEEDED),
        ],
    ),
    "a failing worker fails the job": Case(
        {"minReplicas": 2},
        STARTING,
        [
            (run_all, RUNNING),
            (
                end("job-0-1", code=3),
                FAILED
                | {"failures": 1, "reason": "WorkerFailed", "message": "Worker failed: job-0-1: exit 3"}
                | {"worker phases": ["Running", "Failed"], "terminating": ["job-0-0"]},
            ),
        ],
    ),
    "tasks: three failures are free": Case(
        {"tasks": [task("learner")]},
        STARTING,
        [
            (run_all, RUNNING),
            (end("job-learner-0", code=1), RESTARTING | {"failures": 1}),
            (together(later(60), run_all), RUNNING),
            (end("job-learner-0", code=1), RESTARTING | {"failures": 2}),
            (together(later(60), run_all), RUNNING),
            (end("job-learner-0", code=1), RESTARTING | {"failures": 3}),
            (together(later(60), run_all), RUNNING),
            (end("job-learner-0", code=1), FAILED | {"failures": 4}),
        ],
    ),
    "workers that fail together cost one": Case(
        {"minReplicas": 3, "backoffLimit": 1},
        STARTING,
        [(run_all, RUNNING), (end("job-0-0", "job-0-1", "job-0-2", code=1), RESTARTING | {"failures": 1})],
    ),
    "workers that die of the same failure later cost nothing": Case(
        {"minReplicas": 3, "backoffLimit": 1},
        STARTING,
        [
            (run_all, RUNNING),
            (end("job-0-0", code=1), RESTARTING | {"failures": 1}),
            (end("job-0-1", "job-0-2", code=1), RESTARTING | {"failures": 1, "restarts": [1, 1, 1]}),
        ],
    ),
    "a failure of a worker that was created since costs one": Case(
        {"minReplicas": 2, "backoffLimit": 1},
        STARTING,
        [
            (run_all, RUNNING),
            (end("job-0-1", code=1), RESTARTING | {"failures": 1}),
            (together(later(2), run_all), RUNNING | {"generation": 1}),
            (end("job-1-1", code=1), FAILED | {"failures": 2}),
        ],
    ),
    "a failure between two failures of restarts costs one": Case(
        {"minReplicas": 2, "backoffLimit": 5},
        STARTING,
        [
            (run_all, RUNNING),
            (end("job-0-1", code=1), {"failures": 1}),
            (later(2), {"live": ["job-0-0", "job-1-1"]}),
            (run("job-1-1"), RUNNING),
            (end("job-0-0", code=1), RESTARTING | {"failures": 2}),
        ],
    ),
    "a disrupted worker costs nothing, and is replaced at once": Case(
        {"minReplicas": 2},
        STARTING,
        [
            (run_all, RUNNING),
            (
                end("job-0-1", code=1, reason="Evicted"),
                RESTARTING | {"failures": 0, "live": ["job-0-0", "job-1-1"], "reason": "WorkerDisrupted"},
            ),
            (run_all, RUNNING | {"generation": 1, "restarts": [0, 1]}),
        ],
    ),
    "a deleted worker is replaced once it has ended": Case(
        {"minReplicas": 2},
        STARTING,
        [
            (run_all, RUNNING),
            (delete("job-0-1"), RESTARTING | {"live": ["job-0-0"], "terminating": ["job-0-1"]}),
            (finish(0), RESTARTING | {"live": ["job-0-0", "job-1-1"], "failures": 0, "restarts": [0, 1]}),
            (run_all, RUNNING),
        ],
    ),
    "a job that starts restarts when a worker is disrupted": Case(
        {"minReplicas": 1},
        STARTING,
        [(delete("job-0-0"), RESTARTING | {"live": ["job-1-0"]}), (run_all, RUNNING)],
    ),
    "a pod that is only not Ready changes no phase": Case(
        {"minReplicas": 2},
        STARTING,
        [
            (run_all, RUNNING),
            (
                lambda cluster: cluster.pods["job-0-1"]["status"].update(conditions=[]),
                RUNNING | {"readyReplicas": 1},
            ),
        ],
    ),
    "a larger size restarts without another generation": Case(
        {},
        STARTING,
        [
            (run_all, RUNNING),
            (status(replicas=2), RESTARTING | {"generation": 0, "live": ["job-0-0", "job-0-1"]}),
            (run_all, RUNNING | {"generation": 0, "restarts": [0, 0]}),
        ],
    ),
    "a smaller size restarts until the surplus pods are gone": Case(
        {"minReplicas": 3},
        STARTING,
        [
            (run_all, RUNNING),
            (
                status(replicas=1),
                RESTARTING | {"terminating": ["job-0-1", "job-0-2"], "reason": "WorkersSurplus"},
            ),
            (finish(), RUNNING | {"pods": ["job-0-0"], "worker phases": ["Running"], "failures": 0}),
        ],
    ),
    "a resize while it starts keeps the phase": Case(
        {"minReplicas": 1},
        STARTING,
        [
            (status(replicas=3), STARTING),
            (status(replicas=1), STARTING | {"live": ["job-0-0"]}),
            (run_all, RUNNING),
        ],
    ),
    "scaled to 0 and back": Case(
        {"minReplicas": 2},
        STARTING,
        [
            (run_all, RUNNING),
            (
                status(replicas=0),
                {"phase": "Pending", "reason": "ScaledToZero", "terminating": ["job-0-0", "job-0-1"]},
            ),
            (finish(0), {"phase": "Pending", "pods": [], "failures": 0}),
            (status(replicas=1), STARTING | {"reason": "WorkersCreated"}),
            (run_all, RUNNING),
        ],
    ),
    "a job of size 0 never succeeds": Case({"minReplicas": 0}, PENDING | {"reason": "ScaledToZero"}),
    "suspended before it starts": Case(
        {"suspend": True},
        {"phase": "Pending", "true": ["Pending", "Suspended"], "pods": [], "started": False, "generation": 0},
        [(edit(suspend=False), STARTING | {"created": ["job-0-0"]})],
    ),
    "suspended while it runs, and resumed": Case(
        {"minReplicas": 2},
        STARTING,
        [
            (run_all, RUNNING),
            (
                edit(suspend=True),
                {"phase": "Pending", "true": ["Pending", "Suspended"], "started": False}
                | {"terminating": ["job-0-0", "job-0-1"], "live": []},
            ),
            (finish(), {"pods": [], "restarts": [0, 0], "failures": 0}),
            (together(edit(suspend=False), later(9)), STARTING | {"generation": 1, "live": ["job-1-0"]}),
            (run_all, RUNNING | {"restarts": [0, 0]}),
        ],
    ),
    "resumed while its pods still end: it waits for them": Case(
        {},
        STARTING,
        [
            (run_all, RUNNING),
            (edit(suspend=True), {"phase": "Pending", "reason": "Suspended"}),
            (
                edit(suspend=False),
                {"phase": "Pending", "reason": "Waiting", "live": [], "created": ["job-0-0"]},
            ),
            (finish(1), STARTING | {"live": ["job-1-0"], "failures": 0, "restarts": [0]}),
        ],
    ),
    "completed ranks stay completed while it is suspended": Case(
        {"minReplicas": 2},
        STARTING,
        [
            (run_all, RUNNING),
            (end("job-0-1"), RUNNING),
            (edit(suspend=True), {"worker phases": ["Terminating", "Succeeded"], "terminating": ["job-0-0"]}),
            (finish(), {"pods": ["job-0-1"]}),
            (together(edit(suspend=False), run_all), RUNNING | {"live": ["job-1-0"], "readyReplicas": 2}),
            (end("job-1-0"), SUCCEEDED),
        ],
    ),
    "suspending does not apply to finished jobs": Case(
        {},
        STARTING,
        [(end("job-0-0"), SUCCEEDED), (edit(suspend=True), SUCCEEDED), (edit(suspend=False), SUCCEEDED)],
    ),
    "a finished job is not changed by scaling, deletions or edits": Case(
        {},
        STARTING,
        [
            (end("job-0-0"), SUCCEEDED | {"pods": ["job-0-0"]}),
            (status(replicas=3), SUCCEEDED | {"pods": ["job-0-0"]}),
            (delete("job-0-0"), SUCCEEDED | {"pods": []}),
            (edit(minReplicas=5), SUCCEEDED | {"created": ["job-0-0"]}),
        ],
    ),
    "the active deadline": Case(
        {"activeDeadlineSeconds": 10},
        STARTING,
        [
            (run_all, RUNNING),
            (later(9), RUNNING),
            (later(1), FAILED | {"reason": "DeadlineExceeded", "terminating": ["job-0-0"]}),
        ],
    ),
    "the active deadline begins anew when it is resumed": Case(
        {"activeDeadlineSeconds": 10},
        STARTING,
        [
            (run_all, RUNNING),
            (together(later(8), edit(suspend=True)), {"phase": "Pending"}),
            (later(100), {"phase": "Pending"}),
            (finish(), {"phase": "Pending"}),
            (together(edit(suspend=False), run_all), RUNNING),
            (later(9), RUNNING),
            (later(1), FAILED),
        ],
    ),
    "the starting deadline": Case(
        {"startingDeadlineSeconds": 10, "minReplicas": 2},
        STARTING,
        [
            (lambda cluster: cluster.bind("job-0-0"), STARTING),
            (
                later(10),
                FAILED
                | {"reason": "StartingDeadlineExceeded", "message": "0 of 2 workers were ready after 10 s"},
            ),
        ],
    ),
    "the starting deadline counts from the last binding": Case(
        {"startingDeadlineSeconds": 10} | ALONE | {"minReplicas": 2},
        STARTING,
        [
            (lambda cluster: cluster.bind("job-0-0"), STARTING),
            (later(50), STARTING),
            (lambda cluster: cluster.bind("job-0-1"), STARTING),
            (later(9), STARTING),
            (later(1), FAILED | {"reason": "StartingDeadlineExceeded"}),
        ],
    ),
    "the starting deadline does not apply to a job that restarts": Case(
        {"startingDeadlineSeconds": 10, "backoffLimit": 1},
        STARTING,
        [
            (run_all, RUNNING),
            (end("job-0-0", code=1), RESTARTING),
            (later(2), RESTARTING),
            (lambda cluster: cluster.bind("job-1-0"), RESTARTING),
            (later(100), RESTARTING),
        ],
    ),
    "a preemptible job without room has no pods": Case(
        {"preemptible": True, "minReplicas": 2, "maxReplicas": 3},
        PENDING | {"reason": "Waiting", "worker phases": ["", ""]},
        [(status(allocation=["n", "n"]), STARTING), (run_all, RUNNING)],
    ),
    "a preemptible job that is evicted as a whole restarts, and has not succeeded": Case(
        {"preemptible": True, "minReplicas": 1, "maxReplicas": 2, "engineFields": {"topology": "alone"}},
        PENDING,
        [
            (together(status(allocation=["n", "n"]), run_all), RUNNING),
            (
                together(status(allocation=[]), delete("job-0-0", "job-0-1")),
                RESTARTING | {"terminating": ["job-0-0", "job-0-1"]},
            ),
            (finish(0), RESTARTING | {"live": [], "failures": 0}),
            (status(allocation=["m", "m"]), RESTARTING | {"live": ["job-1-0", "job-1-1"]}),
            (run_all, RUNNING | {"generation": 1}),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_phases(name: str) -> None:
    play(CASES[name])


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"]
)
def test_an_image_that_cannot_be_pulled_is_reported(reason: str) -> None:
    cluster = DIJobCluster(make_job(startingDeadlineSeconds=60))
    cluster.settle()
    cluster.bind()
    waiting = {"reason": reason, "message": "no such image"}
    cluster.pods["job-0-0"]["status"]["containerStatuses"] = [{"name": "w", "state": {"waiting": waiting}}]
    cluster.settle()
    assert cluster.outcome | {"phase": "Starting", "reason": reason} == cluster.outcome
    assert cluster.outcome["message"] == "Pod job-0-0: no such image"
    cluster.now += 60
    cluster.settle()
    text = "0 of 1 workers were ready after 60 s: Pod job-0-0: no such image"
    assert (cluster.phase, cluster.outcome["message"]) == ("Failed", text)


def test_a_message_about_an_image_goes_when_the_worker_starts() -> None:
    cluster = DIJobCluster(make_job())
    cluster.settle()
    cluster.bind()
    waiting = {"reason": "ErrImagePull"}
    cluster.pods["job-0-0"]["status"]["containerStatuses"] = [{"name": "w", "state": {"waiting": waiting}}]
    cluster.settle()
    cluster.pods["job-0-0"]["status"]["containerStatuses"] = []
    cluster.settle()
    assert cluster.reason == "WorkersCreated"


def test_time_alone_makes_a_reconcile_due() -> None:
    cluster = DIJobCluster(make_job(activeDeadlineSeconds=100, startingDeadlineSeconds=10, backoffLimit=3))
    cluster.settle()
    assert cluster.step().requeue_at == NOW + 100, "a worker without node is not starting"
    cluster.bind()
    assert cluster.step().requeue_at == NOW + 10
    cluster.run()
    cluster.settle()
    assert cluster.step().requeue_at == NOW + 100
    cluster.now += 5
    cluster.end("job-0-0", 1)
    cluster.settle()
    assert cluster.step().requeue_at == NOW + 6, "the back-off"


def test_every_transition_is_an_event() -> None:
    cluster = DIJobCluster(make_job(backoffLimit=1))
    cluster.run_all()
    cluster.now += 5
    cluster.end("job-0-0", 1)
    cluster.settle()
    cluster.now += 5
    cluster.run_all()
    cluster.end("job-1-0")
    cluster.settle()
    assert cluster.events == [
        *("JobPending", "JobStarting", "SuccessfulCreate", "JobRunning"),
        *("JobRestarting", "SuccessfulDelete", "SuccessfulCreate", "JobRunning", "JobSucceeded"),
    ]
