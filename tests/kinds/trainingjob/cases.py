"""Cases of TrainingJobs: each row of the table of phases, and what else may happen to a job."""

from typing import Final

from tests.kinds.job_cases import (
    Act,
    Case,
    Expected,
    delete,
    edit,
    end,
    fail_image,
    finish,
    in_order,
    lose,
    run,
    run_all,
    wait,
)
from tests.kinds.trainingjob.cluster import trainers, trainingjob

MASTER: Final = "j-master-0"
PSERVERS: Final = ["j-pserver-0", "j-pserver-1"]
FULL: Final = trainingjob(pservers=2, master=True)
ALL: Final = [MASTER, *PSERVERS, *trainers(0, 1)]
FAULT_TOLERANT: Final = trainingjob(fault_tolerant=True)
NEW: Final[Expected] = {"phase": "Pending", "pods": [], "service": False, "started": False}

# --- acts --------------------------------------------------------------------------------------------------


def allocate(**sizes: int) -> Act:
    """Let the scheduler give nodes to instances; by default to the minimum."""
    return lambda cluster: cluster.allocate(**sizes)


def want(**sizes: int) -> Act:
    """Let the scheduler want instances for which there is no room; by default the minimum."""
    return lambda cluster: cluster.want(**sizes)


def take_away(*pods: str) -> Act:
    """Let the scheduler take pods away."""
    return lambda cluster: cluster.take_away(*pods)


def release(*pods: str) -> Act:
    """Let the scheduler take nodes away, and die before it deletes the pods."""
    return lambda cluster: cluster.release(*pods)


START: Final = in_order(allocate(), run_all)
"""Give nodes to the minimum, and let it run."""


def fail_again(times: int, pod: str) -> Act:
    """Let a pod fail that many times, and run again after each failure but the last."""

    def act(cluster: object) -> None:
        for time in range(times):
            if time:
                in_order(wait(60), run_all)(cluster)
            end(1, pod)(cluster)

    return act


# --- the table of phases -----------------------------------------------------------------------------------

_RUNNING: Final[Expected] = {"phase": "Running", "reason": "PodsReady"}

PHASES: Final = {
    "a new job is Pending": Case(FULL, NEW | {"phases": ["Pending"], "reason": "Waiting", "score": 0.0}),
    "each role is created once the roles before it are ready": Case(
        FULL,
        NEW,
        (
            (allocate(), {"phase": "Creating", "pods": [MASTER], "service": True, "started": True}),
            (run(), {"phase": "Creating", "pods": [MASTER, *PSERVERS]}),
            (run("j-pserver-1"), {"phase": "Creating", "pods": [MASTER, *PSERVERS]}),
            (run(), {"phase": "Creating", "pods": ALL}),
            (run("j-trainer-1"), {"phase": "Creating", "ready": {"master": 1, "pserver": 2, "trainer": 1}}),
            (run(), _RUNNING | {"ready": {"master": 1, "pserver": 2, "trainer": 2}, "score": 0.0}),
        ),
    ),
    "trainers alone are created at once": Case(
        trainingjob(), NEW, ((allocate(trainer=4), {"pods": trainers(0, 1, 2, 3), "score": 1.0}),)
    ),
    "the pods of an optimistic job are created before there is room": Case(
        trainingjob(pservers=1),
        NEW,
        (
            (want(), {"phase": "Creating", "pods": ["j-pserver-0"]}),
            (run(), {"pods": ["j-pserver-0", *trainers(0, 1)], "running": ["j-pserver-0"]}),
            (run(), _RUNNING),
        ),
    ),
    "the lowest free instances are added to those with nodes": Case(
        trainingjob(),
        NEW,
        (
            (in_order(allocate(trainer=4), release("j-trainer-1", "j-trainer-2")), {"pods": trainers(0, 3)}),
            (want(trainer=3), {"pods": trainers(0, 1, 3)}),
        ),
    ),
    "it grows by the lowest free instances": Case(
        FULL,
        NEW,
        (
            (START, _RUNNING | {"score": 0.0}),
            (
                allocate(trainer=3),
                {"phase": "Scaling", "reason": "PodsMissing", "pods": [*ALL, "j-trainer-2"], "score": 0.5},
            ),
            (run(), _RUNNING | {"ready": {"master": 1, "pserver": 2, "trainer": 3}}),
        ),
    ),
    "trainers that are taken away have neither failed nor succeeded": Case(
        trainingjob(),
        NEW,
        (
            (in_order(allocate(trainer=4), run_all), _RUNNING | {"score": 1.0}),
            (
                take_away(*trainers(3)),
                {"phase": "Scaling", "reason": "PodsSurplus", "running": trainers(0, 1, 2), "score": 0.5},
            ),
            (finish(0), _RUNNING | {"pods": trainers(0, 1, 2), "failures": {}, "succeeded": {}}),
            (
                in_order(take_away(*trainers(2)), finish(1)),
                _RUNNING | {"failures": {}, "pods": trainers(0, 1)},
            ),
        ),
    ),
    "a bound surplus pod is left to the scheduler": Case(
        trainingjob(),
        NEW,
        (
            (in_order(allocate(trainer=3), run_all), _RUNNING),
            (release(*trainers(2)), {"phase": "Scaling", "running": trainers(0, 1, 2)}),
            (delete(*trainers(2)), {"phase": "Scaling", "running": trainers(0, 1)}),
            (finish(), _RUNNING | {"pods": trainers(0, 1)}),
        ),
    ),
    "an unbound surplus pod is deleted": Case(
        trainingjob(),
        NEW,
        (
            (want(trainer=4), {"pods": trainers(0, 1, 2, 3)}),
            (want(trainer=2), {"phase": "Creating", "pods": trainers(0, 1)}),
        ),
    ),
    "a job that was evicted as a whole waits, and starts again": Case(
        FULL,
        NEW,
        (
            (START, _RUNNING),
            (take_away(*ALL), {"phase": "Pending", "reason": "Evicted", "pods": ALL, "running": []}),
            (allocate(), {"phase": "Pending", "running": [], "created": 5}),
            (finish(), {"phase": "Creating", "pods": [MASTER], "created": 6, "failures": {}}),
            (run_all, _RUNNING | {"created": 10}),
        ),
    ),
    "a job that was evicted as a whole has not succeeded": Case(
        trainingjob(),
        NEW,
        (
            (in_order(START, end(0, *trainers(0))), _RUNNING | {"succeeded": {"trainer": 1}}),
            (take_away(*trainers(1)), {"phase": "Pending", "completed": {"trainer": "0"}}),
            (in_order(finish(), allocate()), {"phase": "Creating", "created": 3}),
            (
                in_order(run_all, end(0, *trainers(1))),
                {"phase": "Succeeded", "completed": {"trainer": "0,1"}},
            ),
        ),
    ),
    "a pod that is deleted by hand is recreated once it has stopped": Case(
        trainingjob(),
        NEW,
        (
            (START, _RUNNING),
            (
                delete(*trainers(1)),
                {"phase": "Scaling", "reason": "PodDisrupted", "running": trainers(0), "created": 2},
            ),
            (finish(0), {"phase": "Scaling", "pods": trainers(0, 1), "created": 3, "failures": {}}),
            (run(), _RUNNING | {"completed": {}}),
        ),
    ),
    "a trainer above the minimum whose node is lost comes back as growth": Case(
        trainingjob(),
        NEW,
        (
            (in_order(allocate(trainer=3), run_all), _RUNNING),
            (
                in_order(release(*trainers(2)), lose(*trainers(2))),
                {"phase": "Running", "pods": trainers(0, 1), "failures": {}},
            ),
            (allocate(trainer=3), {"phase": "Scaling", "pods": trainers(0, 1, 2)}),
        ),
    ),
    "a pod of the minimum whose node is lost is recreated at once": Case(
        FULL,
        NEW,
        (
            (START, _RUNNING),
            (
                lose(*PSERVERS[:1]),
                {"phase": "Scaling", "created": 6, "running": [MASTER, "j-pserver-1", *trainers(0, 1)]},
            ),
            (run(), _RUNNING),
        ),
    ),
    "a parameter server that failed is recreated after its back-off, and trainers keep running": Case(
        FULL,
        NEW,
        (
            (START, _RUNNING),
            (
                end(7, "j-pserver-0"),
                {
                    "phase": "Scaling",
                    "reason": "PodFailed",
                    "message": "Pod failed: j-pserver-0: exit 7",
                    "running": [MASTER, "j-pserver-1", *trainers(0, 1)],
                    "failures": {"pserver": 1},
                    "created": 5,
                },
            ),
            (wait(1), {"phase": "Scaling", "created": 6}),
            (run(), _RUNNING | {"failures": {"pserver": 1}}),
        ),
    ),
    "a pod that fails while the job is created is named": Case(
        FULL,
        NEW,
        (
            (in_order(allocate(), lambda cluster: cluster.settle(), run()), {"phase": "Creating"}),
            (
                end(128, MASTER),
                {"phase": "Creating", "reason": "PodFailed", "message": "Pod failed: j-master-0: exit 128"},
            ),
            (in_order(wait(1), run_all), _RUNNING),
        ),
    ),
    "master and parameter servers are recreated without limit": Case(
        FULL,
        NEW,
        (
            (START, _RUNNING),
            (fail_again(7, MASTER), {"phase": "Scaling", "failures": {"master": 7}}),
            (
                in_order(wait(60), run_all, fail_again(7, PSERVERS[0])),
                {"failures": {"master": 7, "pserver": 7}},
            ),
            (in_order(wait(60), run_all), _RUNNING | {"created": 19}),
        ),
    ),
    "a trainer is recreated only while the master and all parameter servers are ready": Case(
        FULL,
        NEW,
        (
            (START, _RUNNING),
            (
                in_order(end(1, MASTER), delete(*trainers(0)), finish()),
                {"created": 6, "pods": [*ALL[:-2], *trainers(1)]},
            ),
            (run(), {"phase": "Scaling", "created": 7}),
            (run(), _RUNNING),
        ),
    ),
    "a master or parameter server that succeeded is not started again": Case(
        FULL,
        NEW,
        (
            (START, _RUNNING),
            (
                end(0, MASTER, PSERVERS[0]),
                _RUNNING | {"completed": {"master": "0", "pserver": "0"}, "created": 5},
            ),
            (in_order(delete(*trainers(0)), finish()), {"phase": "Scaling", "created": 6}),
        ),
    ),
    "a trainer that succeeded is not started again, whatever happens to its pod": Case(
        trainingjob(),
        NEW,
        (
            (START, _RUNNING),
            (
                end(0, *trainers(1)),
                _RUNNING
                | {"ready": {"trainer": 1}, "succeeded": {"trainer": 1}, "completed": {"trainer": "1"}},
            ),
            (delete(*trainers(1)), _RUNNING | {"pods": trainers(0), "created": 2}),
        ),
    ),
    "a trainer that succeeded needs no node, and counts towards the desired number": Case(
        trainingjob(),
        NEW,
        (
            (in_order(allocate(trainer=4), run_all, end(0, *trainers(3))), _RUNNING),
            (in_order(release(*trainers(3)), want(trainer=4)), _RUNNING | {"created": 4}),
            (in_order(take_away(*trainers(1, 2)), finish()), _RUNNING | {"running": trainers(0)}),
        ),
    ),
    "a trainer that succeeded while it was surplus is completed": Case(
        trainingjob(),
        NEW,
        (
            (in_order(allocate(trainer=3), run_all), _RUNNING),
            (in_order(release(*trainers(2)), end(0, *trainers(2))), {"completed": {"trainer": "2"}}),
        ),
    ),
    "a job whose image cannot be pulled says so": Case(
        trainingjob(),
        NEW,
        (
            (
                in_order(allocate(), run_all, delete(*trainers(0)), finish()),
                {"phase": "Scaling", "reason": "PodDisrupted"},
            ),
            (
                fail_image("j-trainer-0", "ErrImagePull"),
                {"reason": "ErrImagePull", "message": "Pod j-trainer-0: no such image"},
            ),
            (run(), _RUNNING),
        ),
    ),
    "trainers wait for the parameter servers that come with them": Case(
        trainingjob(pserver={"min-instance": 1, "max-instance": 2, "scaleWithTrainers": True}),
        NEW,
        (
            (START, _RUNNING),
            (allocate(trainer=4, pserver=2), {"phase": "Scaling", "created": 4}),
            (run(), {"created": 6}),
            (run(), _RUNNING | {"score": 1.0}),
        ),
    ),
}

# --- ends of jobs ------------------------------------------------------------------------------------------

_FAILED: Final[Expected] = {"phase": "Failed", "ready": {}, "service": False}
_SUCCEEDED: Final[Expected] = {
    "phase": "Succeeded",
    "ready": {},
    "service": False,
    "reason": "TrainersSucceeded",
}

ENDS: Final = {
    "one failed trainer ends a job": Case(
        FULL,
        NEW,
        (
            (START, _RUNNING),
            (
                end(3, *trainers(1)),
                _FAILED
                | {
                    "reason": "TrainerFailed",
                    "message": "Trainer failed: j-trainer-1: exit 3",
                    "failures": {"trainer": 1},
                    "running": [],
                },
            ),
            (finish(), {"pods": trainers(1)}),
        ),
    ),
    "all trainers have to succeed": Case(
        FULL,
        NEW,
        (
            (START, _RUNNING),
            (end(0, *trainers(0)), _RUNNING),
            (end(0, *trainers(1)), _SUCCEEDED | {"succeeded": {"trainer": 2}, "running": []}),
            (finish(), {"pods": trainers(0, 1), "failures": {}}),
        ),
    ),
    "a job ends from any phase": Case(
        trainingjob(),
        NEW,
        ((in_order(allocate(), lambda c: c.settle(), end(0, *trainers(0, 1))), _SUCCEEDED),),
    ),
    "a finished job stays finished": Case(
        trainingjob(),
        NEW,
        (
            (in_order(START, end(0, *trainers(0, 1))), _SUCCEEDED | {"created": 2}),
            (in_order(delete(*trainers(0)), allocate(trainer=4)), _SUCCEEDED | {"created": 2}),
            (edit(suspend=True), _SUCCEEDED | {"created": 2}),
        ),
    ),
    "a finished job is deleted after its time to live": Case(
        trainingjob(ttlSecondsAfterFinished=60),
        NEW,
        (
            (in_order(START, end(1, *trainers(0))), _FAILED | {"deleted": False}),
            (wait(59), {"deleted": False}),
            (wait(1), {"deleted": True}),
        ),
    ),
    **{
        f"a trainer that {what} has not failed": Case(
            trainingjob(), NEW, ((in_order(START, act), {"phase": "Scaling", "failures": {}}),)
        )
        for what, act in {
            "ended with 143": end(143, *trainers(0)),
            "was refused by its node": end(1, *trainers(0), reason="OutOfcpu"),
            "was evicted by its kubelet": end(1, *trainers(0), reason="Evicted"),
            "was taken away and ended with 1": in_order(take_away(*trainers(0)), finish(1), allocate()),
            "was deleted and ended with 0": in_order(delete(*trainers(0)), finish(0)),
        }.items()
    },
    "a fault-tolerant job replaces a failed trainer after its back-off": Case(
        FAULT_TOLERANT,
        NEW,
        (
            (START, _RUNNING),
            (end(1, *trainers(0)), {"phase": "Scaling", "failures": {"trainer": 1}, "created": 2}),
            (wait(1), {"phase": "Scaling", "created": 3, "abandoned": {}}),
            (run(), _RUNNING),
            (in_order(end(1, *trainers(0)), wait(2)), {"created": 4, "failures": {"trainer": 2}}),
        ),
    ),
    "a fault-tolerant job fails when all its trainers have failed": Case(
        FAULT_TOLERANT,
        NEW,
        (
            (START, _RUNNING),
            (in_order(wait(600), end(1, *trainers(0))), {"phase": "Scaling"}),
            (
                lambda cluster: cluster.end("j-trainer-1", 2),
                _FAILED
                | {
                    "reason": "AllTrainersFailed",
                    "message": "All trainers failed: j-trainer-1: exit 2",
                    "failures": {"trainer": 2},
                },
            ),
        ),
    ),
    "a fault-tolerant job goes on while a trainer is live": Case(
        FAULT_TOLERANT,
        NEW,
        (
            (START, _RUNNING),
            (in_order(end(1, *trainers(0)), wait(1)), {"created": 3}),
            (end(1, *trainers(1)), {"phase": "Scaling", "failures": {"trainer": 2}}),
        ),
    ),
    "a fault-tolerant job has not failed while a trainer terminates": Case(
        FAULT_TOLERANT,
        NEW,
        (
            (START, _RUNNING),
            (in_order(delete(*trainers(0)), wait(5), end(1, *trainers(1))), {"phase": "Scaling"}),
        ),
    ),
    "a fault-tolerant job has not failed when it shrinks to a trainer that is to be recreated": Case(
        FAULT_TOLERANT | trainingjob(1, 2),
        NEW,
        (
            (in_order(allocate(trainer=2), run_all), _RUNNING),
            (end(1, *trainers(0)), {"phase": "Scaling"}),
            (in_order(take_away(*trainers(1)), finish()), {"phase": "Scaling", "pods": trainers(0)}),
            (in_order(wait(1), run_all), _RUNNING),
        ),
    ),
    "once a trainer has succeeded, failed ones are not replaced": Case(
        FAULT_TOLERANT | trainingjob(3, 3),
        NEW,
        (
            (START, _RUNNING),
            (end(0, *trainers(0)), _RUNNING | {"completed": {"trainer": "0"}}),
            (end(1, *trainers(1)), _RUNNING | {"abandoned": {"trainer": "1"}, "failures": {"trainer": 1}}),
            (wait(60), _RUNNING | {"created": 3, "pods": trainers(0, 1, 2)}),
            (end(1, *trainers(2)), _SUCCEEDED | {"failures": {"trainer": 2}, "created": 3}),
        ),
    ),
    "a trainer that failed before the job was evicted ends the job": Case(
        trainingjob(),
        NEW,
        (
            (START, _RUNNING),
            (
                in_order(end(3, *trainers(0)), release(*trainers(0, 1))),
                _FAILED | {"reason": "TrainerFailed", "failures": {"trainer": 1}},
            ),
        ),
    ),
    "a fault-tolerant job that was evicted when a trainer had failed waits for nodes": Case(
        FAULT_TOLERANT,
        NEW,
        (
            (START, _RUNNING),
            (
                in_order(end(1, *trainers(0)), release(*trainers(0, 1))),
                {"phase": "Pending", "reason": "Evicted", "failures": {"trainer": 1}},
            ),
            (in_order(lose(*trainers(1)), allocate(), run_all), _RUNNING | {"failures": {"trainer": 1}}),
        ),
    ),
    "a failure that the scheduler sees first is counted all the same": Case(
        FAULT_TOLERANT | trainingjob(3, 3),
        NEW,
        (
            (in_order(START, end(0, *trainers(0))), _RUNNING),
            (
                in_order(end(1, *trainers(1)), release(*trainers(1))),
                _RUNNING | {"abandoned": {"trainer": "1"}, "failures": {"trainer": 1}, "created": 3},
            ),
            (in_order(take_away(*trainers(2)), finish(1)), _SUCCEEDED | {"failures": {"trainer": 1}}),
        ),
    ),
    "a trainer in back-off is given up when another one succeeds": Case(
        FAULT_TOLERANT,
        NEW,
        (
            (in_order(START, end(1, *trainers(0))), {"phase": "Scaling"}),
            (
                lambda cluster: cluster.end("j-trainer-1", 0),
                _SUCCEEDED | {"created": 2, "abandoned": {"trainer": "0"}, "pods": trainers(0, 1)},
            ),
        ),
    ),
    "once a trainer has succeeded, disrupted ones are not replaced": Case(
        FAULT_TOLERANT | trainingjob(3, 3),
        NEW,
        (
            (in_order(START, end(0, *trainers(0)), delete(*trainers(1))), {"phase": "Scaling", "created": 3}),
            (finish(), _RUNNING | {"created": 3, "abandoned": {"trainer": "1"}, "failures": {}}),
        ),
    ),
    "once a trainer has succeeded, no other is started": Case(
        FAULT_TOLERANT,
        NEW,
        (
            (in_order(START, end(0, *trainers(0))), _RUNNING),
            (allocate(trainer=4), _RUNNING | {"created": 2, "abandoned": {}}),
        ),
    ),
    "a fault-tolerant job succeeds once no trainer terminates any more": Case(
        FULL | FAULT_TOLERANT,
        NEW,
        (
            (in_order(START, end(0, *trainers(0)), take_away(*trainers(1))), {"phase": "Scaling"}),
            (finish(1), _SUCCEEDED | {"failures": {}}),
        ),
    ),
    "success and failure at the same time are a success": Case(
        FAULT_TOLERANT,
        NEW,
        (
            (
                in_order(START, end(0, *trainers(0)), end(1, *trainers(1))),
                _SUCCEEDED | {"failures": {"trainer": 1}},
            ),
        ),
    ),
}

# --- suspension --------------------------------------------------------------------------------------------

_SUSPENDED: Final[Expected] = {"phase": "Pending", "reason": "Suspended", "started": False}

SUSPENSION: Final = {
    "a suspended job stops all its pods, and starts like a new one": Case(
        FULL,
        NEW,
        (
            (START, _RUNNING),
            (edit(suspend=True), _SUSPENDED | {"running": [], "pods": ALL, "ready": {}}),
            (in_order(finish(), take_away(*ALL)), _SUSPENDED | {"pods": [], "failures": {}, "created": 5}),
            (edit(suspend=False), {"phase": "Pending", "reason": "Waiting"}),
            (START, _RUNNING | {"created": 10, "started": True}),
        ),
    ),
    "a suspended job gets no pods": Case(
        trainingjob(suspend=True), _SUSPENDED | {"pods": []}, ((allocate(), _SUSPENDED | {"pods": []}),)
    ),
    "what was completed before a suspension stays completed": Case(
        trainingjob(),
        NEW,
        (
            (
                in_order(START, end(0, *trainers(1)), edit(suspend=True)),
                _SUSPENDED | {"completed": {"trainer": "1"}},
            ),
            (in_order(finish(), edit(suspend=False), run_all), _RUNNING | {"created": 3}),
            (end(0, *trainers(0)), _SUCCEEDED),
        ),
    ),
    "the end of a job comes before its suspension": Case(
        trainingjob(), NEW, ((in_order(START, end(1, *trainers(1)), edit(suspend=True)), _FAILED),)
    ),
    "a trainer that failed before a suspension does not fail the job that is resumed": Case(
        FAULT_TOLERANT | trainingjob(1, 2),
        NEW,
        (
            (in_order(allocate(trainer=2), run_all, end(1, *trainers(0)), edit(suspend=True)), _SUSPENDED),
            (in_order(finish(), take_away(*trainers(1))), _SUSPENDED | {"pods": trainers(0)}),
            (edit(suspend=False), {"phase": "Pending", "failures": {"trainer": 1}}),
            (in_order(wait(60), run_all), _RUNNING),
        ),
    ),
}

CASES: Final = PHASES | ENDS | SUSPENSION
