"""Which of several pools lends: what would be left of it."""

from fractions import Fraction
from typing import Any

from tests.reference.model import Room, Workload, capacity
from tests.reference.placing import Choice
from tests.reference.quantities import total

Object = dict[str, Any]


def idle_after(room: Room, pool: list[Object], choice: Choice) -> Fraction:
    """The smallest idle part of what the tasks ask for, once they are placed; what is kept counts as idle."""
    trial = room.copy()
    for task, node in choice:
        trial.place(task, node)
    whole = capacity(pool)
    used = total(trial.used(node["metadata"]["name"]) for node in pool)
    asked = {name for task, _ in choice for name in task.requests}
    return min(((whole[name] - used[name]) / whole[name] for name in asked), default=Fraction(1))


def foreign_tasks(pool: str, nodes: list[Object], jobs: list[Workload]) -> int:
    """How many tasks of other pools' workloads are there."""
    names = {node["metadata"]["name"] for node in nodes}
    return sum(task.node in names for job in jobs if job.pool != pool for task in job.placed)
