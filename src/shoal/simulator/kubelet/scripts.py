"""Pod scripts: what happens to a pod over time, from the moment that its node observes it.

    PodScript()                                     it runs, and is ready, without end
    runs_for(20)                                    ... for 20 seconds, and succeeds
    runs_for(20, exit_code=1, start_delay=5)        it starts after 5 seconds, and fails after 20 more
    PodScript(steps=(ScriptStep(10, ready=False), ScriptStep(30), ScriptStep(math.inf, ready=False)))
    NEVER_STARTS

The state of a pod is a function of its script and the time since its start, so that it is the same whenever,
and however often, it is computed.

`random_scripts` draws scripts at random where a test does not define them for each pod.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from shoal.cluster.resources import Object

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]

RESTART_DELAY: Final = 1.0
"""Seconds between the end of a container and its restart."""


@dataclass(frozen=True)
class ScriptStep:
    """The state of a running pod for some seconds; `restarts` is its restart count by then."""

    seconds: float = math.inf
    ready: bool = True
    restarts: int = 0


@dataclass(frozen=True)
class PodScript:
    """A pod starts, goes through its steps, and ends with an exit code. Times in seconds.

    Its containers are restarted if its restart policy says so. `shutdown` is how long it takes to end after
    it was deleted, if its grace period is not over before.
    """

    start_delay: float = 0.0
    steps: tuple[ScriptStep, ...] = (ScriptStep(),)
    exit_code: int = 0
    shutdown: float = 0.0


ScriptSource = Callable[[Object], PodScript]
"""Returns the script of a pod; called once, when its node observes it (and again after a restart)."""


@dataclass(frozen=True)
class PodState:
    """The state of a pod, and for how many seconds it lasts."""

    phase: Phase
    lasts: float
    ready: bool = False
    restarts: int = 0
    exit_code: int | None = None


NEVER_STARTS: Final = PodScript(start_delay=math.inf)


def runs_for(seconds: float, *, exit_code: int = 0, start_delay: float = 0.0) -> PodScript:
    """Return a script of a pod that starts, runs, and ends."""
    return PodScript(start_delay=start_delay, steps=(ScriptStep(seconds),), exit_code=exit_code)


def state_after(script: PodScript, elapsed: float, restart_policy: str = "Always") -> PodState:
    """Return the state of a pod some seconds after its start."""
    running = elapsed - script.start_delay
    if running < 0:
        return PodState("Pending", -running)
    length = sum(step.seconds for step in script.steps)
    if running < length:
        return _state_in_steps(script.steps, running, 0)
    if not _restarts(script, restart_policy):
        return PodState("Failed" if script.exit_code else "Succeeded", math.inf, exit_code=script.exit_code)
    return _state_after_restarts(script, running, length)


def _restarts(script: PodScript, restart_policy: str) -> bool:
    return restart_policy == "Always" or (restart_policy == "OnFailure" and script.exit_code != 0)


def _state_after_restarts(script: PodScript, running: float, length: float) -> PodState:
    rounds, within = divmod(running, length + RESTART_DELAY)
    if within < length:
        return _state_in_steps(script.steps, within, int(rounds))
    return PodState(
        "Running", length + RESTART_DELAY - within, restarts=int(rounds), exit_code=script.exit_code
    )


def _state_in_steps(steps: tuple[ScriptStep, ...], running: float, rounds: int) -> PodState:
    """Return the state in the current step, after some rounds of all steps."""
    for step in steps:
        if running < step.seconds:
            restarts = step.restarts + rounds * (1 + steps[-1].restarts)
            return PodState("Running", step.seconds - running, ready=step.ready, restarts=restarts)
        running -= step.seconds
    raise ValueError("the steps are over")


class ScriptDistribution(msgspec.Struct, frozen=True, kw_only=True):
    """The distribution of random scripts. Times are averages in seconds; run times are exponential."""

    run_time: float = 300.0
    start_delay: float = 2.0
    shutdown: float = 1.0
    failing: float = 0.05
    """The part of all pods that ends with an error."""
    unready: float = 0.05
    """The part of all pods that is not ready in the middle third of its run time."""


def random_scripts(seed: str, distribution: ScriptDistribution | None = None) -> ScriptSource:
    """Return a source of random scripts; a pod gets the same one whenever it is asked for."""

    def draw(pod: Object) -> PodScript:
        rng = random.Random(f"{seed} {pod['metadata']['uid']}")  # noqa: S311 - it must be reproducible
        return _random_script(rng, distribution or ScriptDistribution())

    return draw


def _random_script(rng: random.Random, distribution: ScriptDistribution) -> PodScript:
    length = rng.expovariate(1 / distribution.run_time)
    steps: tuple[ScriptStep, ...] = (ScriptStep(length),)
    if rng.random() < distribution.unready:
        steps = (ScriptStep(length / 3), ScriptStep(length / 3, ready=False), ScriptStep(length / 3))
    return PodScript(
        start_delay=rng.uniform(0, 2 * distribution.start_delay),
        steps=steps,
        exit_code=int(rng.random() < distribution.failing),
        shutdown=rng.uniform(0, 2 * distribution.shutdown),
    )
