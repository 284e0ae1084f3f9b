"""The choice between several lending pools."""

from fractions import Fraction
from typing import Any

from tests.reference.model import Room, Workload, capacity
from tests.reference.placement import Choice
from tests.reference.quantities import total

Object = dict[str, Any]


def idle_after(room: Room, pool: list[Object], choice: Choice) -> Fraction:
    """The smallest idle fraction of a requested resource after placement; reservations are idle."""
    trial = room.copy()
    for task, node in choice:
        trial.place(task, node)
    whole = capacity(pool)
    used = total(trial.used(node["metadata"]["name"]) for node in pool)
    requests = {name for task, _ in choice for name in task.requests}
    return min(((whole[name] - used[name]) / whole[name] for name in requests), default=Fraction(1))


def borrowing_tasks(pool: str, nodes: list[Object], jobs: list[Workload]) -> int:
    """The number of tasks in the pool whose workloads have another home."""
    names = {node["metadata"]["name"] for node in nodes}
    return sum(task.node in names for job in jobs if job.pool != pool for task in job.placed)
