"""Scenarios of DIJobs, as data: executed in every home, with crashes and with faults."""

from typing import Any

from shoal.cluster.resources import Object
from tests.kinds.scenarios import (
    Expected,
    JobScenario,
    cordon,
    create,
    delete,
    delete_job,
    delete_pods,
    delete_services,
    drain,
    edit,
    end,
    job_object,
    lose_node,
    pause,
    set_status,
    together,
    worker_template,
)


def di(**spec: Any) -> Object:  # noqa: ANN401 - as JSON has it
    """Return a DIJob: in tasks form if tasks are given, else of one template."""
    form = {} if "tasks" in spec or "template" in spec else {"template": worker_template()}
    return job_object("DIJob", "job", form | spec)


def task(kind: str, replicas: int, name: str = "") -> Object:
    return {"type": kind, "replicas": replicas, "template": worker_template()} | (
        {"name": name} if name else {}
    )


def run(size: int, **more: Any) -> Expected:  # noqa: ANN401 - other parts of the outcome
    """The outcome of a job all of whose ranks run."""
    slots = {str(rank): "Running" for rank in range(size)}
    return {"phase": "Running", "slots": slots, "readyReplicas": size, "services": 1} | more


DONE: Expected = {"phase": "Succeeded", "readyReplicas": 0, "services": 0, "conditions": ["Succeeded"]}

PRIORITY: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
}


def pod(name: str, cpu: int) -> Object:
    """A pod that is not of the job, and more important."""
    spec = worker_template(cpu)["spec"] | {"schedulerName": "shoal", "restartPolicy": "Never"}
    if name == "urgent":
        spec["priorityClassName"] = "urgent"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def on(*nodes: str) -> Expected:
    """The nodes of the ranks."""
    return {"nodes": {str(rank): node for rank, node in enumerate(nodes)}}


FAILED: Expected = {"phase": "Failed", "reason": "WorkerFailed", "readyReplicas": 0, "services": 0}


def worker_phases(*phases: str) -> Expected:
    """The phases of the workers as the status has them, by rank."""
    return {"workers": lambda workers: tuple(one["phase"] for one in workers or ()) == phases}


SCENARIOS: dict[str, JobScenario] = {
    "one worker runs and succeeds": JobScenario(
        job=di(),
        begin=run(1, generation=0, reason="WorkersReady"),
        steps=[(end("0"), DONE | {"slots": {"0": "Succeeded"}})],
    ),
    "a failed worker fails the job": JobScenario(
        job=di(minReplicas=2),
        begin=run(2),
        steps=[(end("1", code=3), FAILED | {"slots": {"1": "Failed"}, "failures": 1})],
    ),
    "a failed rank is replaced, and the others run on": JobScenario(
        job=di(minReplicas=3, backoffLimit=1),
        begin=run(3),
        with_crashes=True,
        steps=[
            (end("1", code=1), {"failures": 1}),
            (together(), run(3, generation=1, failures=1)),
            (end("0", "1", "2"), DONE),
        ],
    ),
    "a rank that succeeded is not run again": JobScenario(
        job=di(minReplicas=2, backoffLimit=1),
        begin=run(2),
        steps=[
            (
                end("1"),
                run(2)
                | {"slots": {"0": "Running", "1": "Succeeded"}}
                | worker_phases("Running", "Succeeded"),
            ),
            (delete_pods("1"), {"phase": "Running", "slots": {"0": "Running"}}),
            (
                delete_pods("0"),
                {"phase": "Running", "slots": {"0": "Running"}, "generation": 1, "failures": 0},
            ),
            (end("0"), DONE),
        ],
    ),
    "a service that is deleted is created again": JobScenario(
        job=di(), begin=run(1), steps=[(delete_services(), {"services": 1}), (end("0"), DONE)]
    ),
    "suspended and resumed": JobScenario(
        job=di(minReplicas=2),
        begin=run(2),
        with_crashes=True,
        steps=[
            (
                edit(suspend=True),
                {
                    "phase": "Pending",
                    "slots": {},
                    "reason": "Suspended",
                    "conditions": ["Pending", "Suspended"],
                },
            ),
            (edit(suspend=False), run(2, generation=1, failures=0)),
        ],
    ),
    "scaled up, down, to zero and up again": JobScenario(
        job=di(minReplicas=1, maxReplicas=4),
        begin=run(1),
        steps=[
            (set_status(replicas=3), run(3, generation=0)),
            (set_status(replicas=2), run(2, generation=0)),
            (
                set_status(replicas=0),
                {"phase": "Pending", "reason": "ScaledToZero", "slots": {}} | worker_phases(),
            ),
            (set_status(replicas=1), run(1, generation=0)),
            (end("0"), DONE),
        ],
    ),
    "tasks, one of which grows": JobScenario(
        job=di(tasks=[task("learner", 1), task("collector", 1)]),
        begin={"phase": "Running", "slots": {"learner-0": "Running", "collector-0": "Running"}},
        with_crashes=True,
        steps=[
            (
                edit(tasks=[task("learner", 1), task("collector", 2)]),
                {
                    "phase": "Running",
                    "generation": 0,
                    "slots": dict.fromkeys(("learner-0", "collector-0", "collector-1"), "Running"),
                },
            ),
            (end("learner-0", "collector-0", "collector-1"), DONE),
        ],
    ),
    "a preemptible job runs with what there is room for, and ends": JobScenario(
        job=di(preemptible=True, minReplicas=1, maxReplicas=3),
        begin=run(3, generation=0),
        with_crashes=True,
        steps=[(end("0", "1", "2"), DONE)],
    ),
    "a worker that is deleted by force is replaced": JobScenario(
        job=di(minReplicas=2),
        begin=run(2),
        steps=[
            (delete_pods("1", grace=0), run(2, generation=1, failures=0)),
            (end("0", "1"), DONE),
        ],
    ),
    "the workers of a drained node move, and the others run on": JobScenario(
        job=di(minReplicas=3),
        begin=run(3) | on("n1", "n1", "n2"),
        with_faults=False,
        nodes={"n1": 2, "n2": 4},
        steps=[
            (drain("n1"), run(3, generation=1, failures=0) | on("n2", "n2", "n2")),
            (end("0", "1", "2"), DONE),
        ],
    ),
    "a preemptible job leaves a drained node, and grows again when it is back": JobScenario(
        job=di(preemptible=True, minReplicas=1, maxReplicas=4),
        begin=run(4),
        with_faults=False,
        only_simulated=True,
        nodes={"n1": 3, "n2": 3},
        steps=[
            (
                together(cordon("n1"), delete_pods("0", "1", "2")),
                {"phase": "Running", "readyReplicas": 3, "nodes": lambda nodes: {*nodes.values()} == {"n2"}},
            ),
            (cordon("n1", cordoned=False), run(4, failures=0)),
        ],
        config={"optimisePeriod": "1s"},
    ),
    "a node that is cut off for long: its workers run elsewhere": JobScenario(
        job=di(minReplicas=2),
        begin=run(2) | on("n1", "n1"),
        nodes={"n1": 2, "n2": 2},
        steps=[
            (lose_node("n1", 60), run(2, failures=0) | on("n2", "n2")),
            (end("0", "1"), DONE),
        ],
        config={"nodeLostSeconds": 10},
        only_simulated=True,
    ),
    "a node that is cut off for a moment: nothing happens": JobScenario(
        job=di(minReplicas=2),
        begin=run(2),
        steps=[
            (together(lose_node("n1", 5), pause(9)), run(2, generation=0)),
            (end("0", "1"), DONE),
        ],
        config={"nodeLostSeconds": 60},
        only_simulated=True,
    ),
    "a preemptible job is shrunk on request": JobScenario(
        job=di(preemptible=True, minReplicas=1, maxReplicas=4),
        begin=run(4),
        steps=[
            (set_status(requestedReplicas=2), run(2, generation=0, failures=0)),
            (end("0", "1"), DONE),
        ],
        config={"optimisePeriod": "1s"},
    ),
    "a preemptible job is shrunk and grown on request": JobScenario(
        job=di(preemptible=True, minReplicas=1, maxReplicas=4),
        begin=run(4),
        only_simulated=True,
        steps=[
            (set_status(requestedReplicas=2), run(2, generation=0, failures=0)),
            (set_status(requestedReplicas=None), run(4, generation=0, failures=0)),
            (edit(maxReplicas=3), run(3, generation=0, failures=0)),
            (end("0", "1", "2"), DONE),
        ],
        config={"optimisePeriod": "1s"},
    ),
    "a preemptible job is evicted as a whole, and returns": JobScenario(
        job=di(preemptible=True, minReplicas=2, maxReplicas=4),
        begin=run(4),
        nodes={"n1": 5},
        objects=[PRIORITY],
        steps=[
            (create(pod("urgent", 4)), {"phase": "Restarting", "slots": {}}),
            (delete("Pod", "urgent"), run(4, failures=0)),
            (end("0", "1", "2", "3"), DONE),
        ],
        config={"optimisePeriod": "1s"},
        only_simulated=True,
    ),
    "a preemptible job waits for room with a reason": JobScenario(
        job=di(preemptible=True, minReplicas=2, maxReplicas=2),
        begin={"phase": "Pending", "slots": {}, "scheduled": "NoRoom"},
        nodes={"n1": 2},
        objects=[pod("first", 1)],
        steps=[(delete("Pod", "first"), run(2)), (end("0", "1"), DONE)],
    ),
    "deleted while it runs": JobScenario(
        job=di(minReplicas=2),
        begin=run(2),
        steps=[(delete_job(), {"gone": True, "slots": {}, "services": 0})],
    ),
}
