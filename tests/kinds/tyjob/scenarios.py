"""Scenarios of TYJobs, as data: executed in every home, with crashes and with faults."""

from typing import Any

from shoal.cluster.resources import Object
from tests.kinds.scenarios import (
    Expected,
    JobScenario,
    cordon,
    delete,
    delete_job,
    delete_pods,
    delete_services,
    drain,
    edit,
    end,
    job_object,
    lose_node,
    together,
    worker_template,
)

ADDRESS = "job-learner.ty-job."
RESCHEDULED = ["Pending", "Rescheduling", "Running", "Starting"]
GANG = {"basicPolicy": "Gang"}
FOREIGN_SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "ty-job"},
    "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
}
QUICK = {"infeasibleSeconds": 3, "nodeLostSeconds": 8}


def ty(workers: int = 2, *, cpu: int = 1, **spec: Any) -> Object:  # noqa: ANN401 - as JSON has it
    """Return a TYJob with the leader `learner`, and one set of workers, `actor`."""
    leader = {"name": "learner", "template": worker_template(cpu)}
    return job_object("TYJob", "job", {"leader": leader, "workerSets": actors(workers)} | spec)


def actors(workers: int) -> list[Object]:
    return [{"name": "actor", "counts": workers, "template": worker_template()}]


def run(*workers: int, of: int = 2, **more: Any) -> Expected:  # noqa: ANN401 - other parts of the outcome
    """The outcome of a job whose leader and these workers run."""
    slots = {f"actor-{number}": "Running" for number in workers} | {"learner": "Running"}
    ready = {"ready": f"{len(workers)}/{of}", "readyWorkers": len(workers), "totalWorkers": of}
    return {"stage": "Running", "slots": slots, "services": 1} | ready | more


def with_address(address: str | None) -> bool:
    return bool(address) and str(address).startswith(ADDRESS)


DONE: Expected = {"stage": "Succeeded", "slots": {}, "services": 0, "conditions": ["Succeeded"]}
FAILED: Expected = {"stage": "Failed", "slots": {}, "services": 0, "conditions": ["Failed"]}
WAITS: Expected = {"stage": "Pending", "slots": {}, "services": 0, "leaderAddress": None}


def on(node: str, *slots: str) -> Expected:
    """The outcome of pods that run on a node."""
    return {"nodes": dict.fromkeys(slots, node)}


SCENARIOS: dict[str, JobScenario] = {
    "the leader and its workers run, and the job succeeds with the leader": JobScenario(
        job=ty(),
        begin=run(0, 1, leaderAddress=with_address, scheduleState="ScheduledSucceed"),
        with_crashes=True,
        steps=[(end("learner"), DONE | {"reason": "LeaderSucceeded", "ready": "0/2"})],
    ),
    "with room for the minimum it runs, and the other workers come when there is room": JobScenario(
        job=ty(5, minWorkersNum=2, suspend=True),
        nodes={"n1": 3, "n2": 3},
        begin=WAITS | {"conditions": ["Pending", "Suspended"]},
        with_crashes=True,
        steps=[
            (
                together(cordon("n2"), edit(suspend=False)),
                run(0, 1, of=5, scheduleState="ScheduledPartly"),
            ),
            (cordon("n2", cordoned=False), run(0, 1, 2, 3, 4, of=5, scheduleState="ScheduledSucceed")),
        ],
    ),
    "without room for all of a gang nothing runs": JobScenario(
        job=ty(2, schedulerPolicy=GANG, suspend=True),
        nodes={"n1": 2, "n2": 2},
        begin=WAITS,
        steps=[
            (together(cordon("n2"), edit(suspend=False)), WAITS | {"scheduleState": "Unscheduled"}),
            (cordon("n2", cordoned=False), run(0, 1)),
        ],
    ),
    "of two gangs that need the same room one waits as a whole until the other is gone": JobScenario(
        job=ty(2, schedulerPolicy=GANG),
        nodes={"n1": 2, "n2": 3},
        objects=[ty(2, schedulerPolicy=GANG, priority=8) | {"metadata": {"name": "other"}}],
        begin=WAITS | {"scheduleState": "Unscheduled"},
        steps=[(delete("TYJob", "other"), run(0, 1))],
    ),
    "a service of that name that is not the job's own is waited for": JobScenario(
        job=ty(),
        objects=[FOREIGN_SERVICE],
        begin={"stage": "Starting", "slots": {}, "services": 0},
        steps=[(delete("Service", "ty-job"), run(0, 1))],
    ),
    "a pod of that name that is not the job's own is waited for": JobScenario(
        job=ty(),
        objects=[
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job-learner"}} | worker_template()
        ],
        begin=WAITS,
        steps=[(delete("Pod", "job-learner"), run(0, 1))],
    ),
    "a leader that fails is started again, and the workers run on": JobScenario(
        job=ty(restartLimit=1),
        begin=run(0, 1),
        with_crashes=True,
        steps=[
            (end("learner", code=3), {"restarts": {"learner": 1}}),
            (together(), run(0, 1, restarts={"learner": 1})),
            (end("learner", code=3), FAILED | {"reason": "LeaderFailed", "restarts": {"learner": 2}}),
        ],
    ),
    "a worker that fails too often is abandoned, and its pod stays": JobScenario(
        job=ty(3, restartLimit=0, minWorkersNum=2),
        begin=run(0, 1, 2, of=3),
        with_crashes=True,
        steps=[
            (
                end("actor-1", code=1),
                run(0, 2, of=3, failed={"actor": "1"}, restarts={"actor-1": 1})
                | {
                    "slots": {"actor-0": "Running", "actor-1": "Failed", "actor-2": "Running"}
                    | {"learner": "Running"}
                },
            ),
            (end("actor-0", code=1), FAILED | {"reason": "TooFewWorkers", "failed": {"actor": "0,1"}}),
        ],
    ),
    "a worker that succeeds counts as ready, and does not run again": JobScenario(
        job=ty(),
        begin=run(0, 1),
        steps=[
            (end("actor-0"), {"stage": "Running", "ready": "2/2", "completed": {"actor": "0"}}),
            (delete_pods("actor-0"), {"ready": "2/2", "slots": {"actor-1": "Running", "learner": "Running"}}),
            (end("learner"), DONE),
        ],
    ),
    "deleted pods come back, at no cost": JobScenario(
        job=ty(),
        begin=run(0, 1),
        with_crashes=True,
        steps=[
            (delete_pods("actor-1"), run(0, 1, restarts=None, failed=None, entered=RESCHEDULED)),
            (delete_pods("learner"), run(0, 1, restarts=None)),
        ],
    ),
    "a node is lost: its pods come back on others, at no cost": JobScenario(
        job=ty(schedulerPolicy={"basicPolicy": "BinPack"}),
        config=QUICK,
        loses_node=True,
        begin=run(0, 1) | on("n1", "learner", "actor-0", "actor-1"),
        steps=[
            (
                lose_node("n1", 3600),
                run(0, 1, restarts=None)
                | on("n2", "learner", "actor-0", "actor-1")
                | {"entered": RESCHEDULED},
            )
        ],
    ),
    "a node is drained: its pods come back on others": JobScenario(
        job=ty(),
        begin=run(0, 1) | on("n1", "learner", "actor-0", "actor-1"),
        steps=[
            (
                drain("n1"),
                run(0, 1, restarts=None) | on("n2", "learner", "actor-0", "actor-1"),
            ),
        ],
    ),
    "a leader that no node can hold fails the job": JobScenario(
        job=ty(cpu=9),
        config=QUICK,
        begin=FAILED | {"reason": "NeverFits", "scheduleState": "ScheduledFailed", "leaderAddress": None},
        with_crashes=True,
    ),
    "terminating ends a job that never had a pod": JobScenario(
        job=ty(cpu=9),
        config={"infeasibleSeconds": None},
        begin=WAITS | {"scheduleState": "ScheduledFailed"},
        steps=[(edit(terminating=True), DONE | {"reason": "Terminating", "leaderAddress": None})],
    ),
    "terminating ends a running job, and the pods that ended stay": JobScenario(
        job=ty(cleanPodPolicy="Running"),
        begin=run(0, 1),
        with_crashes=True,
        steps=[
            (end("actor-1"), {"completed": {"actor": "1"}}),
            (edit(terminating=True), DONE | {"reason": "Terminating", "slots": {"actor-1": "Succeeded"}}),
        ],
    ),
    "suspended and resumed": JobScenario(
        job=ty(),
        begin=run(0, 1),
        with_crashes=True,
        steps=[
            (
                edit(suspend=True),
                {"stage": "Pending", "slots": {}, "reason": "Suspended", "allocations": lambda one: not one},
            ),
            (edit(suspend=False), run(0, 1, restarts=None)),
        ],
    ),
    "the number of workers is edited": JobScenario(
        job=ty(1),
        begin=run(0, of=1),
        with_crashes=True,
        steps=[
            (edit(workerSets=actors(4)), run(0, 1, 2, 3, of=4)),
            (edit(workerSets=actors(2)), run(0, 1) | {"allocations": lambda one: len(one) == 3}),
        ],
    ),
    "a service that is deleted is created again": JobScenario(
        job=ty(), begin=run(0, 1), steps=[(delete_services(), {"services": 1}), (end("learner"), DONE)]
    ),
    "a finished job is deleted when its time to live is over": JobScenario(
        job=ty(ttlSecondsAfterFinished=1),
        begin=run(0, 1),
        steps=[(end("learner"), {"gone": True, "slots": {}, "services": 0})],
    ),
    "deleted while it runs": JobScenario(
        job=ty(), begin=run(0, 1), steps=[(delete_job(), {"gone": True, "slots": {}, "services": 0})]
    ),
}
