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
    """A workload before the nodes of a pool, in a room of its own: nothing here touches the world."""

    room: Room
    pool: list[Object]
    job: Workload
    fit: Callable[[Room, Object, Task], bool] = fits

    def put(self, task: Task, policy: str) -> str | None:
        """Put the task on the best node that can take it, if there is one."""
        able = [node for node in self.pool if self.fit(self.room, node, task)]
        node = best(policy, self.room, able, self.job, task)
        if node is not None:
            self.room.place(task, node)
        return node

    def put_each(self, tasks: list[Task], policy: str) -> Choice:
        """One after another; those that do not fit are skipped."""
        put = [(task, self.put(task, policy)) for task in tasks]
        return [(task, node) for task, node in put if node is not None]

    def again(self) -> "Trial":
        return replace(self, room=self.room.copy())


def place_all(room: Room, pool: list[Object], job: Workload) -> Choice | None:
    """Every task that fits, if that meets the minimum; else None."""
    trial = Trial(room, pool, job)
    return _first_try(trial.again(), only_minimum=False) or _second_try(trial.again(), only_minimum=False)


def place_minimum(room: Room, pool: list[Object], job: Workload) -> Choice | None:
    """Tasks until the minimum is met; None if it cannot be."""
    return _place_minimum(Trial(room, pool, job))


def fits_empty(room: Room, pool: list[Object], job: Workload) -> bool:
    """Whether the minimum would fit the pool if it were empty."""
    afresh = replace(job, tasks=[_afresh(task) for task in job.tasks if not task.scaled])
    return _place_minimum(Trial(room.empty(), pool, afresh, fits_when_empty)) is not None


def place_rest(room: Room, pool: list[Object], job: Workload) -> Choice:
    """The minimum is met: whatever else fits."""
    return Trial(room.copy(), pool, job).put_each(job.needing, job.policy)


def place_nominated(room: Room, pool: list[Object], job: Workload, nominated: Choice) -> Choice | None:
    """Every nominated task on its own node, if that meets the minimum, and the others as usual; else None."""
    if not covers(job, nominated) or not all_fit(room, nominated):
        return None
    trial = Trial(room.copy(), pool, job)
    for task, node in nominated:
        trial.room.place(task, node)
    rest = [task for task in job.needing if task not in {task for task, _ in nominated}]
    return nominated + trial.put_each(rest, job.policy)


def all_fit(room: Room, choice: Choice) -> bool:
    """Whether these tasks fit on these very nodes, one after another."""
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
    return _first_try(trial.again(), only_minimum=True) or _second_try(trial.again(), only_minimum=True)


def _first_try(trial: Trial, *, only_minimum: bool) -> Choice | None:
    """In the fixed order by the job's own policy; a varying task that does not fit is skipped."""
    job = trial.job
    choice: Choice = []
    for task in job.needing:
        if only_minimum and not task.fixed and _varying(choice) >= job.missing:
            continue
        node = trial.put(task, job.policy)
        if node is not None:
            choice.append((task, node))
        elif task.fixed:
            return None
    return choice if covers(job, choice) else None


def _second_try(trial: Trial, *, only_minimum: bool) -> Choice | None:
    """The tasks of the minimum by dominant share of the pool, largest first, by BinPack; then the rest."""
    job, whole = trial.job, capacity(trial.pool)
    varying = [task for task in job.needing if not task.fixed]
    needed = [task for task in job.needing if task.fixed or task in varying[: job.missing]]
    by_size = sorted(needed, key=lambda task: -dominant_share(task.requests, whole))
    choice = trial.put_each(by_size, "BinPack")
    if not covers(job, choice):
        return None
    rest = [] if only_minimum else [task for task in job.needing if task not in needed]
    return choice + trial.put_each(rest, job.policy)


def _varying(choice: Choice) -> int:
    return sum(not task.fixed for task, _ in choice)


def _afresh(task: Task) -> Task:
    return replace(task, node=None, nominated=None)
