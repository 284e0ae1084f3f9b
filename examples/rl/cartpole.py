"""CartPole: a pole on a cart that is pushed to the left or to the right (Barto, Sutton and Anderson, 1983).

Angles and limits are those of the usual benchmark: the pole has fallen at 12 degrees, the cart has left the
track at 2.4 m, and an episode of 500 steps is complete. Every step is rewarded with 1.
"""

import math

import numpy as np
from numpy.typing import NDArray

State = NDArray[np.float64]
"""Position and velocity of the cart, angle and angular velocity of the pole."""

OBSERVATIONS = 4
ACTIONS = 2
MAX_STEPS = 500

_GRAVITY = 9.8
_CART, _POLE = 1.0, 0.1
"""Masses in kg."""
_HALF_LENGTH = 0.5
"""From the pivot to the pole's centre of mass, in m."""
_FORCE = 10.0
_SECONDS = 0.02
"""Duration of a step."""
_TRACK = 2.4
_FALLEN = math.radians(12)


class CartPole:
    """One cart with its pole."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.state: State = np.zeros(OBSERVATIONS)
        self._steps = 0

    def reset(self) -> State:
        """Begin an episode: nearly upright."""
        self.state = self._rng.uniform(-0.05, 0.05, OBSERVATIONS)
        self._steps = 0
        return self.state

    def step(self, action: int) -> tuple[State, bool]:
        """Push to the left (0) or to the right (1); return the new state, and whether the episode is over."""
        self.state = moved(self.state, _FORCE if action else -_FORCE)
        self._steps += 1
        has_failed = abs(self.state[0]) > _TRACK or abs(self.state[2]) > _FALLEN
        return self.state, bool(has_failed) or self._steps == MAX_STEPS


def moved(state: State, force: float) -> State:
    """Return the state after one step with a force, by Euler's method."""
    _, speed, angle, turn = state
    sine, cosine = math.sin(angle), math.cos(angle)
    total = _CART + _POLE
    push = (force + _POLE * _HALF_LENGTH * turn**2 * sine) / total
    turning = (_GRAVITY * sine - cosine * push) / (_HALF_LENGTH * (4 / 3 - _POLE * cosine**2 / total))
    acceleration = push - _POLE * _HALF_LENGTH * turning * cosine / total
    change = np.array([speed, acceleration, turn, turning])
    return np.asarray(state + _SECONDS * change)
