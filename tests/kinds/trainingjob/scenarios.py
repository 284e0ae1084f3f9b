"""Scenarios of TrainingJobs, as data: executed in every home, with crashes and with faults."""

from typing import Any

from shoal.cluster.resources import Object
from tests.kinds.scenarios import (
    WAITING,
    Expected,
    JobScenario,
    create,
    delete,
    delete_job,
    delete_pods,
    delete_services,
    edit,
    end,
    job_object,
    lose_node,
)

QUICK = {"nodeLostSeconds": 8, "cooldown": "2s"}
SCALED = ["Creating", "Pending", "Running", "Scaling"]


def role(least: int | None = None, most: int | None = None, *, cpu: int = 1) -> Object:
    """Return a role whose pods run until a step ends them."""
    sizes = {} if least is None else {"min-instance": least, "max-instance": most or least}
    return sizes | {"entrypoint": WAITING[2], "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}


def training(least: int = 2, most: int | None = None, *, cpu: int = 1, **spec: Any) -> Object:  # noqa: ANN401 - as JSON has it
    """Return a TrainingJob; a limit above 1 of `maxLoad` does not apply to it, as its nodes are small."""
    return job_object("TrainingJob", "job", {"trainer": role(least, most, cpu=cpu)} | spec)


def run(trainers: int, *others: str, **more: Any) -> Expected:  # noqa: ANN401 - other parts of the outcome
    """The outcome of a job of which that many trainers, and other pods, run."""
    names = [*others, *(f"trainer-{number}" for number in range(trainers))]
    return {"phase": "Running", "slots": dict.fromkeys(sorted(names), "Running"), "services": 1} | more


def figures(name: str, **numbers: int) -> Any:  # noqa: ANN401 - a predicate
    """The condition that a figure has these values, by role; roles that are not named have 0."""

    def is_seen(replicas: Object | None) -> bool:
        found = {role: one.get(name) for role, one in (replicas or {}).items()}
        return {role: number for role, number in found.items() if number} == numbers

    return is_seen


def pod_on(node: str) -> Object:
    """Return a pod that takes all room of a node."""
    resources = {"requests": {"cpu": "1"}}
    container = {"name": "main", "image": "none", "command": ["sleep", "1000"], "resources": resources}
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": spec}


ROLES: Object = {"master": role(), "pserver": role(1)}
WITH_ROLES = ("master-0", "pserver-0")
WAITS: Expected = {"phase": "Pending", "slots": {}, "services": 0}
FAILED: Expected = {"phase": "Failed", "services": 0, "conditions": ["Failed"]}
SUCCEEDED: Expected = {"phase": "Succeeded", "services": 0, "conditions": ["Succeeded"]}
WITHOUT_LIMIT = {"maxLoad": 1.0}


SCENARIOS: dict[str, JobScenario] = {
    "master, parameter servers and trainers run, and the job succeeds with its trainers": JobScenario(
        job=training(**ROLES),
        begin=run(2, *WITH_ROLES, score=1.0, replicas=figures("ready", master=1, pserver=1, trainer=2)),
        with_crashes=True,
        steps=[
            (end("trainer-0"), {"phase": "Running", "completed": {"trainer": "0"}}),
            (
                end("trainer-1"),
                SUCCEEDED
                | {
                    "slots": {"trainer-0": "Succeeded", "trainer-1": "Succeeded"},
                    "replicas": figures("succeeded", trainer=2),
                },
            ),
        ],
    ),
    "a trainer that fails ends the job": JobScenario(
        job=training(**ROLES),
        begin=run(2, *WITH_ROLES),
        with_crashes=True,
        steps=[
            (
                end("trainer-1", code=3),
                FAILED
                | {
                    "reason": "TrainerFailed",
                    "slots": {"trainer-1": "Failed"},
                    "replicas": figures("failed", trainer=1),
                },
            )
        ],
    ),
    "a fault-tolerant job replaces failed trainers until one succeeds": JobScenario(
        job=training(fault_tolerant=True),
        begin=run(2),
        with_crashes=True,
        steps=[
            (end("trainer-1", code=1), run(2, replicas=figures("failed", trainer=1), entered=SCALED)),
            (end("trainer-0"), {"completed": {"trainer": "0"}}),
            (
                end("trainer-1", code=1),
                SUCCEEDED
                | {
                    "slots": {"trainer-0": "Succeeded", "trainer-1": "Failed"},
                    "failed": {"trainer": "1"},
                    "replicas": figures("failed", trainer=2),
                },
            ),
        ],
    ),
    "a fault-tolerant job fails with its last trainer": JobScenario(
        job=training(1, fault_tolerant=True),
        begin=run(1),
        steps=[(end("trainer-0", code=1), FAILED | {"reason": "AllTrainersFailed"})],
    ),
    "master and parameter servers that fail come back, and trainers run on": JobScenario(
        job=training(**ROLES),
        begin=run(2, *WITH_ROLES),
        with_crashes=True,
        steps=[
            (
                end("pserver-0", code=1),
                run(2, *WITH_ROLES, entered=SCALED, replicas=figures("failed", pserver=1)),
            ),
            (
                end("master-0", code=1),
                run(2, *WITH_ROLES, replicas=figures("failed", pserver=1, master=1)),
            ),
        ],
    ),
    "it grows into free room, and an instance above the minimum is given to another job": JobScenario(
        job=training(1, 4),
        nodes={"n1": 4},
        config=WITHOUT_LIMIT | QUICK,
        begin=run(4, score=1.0, replicas=figures("desired", trainer=4)),
        with_crashes=True,
        steps=[
            (
                create(job_object("TrainingJob", "other", {"trainer": role(2)})),
                run(2, replicas=figures("failed"), completed=None),
            ),
            (delete("TrainingJob", "other"), run(4, replicas=figures("failed"))),
        ],
    ),
    "without room the pods of a CPU job wait": JobScenario(
        job=training(2),
        nodes={"n1": 1, "n2": 1},
        objects=[pod_on("n2")],
        begin={"phase": "Creating", "slots": {"trainer-0": "Pending", "trainer-1": "Pending"}},
        with_crashes=True,
        steps=[(delete("Pod", "other"), run(2))],
    ),
    "deleted pods come back, at no cost": JobScenario(
        job=training(**ROLES),
        begin=run(2, *WITH_ROLES),
        with_crashes=True,
        steps=[
            (delete_pods("trainer-1"), run(2, *WITH_ROLES, replicas=figures("failed"), entered=SCALED)),
            (delete_pods("pserver-0", "master-0"), run(2, *WITH_ROLES, replicas=figures("failed"))),
        ],
    ),
    "a node is lost: its pods come back on another one, at no cost": JobScenario(
        loses_node=True,
        job=training(),
        nodes={"n1": 2, "n2": 2},
        config=QUICK,
        begin=run(2),
        steps=[
            (
                lose_node("n1", 600),
                run(2, nodes={"trainer-0": "n2", "trainer-1": "n2"}, replicas=figures("failed")),
            )
        ],
    ),
    "suspended and resumed": JobScenario(
        job=training(**ROLES),
        begin=run(2, *WITH_ROLES),
        with_crashes=True,
        steps=[
            (
                edit(suspend=True),
                WAITS | {"services": 1, "reason": "Suspended", "allocations": lambda one: not one},
            ),
            (edit(suspend=False), run(2, *WITH_ROLES, replicas=figures("failed"))),
        ],
    ),
    "the sizes are edited": JobScenario(
        job=training(2),
        config=WITHOUT_LIMIT | QUICK,
        begin=run(2, score=1.0),
        with_crashes=True,
        steps=[
            (edit(trainer={"max-instance": 3}), run(3, score=1.0)),
            (edit(trainer={"max-instance": 2}), run(2, replicas=figures("failed"))),
            (edit(trainer={"min-instance": 4, "max-instance": 4}), run(4)),
        ],
    ),
    "a service that is deleted is created again": JobScenario(
        job=training(1),
        begin=run(1),
        steps=[(delete_services(), {"services": 1}), (end("trainer-0"), SUCCEEDED)],
    ),
    "a finished job is deleted when its time to live is over": JobScenario(
        job=training(1, ttlSecondsAfterFinished=1),
        begin=run(1),
        steps=[(end("trainer-0"), {"gone": True, "slots": {}, "services": 0})],
    ),
    "deleted while it runs": JobScenario(
        job=training(**ROLES),
        begin=run(2, *WITH_ROLES),
        steps=[(delete_job(), {"gone": True, "slots": {}, "services": 0})],
    ),
}
