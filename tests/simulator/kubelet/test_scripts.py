"""Pod scripts: the state of a pod over time."""

import math

from shoal.simulator.kubelet.scripts import (
    NEVER_STARTS,
    PodScript,
    PodState,
    ScriptStep,
    runs_for,
    state_after,
)
from tests.conformance.cases import cases

FOREVER = math.inf
STEPS = PodScript(
    start_delay=5,
    steps=(ScriptStep(10, ready=False), ScriptStep(20), ScriptStep(10, ready=False, restarts=2)),
    exit_code=3,
)

STATES: list[tuple[str, PodScript, str, float, PodState]] = [
    ("it runs at once", PodScript(), "Always", 0, PodState("Running", FOREVER, ready=True)),
    ("it still runs", PodScript(), "Always", 1e9, PodState("Running", FOREVER, ready=True)),
    ("it has not started", runs_for(9, start_delay=5), "Never", 2, PodState("Pending", 3)),
    ("it has just started", runs_for(9, start_delay=5), "Never", 5, PodState("Running", 9, ready=True)),
    ("it never starts", NEVER_STARTS, "Never", 1e9, PodState("Pending", FOREVER)),
    ("it is not yet ready", STEPS, "Never", 6, PodState("Running", 9)),
    ("it is ready", STEPS, "Never", 15, PodState("Running", 20, ready=True)),
    ("it has been restarted by its script", STEPS, "Never", 40, PodState("Running", 5, restarts=2)),
    ("it failed", STEPS, "Never", 45, PodState("Failed", FOREVER, exit_code=3)),
    ("it succeeded", runs_for(9), "Never", 9, PodState("Succeeded", FOREVER, exit_code=0)),
    (
        "a success is not restarted with OnFailure",
        runs_for(9),
        "OnFailure",
        9,
        PodState("Succeeded", FOREVER, exit_code=0),
    ),
    ("it waits to be restarted", runs_for(9), "Always", 9.5, PodState("Running", 0.5, exit_code=0)),
    ("it runs again", runs_for(9), "Always", 10, PodState("Running", 9, ready=True, restarts=1)),
    (
        "a failure is restarted",
        runs_for(9, exit_code=1),
        "OnFailure",
        25,
        PodState("Running", 4, ready=True, restarts=2),
    ),
]


@cases("script, policy, elapsed, expected", STATES)
def test_state_after(script: PodScript, policy: str, elapsed: float, expected: PodState) -> None:
    assert state_after(script, elapsed, policy) == expected
