"""Victims: who may have to leave a pool, what leaves together, and who is spared first."""

from collections.abc import Iterable

import msgspec

from shoal.scheduling.snapshot import Snapshot
from shoal.scheduling.workload import Task, Workload


class Resident(msgspec.Struct, frozen=True, eq=False):
    """A workload with tasks in a pool; `foreign` if its home is another."""

    workload: Workload
    foreign: bool
    tasks: tuple[Task, ...]

    @property
    def importance(self) -> tuple[bool, int, float, str, str, str]:
        """Who is spared first: those at home, of higher priority, older."""
        workload = self.workload
        return (
            self.foreign,
            -workload.priority,
            workload.created,
            workload.namespace,
            workload.name,
            workload.kind,
        )


class Unit(msgspec.Struct, frozen=True, eq=False):
    """What leaves together: one task, or all of a workload that would keep too little to go on."""

    resident: Resident
    tasks: tuple[Task, ...]
    whole: bool


def residents_of(snapshot: Snapshot, pool: int) -> list[Resident]:
    """Those who have tasks in a pool and may have to leave it, the most important first."""
    span = snapshot.pools[pool].span
    found = []
    for workload in snapshot.workloads:
        if workload.evictable:
            tasks = tuple(task for task in workload.placed if task.column in span)
            if tasks:
                found.append(Resident(workload, workload.pool != pool, tasks))
    return sorted(found, key=lambda resident: resident.importance)


def units_of(resident: Resident, tasks: Iterable[Task]) -> list[Unit]:
    """What leaves if these tasks of a resident must: they alone, or, if too little would stay, everything."""
    leaving = tuple(tasks)
    if keeps_minimum(resident.workload, without=leaving):
        return [Unit(resident, (task,), whole=False) for task in leaving]
    return [Unit(resident, tuple(resident.workload.placed), whole=True)]


def keeps_minimum(workload: Workload, *, without: Iterable[Task]) -> bool:
    """Whether a workload has its minimum when it has lost some tasks."""
    lost = set(without)
    if any(not task.varying and task in lost for task in workload.tasks) or workload.unmet:
        return False
    staying = sum(task.varying for task in workload.placed if task not in lost)
    return staying + workload.done >= workload.minimum
