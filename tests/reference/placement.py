"""Placing one workload in one pool: one task after another, and once more by size."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.reference.filters import fits, fits_when_empty
from tests.reference.model import Room, Task, Workload, capacity, dominant_share
from tests.reference.scores import best

Object = dict[str, Any]
Choice = list[tuple[Task, str]]


@dataclass(frozen=True)
class Trial:
    """A hypothetical placement of a workload on the nodes of a pool, in its own copy of the room."""

    room: Room
    pool: list[Object]
    job: Workload
    fit: Callable[[Room, Object, Task], bool] = fits

    def place(self, task: Task, policy: str) -> str | None:
        """Place the task on the best node that fits, if there is one."""
        able = [node for node in self.pool if self.fit(self.room, node, task)]
        node = best(policy, self.room, able, self.job, task)
        if node is not None:
            self.room.place(task, node)
        return node

    def place_each(self, tasks: list[Task], policy: str) -> Choice:
        """Place tasks one after another; those that do not fit are skipped."""
        placed = [(task, self.place(task, policy)) for task in tasks]
        return [(task, node) for task, node in placed if node is not None]

    def copy(self) -> "Trial":
        return replace(self, room=self.room.copy())


def place_all(room: Room, pool: list[Object], job: Workload) -> Choice | None:
    """Every task that fits, if that meets the minimum; else None."""
    trial = Trial(room, pool, job)
    return _place_in_order(trial.copy(), only_minimum=False) or _place_largest_first(
        trial.copy(), only_minimum=False
    )


def place_minimum(room: Room, pool: list[Object], job: Workload) -> Choice | None:
    """Tasks until the minimum is met; None if it cannot be."""
    return _place_minimum(Trial(room, pool, job))


def fits_empty(room: Room, pool: list[Object], job: Workload) -> bool:
    """Whether the minimum would fit the pool if it were empty."""
    afresh = replace(job, tasks=[_without_node(task) for task in job.tasks if not task.scaled])
    return _place_minimum(Trial(room.empty(), pool, afresh, fits_when_empty)) is not None


def place_rest(room: Room, pool: list[Object], job: Workload) -> Choice:
    """Whatever else fits, for a workload whose minimum is met."""
    return Trial(room.copy(), pool, job).place_each(job.needing, job.policy)


def place_nominated(room: Room, pool: list[Object], job: Workload, nominated: Choice) -> Choice | None:
    """Every nominated task on its node, if that meets the minimum, then the others; else None."""
    if not covers(job, nominated) or not all_fit(room, nominated):
        return None
    trial = Trial(room.copy(), pool, job)
    for task, node in nominated:
        trial.room.place(task, node)
    rest = [task for task in job.needing if task not in {task for task, _ in nominated}]
    return nominated + trial.place_each(rest, job.policy)


def all_fit(room: Room, choice: Choice) -> bool:
    """Whether these tasks fit on exactly these nodes, one after another."""
    trial = room.copy()
    for task, name in choice:
        if not fits(trial, trial.nodes[name], task):
            return False
        trial.place(task, name)
    return True


def covers(job: Workload, choice: Choice) -> bool:
    """Whether the minimum is met once these tasks have their nodes."""
    chosen = {task for task, _ in choice}
    fixed = all(task.met or task in chosen for task in job.tasks if task.fixed)
    return fixed and _varying(choice) >= job.missing


def _place_minimum(trial: Trial) -> Choice | None:
    return _place_in_order(trial.copy(), only_minimum=True) or _place_largest_first(
        trial.copy(), only_minimum=True
    )


def _place_in_order(trial: Trial, *, only_minimum: bool) -> Choice | None:
    """In the given order by the job's own policy; a varying task that does not fit is skipped."""
    job = trial.job
    choice: Choice = []
    for task in job.needing:
        if only_minimum and not task.fixed and _varying(choice) >= job.missing:
            continue
        node = trial.place(task, job.policy)
        if node is not None:
            choice.append((task, node))
        elif task.fixed:
            return None
    return choice if covers(job, choice) else None


def _place_largest_first(trial: Trial, *, only_minimum: bool) -> Choice | None:
    """The minimum by BinPack, largest dominant share of the pool first; then the rest."""
    job, whole = trial.job, capacity(trial.pool)
    varying = [task for task in job.needing if not task.fixed]
    needed = [task for task in job.needing if task.fixed or task in varying[: job.missing]]
    by_size = sorted(needed, key=lambda task: -dominant_share(task.requests, whole))
    choice = trial.place_each(by_size, "BinPack")
    if not covers(job, choice):
        return None
    rest = [] if only_minimum else [task for task in job.needing if task not in needed]
    return choice + trial.place_each(rest, job.policy)


def _varying(choice: Choice) -> int:
    return sum(not task.fixed for task, _ in choice)


def _without_node(task: Task) -> Task:
    return replace(task, node=None, nominated=None)
