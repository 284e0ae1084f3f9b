"""Lives of pods: what becomes of one, from the moment that its node has it.

    Life()                                                  it runs, and is ready, for ever
    runs_for(20)                                            ... for 20 seconds, and succeeds
    runs_for(20, exit_code=1, creating=5)                   it starts after 5 seconds, and fails after 20 more
    Life(steps=(Step(10, ready=False), Step(30), Step(math.inf, ready=False)))
    NEVER_STARTS

A life is told by how much of it has passed, so that whoever is asked later, or again, says the same.

Lives by dice: how long pods run, and how they end, where nobody says so for each.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from shoal.cluster.resources import Object

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]

RESTART_PAUSE: Final = 1.0
"""Seconds between the end of a container and its next start."""


@dataclass(frozen=True)
class Step:
    """How a pod is for some seconds while it runs; `restarts` is how often it has been restarted by then."""

    seconds: float = math.inf
    ready: bool = True
    restarts: int = 0


@dataclass(frozen=True)
class Life:
    """A pod is created, goes through its steps, and ends with an exit code; deleted, it ends sooner.

    What ends is started again if the pod's restart policy says so. `dying` is how long the end takes after
    the pod was deleted, if its grace does not end before.
    """

    creating: float = 0.0
    steps: tuple[Step, ...] = (Step(),)
    exit_code: int = 0
    dying: float = 0.0


Script = Callable[[Object], Life]
"""The life of a pod; asked once, when its node gets it (and again by a kubelet that takes over)."""


@dataclass(frozen=True)
class Moment:
    """How a pod is, and for how many seconds from now."""

    phase: Phase
    lasts: float
    ready: bool = False
    restarts: int = 0
    exit_code: int | None = None


NEVER_STARTS: Final = Life(creating=math.inf)


def runs_for(seconds: float, *, exit_code: int = 0, creating: float = 0.0) -> Life:
    """It starts, runs, and ends."""
    return Life(creating=creating, steps=(Step(seconds),), exit_code=exit_code)


def moment_of(life: Life, passed: float, restart_policy: str = "Always") -> Moment:
    """How a pod is after so many seconds of its life."""
    running = passed - life.creating
    if running < 0:
        return Moment("Pending", -running)
    length = sum(step.seconds for step in life.steps)
    if running < length:
        return _within(life.steps, running, 0)
    if not _starts_again(life, restart_policy):
        return Moment("Failed" if life.exit_code else "Succeeded", math.inf, exit_code=life.exit_code)
    return _again(life, running, length)


def _starts_again(life: Life, restart_policy: str) -> bool:
    return restart_policy == "Always" or (restart_policy == "OnFailure" and life.exit_code != 0)


def _again(life: Life, running: float, length: float) -> Moment:
    rounds, within = divmod(running, length + RESTART_PAUSE)
    if within < length:
        return _within(life.steps, within, int(rounds))
    return Moment("Running", length + RESTART_PAUSE - within, restarts=int(rounds), exit_code=life.exit_code)


def _within(steps: tuple[Step, ...], running: float, rounds: int) -> Moment:
    """The step that is under way, after so many rounds before."""
    for step in steps:
        if running < step.seconds:
            restarts = step.restarts + rounds * (1 + steps[-1].restarts)
            return Moment("Running", step.seconds - running, ready=step.ready, restarts=restarts)
        running -= step.seconds
    raise ValueError("the steps are over")


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """What pods usually do. Seconds are averages: many lives are shorter, and a few are much longer."""

    running: float = 300.0
    creating: float = 2.0
    dying: float = 1.0
    failing: float = 0.05
    """The part of all pods that ends with an error."""
    stumbling: float = 0.05
    """The part that is not ready for a while in the middle of its life."""


def drawn_lives(seed: str, habits: Habits | None = None) -> Script:
    """A script that draws a life for each pod, and the same one whenever it is asked about that pod."""

    def life(pod: Object) -> Life:
        dice = random.Random(f"{seed} {pod['metadata']['uid']}")  # noqa: S311 - it must be possible to ask again
        return _life(dice, habits or Habits())

    return life


def _life(dice: random.Random, habits: Habits) -> Life:
    length = dice.expovariate(1 / habits.running)
    steps: tuple[Step, ...] = (Step(length),)
    if dice.random() < habits.stumbling:
        steps = (Step(length / 3), Step(length / 3, ready=False), Step(length / 3))
    return Life(
        creating=dice.uniform(0, 2 * habits.creating),
        steps=steps,
        exit_code=int(dice.random() < habits.failing),
        dying=dice.uniform(0, 2 * habits.dying),
    )
