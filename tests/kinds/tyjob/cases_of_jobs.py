"""Cases of TYJobs that start, never can, or are edited."""

from typing import Final

from tests.kinds.job_cases import Case, edit, end, fail_image, finish, in_order, lose, run, wait
from tests.kinds.tyjob.acts import allocate, report, resize, start
from tests.kinds.tyjob.cluster import LEADER, actors, tyjob
from tests.kinds.tyjob.outcomes import ADDRESS, ALL, FAILED, PENDING, RUNNING, RUNS, SUCCEEDED, TERMINATED

STAGE_CASES: Final = {
    "a new job is Pending, with its number of workers": Case(tyjob(), PENDING | {"stages": ["Pending"]}),
    "it starts with the leader, the workers follow with its address, and it succeeds with the leader": Case(
        tyjob(),
        PENDING,
        (
            (allocate(), {"stage": "Starting", "pods": [LEADER], "leader": ADDRESS, "service": True}),
            (run(), {"stage": "Starting", "pods": ALL, "ready": "0/2"}),
            (run(), RUNS),
            (
                end(0, LEADER),
                SUCCEEDED | {"reason": "LeaderSucceeded", "created": 3, "completed": {"learner": "0"}},
            ),
        ),
    ),
    "without nodes for the minimum no pod is created": Case(
        tyjob(3, least=2),
        {"stage": "Pending"},
        (
            (allocate(LEADER, *actors(0)), {"stage": "Pending", "created": 0}),
            (allocate(*actors(2)), {"stage": "Starting", "created": 1}),
        ),
    ),
    "the leader succeeds while the job is Starting": Case(
        tyjob(), PENDING, ((start(LEADER, *actors(0)), {"created": 2}), (end(0, LEADER), SUCCEEDED))
    ),
    "with the minimum of workers it runs, and later workers come as they get nodes": Case(
        tyjob(3, least=2),
        {},
        (
            (start(LEADER, *actors(0, 1)), {"stage": "Running", "ready": "2/3", "created": 3}),
            (allocate(*actors(2)), {"stage": "Running", "created": 4}),
            (run(), {"stage": "Running", "stages": RUNNING, "ready": "3/3"}),
        ),
    ),
    "with less than the minimum ready it stays Starting": Case(
        tyjob(3, least=2),
        {},
        (
            (allocate(), {"pods": [LEADER]}),
            (run(), {"created": 4}),
            (run(*actors(1)), {"stage": "Starting", "ready": "1/3"}),
            (run(*actors(0)), {"stage": "Running", "ready": "2/3"}),
        ),
    ),
}

NEVER_FITS: Final = report("ScheduledFailed", "NeverFits", "leader: needs 9 cpu, node n1 has 4")

INFEASIBLE_CASES: Final = {
    "a job that never fits fails after infeasibleSeconds": Case(
        tyjob(),
        {},
        (
            (NEVER_FITS, PENDING),
            (wait(59), PENDING),
            (
                wait(1),
                FAILED
                | {"reason": "NeverFits", "message": "leader: needs 9 cpu, node n1 has 4", "created": 0},
            ),
        ),
    ),
    "a job that lacks room now waits": Case(
        tyjob(), {}, ((report("Unscheduled", "NoRoom"), PENDING), (wait(3600), PENDING))
    ),
    "a job that lost its nodes and never fits any more fails too": Case(
        tyjob(2, least=2),
        {},
        (
            (start(), RUNS),
            (in_order(lose(*actors(1)), NEVER_FITS), {"stage": "Rescheduling"}),
            (wait(60), FAILED | {"reason": "NeverFits"}),
        ),
    ),
    "a job that runs does not fail because of an old report": Case(
        tyjob(), {}, ((in_order(NEVER_FITS, start()), RUNS), (wait(60), RUNS))
    ),
    **{
        f"{reason} of the leader fails the job at once": Case(
            tyjob(),
            {},
            (
                (allocate(), {"stage": "Starting"}),
                (
                    fail_image(LEADER, reason),
                    FAILED | {"reason": reason, "message": "Pod j-learner: no such image"},
                ),
            ),
        )
        for reason in ("InvalidImageName", "ErrImageNeverPull")
    },
    **{
        f"{reason} of the leader fails the job after infeasibleSeconds": Case(
            tyjob(),
            {},
            (
                (allocate(), {"stage": "Starting"}),
                (fail_image(LEADER, reason), {"stage": "Starting", "reason": reason, "pods": [LEADER]}),
                (wait(59), {"stage": "Starting"}),
                (wait(1), FAILED | {"reason": reason}),
            ),
        )
        for reason in ("ErrImagePull", "ImagePullBackOff")
    },
    "a registry that is unavailable for a short time does no harm": Case(
        tyjob(),
        {},
        (
            (allocate(), {}),
            (fail_image(LEADER, "ImagePullBackOff"), {"reason": "ImagePullBackOff"}),
            (in_order(wait(50), run()), {"stage": "Starting", "reason": "PodsCreated", "pods": ALL}),
            (wait(60), {"stage": "Starting"}),
        ),
    ),
    "an image of a worker that cannot be pulled is reported, and the job waits": Case(
        tyjob(),
        {},
        (
            (allocate(), {"stage": "Starting"}),
            (run(), {"stage": "Starting", "pods": ALL}),
            (
                fail_image("j-actor-0", "InvalidImageName"),
                {"stage": "Starting", "reason": "InvalidImageName"},
            ),
            (wait(3600), {"stage": "Starting"}),
        ),
    ),
}

SPEC_CASES: Final = {
    "terminating ends a Pending job before it has any pod": Case(
        tyjob(), PENDING, ((edit(terminating=True), TERMINATED | {"created": 0}),)
    ),
    "a job that is created as terminating never starts": Case(
        tyjob(terminating=True), TERMINATED | {"created": 0, "stages": ["Succeeded"]}
    ),
    "terminating ends a Starting job": Case(
        tyjob(),
        PENDING,
        ((allocate(), {"stage": "Starting"}), (edit(terminating=True), TERMINATED | {"created": 1})),
    ),
    "terminating ends a Running job": Case(
        tyjob(), {}, ((start(), RUNS), (edit(terminating=True), TERMINATED), (finish(), {"pods": []}))
    ),
    "terminating ends a Rescheduling job": Case(
        tyjob(2, least=2),
        {},
        (
            (start(), RUNS),
            (lose(*actors(0)), {"stage": "Rescheduling"}),
            (edit(terminating=True), TERMINATED),
        ),
    ),
    "terminating ends a suspended job": Case(
        tyjob(suspend=True), {"stage": "Pending"}, ((edit(terminating=True), TERMINATED),)
    ),
    "terminating comes before the failure of the leader": Case(
        tyjob(restartLimit=0),
        {},
        ((start(), RUNS), (in_order(end(1, LEADER), edit(terminating=True)), TERMINATED)),
    ),
    "a suspended job stops its pods, and starts like a new one": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (
                in_order(wait(5), edit(suspend=True)),
                {"stage": "Pending", "reason": "Suspended", "running": []},
            ),
            (finish(), {"pods": [], "restarts": {}, "created": 3}),
            (lambda cluster: cluster.status["allocations"].clear(), {"stage": "Pending"}),
            (edit(suspend=False), {"stage": "Pending", "reason": "Waiting", "created": 3}),
            (start(), {"stage": "Running", "stages": [*RUNNING, *RUNNING], "created": 6, "restarts": {}}),
        ),
    ),
    "a job that is resumed waits for the pods from before": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (in_order(wait(5), edit(suspend=True)), {"stage": "Pending"}),
            (edit(suspend=False), {"stage": "Pending", "created": 3}),
            (finish(), {"stage": "Starting", "created": 4, "restarts": {}}),
        ),
    ),
    "a worker that succeeded before a suspension does not run again": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (end(0, *actors(0)), {"completed": {"actor": "0"}}),
            (in_order(wait(5), edit(suspend=True)), {"ready": "1/2"}),
            (finish(), {"pods": actors(0)}),
            (in_order(edit(suspend=False), start()), {"stage": "Running", "ready": "2/2", "created": 5}),
        ),
    ),
    "a leader that succeeded before its job was suspended ends the job": Case(
        tyjob(),
        {},
        ((start(), RUNS), (in_order(end(0, LEADER), edit(suspend=True)), SUCCEEDED)),
    ),
    "fewer workers: the highest are deleted, and the stage stays": Case(
        tyjob(3),
        {},
        (
            (start(), {"stage": "Running", "ready": "3/3"}),
            (resize(1), {"stage": "Running", "ready": "1/1", "running": ["j-actor-0", LEADER]}),
            (finish(), {"pods": ["j-actor-0", LEADER], "restarts": {}, "stages": RUNNING}),
        ),
    ),
    "more workers: they come as they get nodes, and the stage stays": Case(
        tyjob(1),
        {},
        (
            (start(), {"ready": "1/1"}),
            (resize(3), {"stage": "Running", "ready": "1/3", "created": 2}),
            (allocate(), {"stage": "Running", "created": 4}),
            (run(), {"ready": "3/3", "stages": RUNNING}),
        ),
    ),
    "a minimum that is raised above the workers that are left ends the job": Case(
        tyjob(3, restartLimit=0),
        {},
        (
            (start(), {"stage": "Running"}),
            (end(1, *actors(1)), {"stage": "Running"}),
            (edit(minWorkersNum=3), {"stage": "Failed", "reason": "TooFewWorkers"}),
        ),
    ),
    "a minimum that is raised changes no stage": Case(
        tyjob(3),
        {},
        (
            (start(LEADER, *actors(0)), {"stage": "Running", "ready": "1/3"}),
            (edit(minWorkersNum=3), {"stage": "Running"}),
        ),
    ),
}
