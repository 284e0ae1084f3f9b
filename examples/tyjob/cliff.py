"""A small world: walk along a cliff from one corner to the other, and do not fall.

A state is the number of a field; an action is one of four directions. Every step costs 1, a fall 50.
"""

from typing import Final

WIDTH: Final = 8
HEIGHT: Final = 4
START: Final = (HEIGHT - 1) * WIDTH
GOAL: Final = START + WIDTH - 1
ACTIONS: Final = ((0, -1), (0, 1), (-1, 0), (1, 0))
BEST: Final = -(WIDTH + 1)
"""The return of the shortest way."""

Table = list[list[float]]
"""The expected return of each action in each state."""

Step = tuple[int, int, float, int]
"""State, action, reward, next state."""


def new_table() -> Table:
    """Return a table of a walker that knows nothing."""
    return [[0.0] * len(ACTIONS) for _ in range(WIDTH * HEIGHT)]


def take_step(state: int, action: int) -> tuple[float, int]:
    """Return the reward of an action, and the next state; a fall ends at the goal as well."""
    row, column = divmod(state, WIDTH)
    down, right = ACTIONS[action]
    row, column = min(max(row + down, 0), HEIGHT - 1), min(max(column + right, 0), WIDTH - 1)
    state = row * WIDTH + column
    return (-50.0, GOAL) if START < state < GOAL else (-1.0, state)


def best_action(table: Table, state: int) -> int:
    """Return the action of the highest expected return."""
    values = table[state]
    return values.index(max(values))


def evaluate(table: Table) -> float:
    """Return what a walker earns that only takes the best actions."""
    state, earned = START, 0.0
    for _ in range(WIDTH * HEIGHT):
        reward, state = take_step(state, best_action(table, state))
        earned += reward
        if state == GOAL:
            return earned
    return float("-inf")
