"""Lives of pods, moment by moment."""

import math

from shoal.simulator.kubelet.lives import NEVER_STARTS, Life, Moment, Step, moment_of, runs_for
from tests.conformance.cases import cases

FOREVER = math.inf
STEPS = Life(
    creating=5, steps=(Step(10, ready=False), Step(20), Step(10, ready=False, restarts=2)), exit_code=3
)

MOMENTS: list[tuple[str, Life, str, float, Moment]] = [
    ("it is there at once", Life(), "Always", 0, Moment("Running", FOREVER, ready=True)),
    ("it is still there", Life(), "Always", 1e9, Moment("Running", FOREVER, ready=True)),
    ("it waits to be created", runs_for(9, creating=5), "Never", 2, Moment("Pending", 3)),
    ("it has just been created", runs_for(9, creating=5), "Never", 5, Moment("Running", 9, ready=True)),
    ("it never starts", NEVER_STARTS, "Never", 1e9, Moment("Pending", FOREVER)),
    ("it is not yet ready", STEPS, "Never", 6, Moment("Running", 9)),
    ("it is ready", STEPS, "Never", 15, Moment("Running", 20, ready=True)),
    ("it has been restarted by its script", STEPS, "Never", 40, Moment("Running", 5, restarts=2)),
    ("it failed", STEPS, "Never", 45, Moment("Failed", FOREVER, exit_code=3)),
    ("it succeeded", runs_for(9), "Never", 9, Moment("Succeeded", FOREVER, exit_code=0)),
    (
        "success ends it on failure only",
        runs_for(9),
        "OnFailure",
        9,
        Moment("Succeeded", FOREVER, exit_code=0),
    ),
    ("it waits to be restarted", runs_for(9), "Always", 9.5, Moment("Running", 0.5, exit_code=0)),
    ("it runs again", runs_for(9), "Always", 10, Moment("Running", 9, ready=True, restarts=1)),
    (
        "a failure is restarted",
        runs_for(9, exit_code=1),
        "OnFailure",
        25,
        Moment("Running", 4, ready=True, restarts=2),
    ),
]


@cases("life, policy, passed, expected", MOMENTS)
def test_a_moment_of_a_life(life: Life, policy: str, passed: float, expected: Moment) -> None:
    assert moment_of(life, passed, policy) == expected
