"""Lives by dice: how long pods run, and how they end, where nobody says so for each."""

import random

import msgspec

from shoal.cluster.resources import Object
from shoal.cluster.simulated.machines.lives import Life, Step
from shoal.cluster.simulated.machines.machine import Script


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
