"""Cases of TYJobs whose pods end, are disrupted or cannot start."""

from typing import Final

from tests.kinds.job_cases import Case, delete, end, finish, in_order, lose, run, wait
from tests.kinds.tyjob.acts import allocate, fail_again, release, start, take_away
from tests.kinds.tyjob.cluster import LEADER, actors, tyjob
from tests.kinds.tyjob.outcomes import ADDRESS, ALL, FAILED, RUNNING, RUNS

END_CASES: Final = {
    "a leader that fails is started again, and workers keep running": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (
                end(3, LEADER),
                {
                    "stage": "Starting",
                    "reason": "LeaderFailed",
                    "message": "Leader failed: j-learner: exit 3",
                    "restarts": {"learner": 1},
                    "pods": ALL,
                    "running": actors(0, 1),
                    "created": 3,
                },
            ),
            (wait(1), {"stage": "Starting", "created": 4, "running": actors(0, 1)}),
            (run(), {"stage": "Running", "stages": [*RUNNING, "Starting", "Running"], "running": ALL}),
        ),
    ),
    "a leader that fails more often than the limit ends the job": Case(
        tyjob(restartLimit=1),
        {},
        (
            (start(), RUNS),
            (
                fail_again(2, LEADER),
                FAILED
                | {
                    "reason": "LeaderFailed",
                    "message": "Leader failed: j-learner: exit 3; restartLimit is 1",
                    "restarts": {"learner": 2},
                    "created": 4,
                },
            ),
        ),
    ),
    "with limit 0 the first failure of the leader ends the job": Case(
        tyjob(restartLimit=0), {}, ((start(), RUNS), (end(1, LEADER), FAILED | {"created": 3}))
    ),
    "a worker that fails is started again after back-off, and the stage stays": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (
                end(1, *actors(1)),
                {"stage": "Running", "ready": "1/2", "restarts": {"actor-1": 1}, "pods": ALL},
            ),
            (wait(0.5), {"created": 3}),
            (wait(0.5), {"created": 4}),
            (run(), RUNS | {"restarts": {"actor-1": 1}}),
        ),
    ),
    "a worker that fails more often than the limit is abandoned, and its last pod stays for its logs": Case(
        tyjob(restartLimit=1),
        {},
        (
            (start(), RUNS),
            (
                fail_again(2, *actors(0)),
                {
                    "stage": "Running",
                    "failed": {"actor": "0"},
                    "restarts": {"actor-0": 2},
                    "ready": "1/2",
                    "pods": ALL,
                    "created": 4,
                },
            ),
            (wait(3600), {"pods": ALL, "created": 4, "failed": {"actor": "0"}}),
            (
                delete(*actors(0)),
                {"pods": sorted([LEADER, *actors(1)]), "created": 4, "failed": {"actor": "0"}},
            ),
        ),
    ),
    "the limit applies to each worker": Case(
        tyjob(3, restartLimit=1),
        {},
        (
            (start(), {"stage": "Running"}),
            (end(1, *actors(0)), {"failed": {}, "restarts": {"actor-0": 1}}),
            (end(1, *actors(1)), {"failed": {}, "restarts": {"actor-0": 1, "actor-1": 1}}),
        ),
    ),
    "with too few workers left the job fails": Case(
        tyjob(3, least=2, restartLimit=0),
        {},
        (
            (start(), {"stage": "Running"}),
            (end(1, *actors(0)), {"stage": "Running", "failed": {"actor": "0"}}),
            (
                end(2, *actors(2)),
                {
                    "stage": "Failed",
                    "reason": "TooFewWorkers",
                    "message": "1 of 3 workers are left, and minWorkersNum is 2: j-actor-2: exit 2",
                    "failed": {"actor": "0,2"},
                    "running": [],
                },
            ),
        ),
    ),
    "a worker that succeeds counts as ready, and does not run again": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (end(0, *actors(0)), {"stage": "Running", "ready": "2/2", "completed": {"actor": "0"}}),
            (delete(*actors(0)), {"stage": "Running", "ready": "2/2", "created": 3}),
        ),
    ),
    "a leader that succeeds while a worker exceeds its limit ends the job as succeeded": Case(
        tyjob(1, restartLimit=0),
        {},
        (
            (start(), {"stage": "Running"}),
            (
                in_order(end(1, *actors(0)), end(0, LEADER)),
                {"stage": "Succeeded", "reason": "LeaderSucceeded"},
            ),
        ),
    ),
    "a leader that fails within its limit does not hide that too few workers are left": Case(
        tyjob(1, restartLimit=1),
        {},
        (
            (start(), {"stage": "Running"}),
            (end(1, *actors(0)), {"stage": "Running"}),
            (in_order(wait(60), start()), {"stage": "Running"}),
            (in_order(end(1, *actors(0)), end(1, LEADER)), {"stage": "Failed", "reason": "TooFewWorkers"}),
        ),
    ),
}

DISRUPTION_CASES: Final = {
    "a worker that was deleted by hand comes back, and costs nothing": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (
                delete(*actors(1)),
                {"stage": "Rescheduling", "reason": "PodDisrupted", "ready": "1/2", "created": 3},
            ),
            (finish(), {"created": 4, "restarts": {}}),
            (run(), {"stage": "Running", "ready": "2/2", "restarts": {}}),
        ),
    ),
    "a worker that was asked to stop and exits with 0 is not completed": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (delete(*actors(1)), {"stage": "Rescheduling"}),
            (finish(0), {"completed": {}, "created": 4}),
        ),
    ),
    "a worker whose node is lost waits for another node": Case(
        tyjob(2, least=2),
        {},
        (
            (start(), RUNS),
            (lose(*actors(1)), {"stage": "Rescheduling", "created": 3, "restarts": {}}),
            (allocate(*actors(1)), {"stage": "Starting", "created": 4}),
            (run(), {"stage": "Running", "stages": [*RUNNING, "Rescheduling", "Starting", "Running"]}),
        ),
    ),
    "a job that loses a worker above its minimum runs again without it": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (take_away(*actors(1)), {"stage": "Rescheduling"}),
            (
                finish(),
                {"stage": "Running", "stages": [*RUNNING, "Rescheduling", "Running"], "created": 3},
            ),
            (allocate(*actors(1)), {"stage": "Running", "created": 4}),
            (run(), {"stage": "Running", "ready": "2/2"}),
        ),
    ),
    "a job that is evicted as a whole waits in Rescheduling, and starts again": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (take_away(LEADER, *actors(0, 1)), {"stage": "Rescheduling", "leader": ADDRESS}),
            (finish(), {"stage": "Rescheduling", "pods": [], "created": 3, "service": True}),
            (allocate(), {"stage": "Starting", "pods": [LEADER]}),
            (run(), {"pods": ALL}),
            (run(), {"stage": "Running", "restarts": {}}),
        ),
    ),
    "a partly scheduled job whose leader is lost starts again with the leader": Case(
        tyjob(3, least=2),
        {},
        (
            (start(LEADER, *actors(0, 1)), {"stage": "Running"}),
            (lose(LEADER), {"stage": "Rescheduling", "running": actors(0, 1)}),
            (allocate(LEADER), {"stage": "Starting", "created": 4, "running": actors(0, 1)}),
            (run(), {"stage": "Running", "ready": "2/3"}),
        ),
    ),
    "a pod that its node refused comes back after back-off, and costs nothing": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (end(1, *actors(0), reason="OutOfcpu"), {"created": 3, "restarts": {}}),
            (wait(1), {"created": 4, "restarts": {}}),
        ),
    ),
    "a leader whose node is lost before its pod is created waits for another node": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (end(1, LEADER), {"stage": "Starting", "restarts": {"learner": 1}}),
            (
                in_order(release(LEADER), wait(60)),
                {"stage": "Rescheduling", "reason": "NodeLost", "running": actors(0, 1), "created": 3},
            ),
            (allocate(LEADER), {"stage": "Starting", "created": 4}),
            (run(), {"stage": "Running", "restarts": {"learner": 1}}),
        ),
    ),
    "a leader whose node is lost before its pod is bound waits for another node": Case(
        tyjob(),
        {},
        (
            (start(), RUNS),
            (in_order(lose(LEADER), allocate(LEADER)), {"stage": "Starting", "created": 4}),
            (release(LEADER), {"stage": "Rescheduling", "reason": "NodeLost", "created": 4}),
            (allocate(LEADER), {"stage": "Starting", "created": 4}),
            (run(), {"stage": "Running", "ready": "2/2"}),
        ),
    ),
    "a disruption during Starting is Rescheduling": Case(
        tyjob(2, least=2),
        {},
        (
            (allocate(), {"stage": "Starting", "created": 1}),
            (run(), {"stage": "Starting", "created": 3}),
            (run(*actors(0)), {"stage": "Starting", "ready": "1/2"}),
            (lose(*actors(0)), {"stage": "Rescheduling", "stages": ["Pending", "Starting", "Rescheduling"]}),
        ),
    ),
}
