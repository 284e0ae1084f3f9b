"""WorkloadEntry: a workload, the pods behind its tasks, and the writes that are due whatever is planned."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from shoal.engine.affinity import Occupant
from shoal.engine.workload import NO_NODE, Task, Workload
from shoal.kinds.pods import PodRecord
from shoal.kinds.workload_spec import Seniority, Slot, WorkloadSpec


class WorkloadEntry(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """A workload and what it was built from.

    `origins` has the pod behind each task. `guests` are allocated tasks without a pod on a node, each with
    the name of its node: they occupy room there. `unbound` are those of them whose pods exist. `retained` are
    terminating pods whose room their slots keep, with their nodes. `completed` are slots that have succeeded.
    `surplus` are pods on nodes that the job does not want; the scheduler deletes them. `outdated`: it needs
    no planning, but its status must be written.
    """

    workload: Workload
    spec: WorkloadSpec
    seniority: Seniority
    origins: dict[Task, PodRecord]
    guests: tuple[tuple[str, Occupant], ...] = ()
    unbound: tuple[tuple[PodRecord, str], ...] = ()
    retained: Mapping[str, str] = {}
    completed: tuple[Slot, ...] = ()
    surplus: tuple[PodRecord, ...] = ()
    outdated: bool = False

    @property
    def due(self) -> bool:
        """Whether writes are due, whatever is planned."""
        return self.outdated or bool(self.unbound or self.surplus)

    @property
    def allocated_nodes(self) -> Iterator[str]:
        """Nodes whose room its allocations hold, or hold once terminating pods are gone."""
        yield from (node for node, _ in self.guests)
        yield from self.retained.values()

    def pod(self, task: Task) -> PodRecord:
        """The pod of a task, also of a task that a plan added to an elastic workload."""
        if task in self.origins:
            return self.origins[task]
        if self.spec.elastic is None:
            raise KeyError(task.name)
        return self.spec.pod(task.name, self.spec.elastic.series_of(task.role).pod_class, task.number)

    def moved(self, columns: Sequence[int]) -> "WorkloadEntry":
        """The entry after nodes moved to other columns; itself if its nodes did not move."""
        tasks = {task: _moved(task, columns) for task in self.origins}
        if all(before is after for before, after in tasks.items()):
            return self
        guests = ((node, replace(guest, column=columns[guest.column])) for node, guest in self.guests)
        return replace(
            self,
            workload=replace(self.workload, tasks=tuple(tasks[task] for task in self.workload.tasks)),
            origins={tasks[task]: pod for task, pod in self.origins.items()},
            guests=tuple(guests),
        )


def needs_planning(workload: Workload) -> bool:
    """Whether a cycle must look at a workload: it wants a node, or its verdict may change."""
    if workload.held or workload.broken_since is not None:
        return True
    seated = [task.varying for task in workload.tasks if task.column != NO_NODE]
    return len(seated) < len(workload.tasks) or workload.done + sum(seated) < workload.minimum


def _moved(task: Task, columns: Sequence[int]) -> Task:
    column = columns[task.column] if task.column != NO_NODE else NO_NODE
    nominated = columns[task.nominated] if task.nominated != NO_NODE else NO_NODE
    if (column, nominated) == (task.column, task.nominated):
        return task
    return replace(task, column=column, nominated=nominated)
