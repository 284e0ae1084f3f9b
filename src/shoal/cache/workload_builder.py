"""Desk: where a Sketch becomes a Workload, once it is known which pods there are and where."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from shoal.api.meta import ObjectMeta
from shoal.api.pool import POOL_ANNOTATION
from shoal.cache.changes import Key
from shoal.cache.node_table import Floor
from shoal.cache.pod_classes import Blueprint
from shoal.cache.pod_index import Population
from shoal.cache.pod_names import Claims, Rows
from shoal.cache.pods import PodRecord
from shoal.cache.workload_spec import Seniority, Sketch, Slot, growth_of
from shoal.cache.world import World
from shoal.engine.affinity import Occupant
from shoal.engine.config import FULFILMENT, SchedulerConfig
from shoal.engine.workload import NOWHERE, Growth, Reason, Task, Workload


class Party(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """A workload and what it was made of.

    `origins` has the pod behind each task. `guests` have no pods yet, and yet have room on nodes, each with
    the name of its node.
    """

    workload: Workload
    sketch: Sketch
    seniority: Seniority
    origins: dict[Task, PodRecord]
    guests: tuple[tuple[str, Occupant], ...] = ()

    def pod(self, task: Task) -> PodRecord:
        """The pod that a task is or will be, also one that a plan has thought of."""
        if task in self.origins:
            return self.origins[task]
        if self.sketch.elastic is None:
            raise KeyError(task.name)
        return self.sketch.pod(task.name, self.sketch.elastic.row_of(task.role).blueprint, task.number)

    def moved(self, columns: Sequence[int]) -> "Party":
        """The party when the nodes of its tasks have other columns; itself if they have not."""
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


class Draft(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A sketch beside the pods that there are of it: those that have ended, and what is wanted now.

    `blueprints` are those of the sketch, each of them once.
    """

    sketch: Sketch
    blueprints: tuple[Blueprint, ...]
    slots: list[Slot]
    pods: dict[str, PodRecord]
    done: list[Slot]
    wanted: list[Slot]

    @property
    def names(self) -> Iterator[Key]:
        """Names that pods are to be made by, as long as nothing holds the workload up."""
        if self.sketch.held:
            return
        for slot in self.wanted:
            if slot.name not in self.pods:
                yield self.sketch.metadata.namespace, slot.name
            if slot.blueprint.held:
                return


class Desk:
    """Makes workloads of sketches."""

    def __init__(
        self, world: World, config: SchedulerConfig, population: Population, floor: Floor, claims: Claims
    ) -> None:
        """Look things up in all of these, as they are when a workload is made."""
        self._world, self._config, self._population = world, config, population
        self._floor, self._claims = floor, claims
        self.taken = Rows()

    def draft(self, sketch: Sketch) -> Draft | None:
        """What of a sketch is ours to place; None when all its pods are left to another scheduler."""
        slots = [slot for slot in sketch.slots if self._is_ours(slot)]
        if sketch.slots and not slots:
            return None
        pods = self._pods_of(sketch)
        ended = {name for name, pod in pods.items() if pod.phase == "Succeeded"}
        return Draft(
            sketch,
            tuple(dict.fromkeys(sketch.blueprints)),
            slots,
            pods,
            done=[slot for slot in slots if slot.name in ended],
            wanted=[slot for slot in slots if slot.name not in ended],
        )

    def party(self, draft: Draft) -> Party:
        """The workload of a draft."""
        sketch, pods = draft.sketch, draft.pods
        origins = {}
        guests = []
        tasks = []
        for slot in draft.wanted:
            pod, task = self._task(sketch, slot, pods.get(slot.name))
            origins[task] = pod
            tasks.append(task)
            if task.column != NOWHERE and not pod.node:
                guests.append((sketch.allocations[pod.name], _occupant(task)))
        workload = self._workload(draft, tasks)
        return Party(
            workload=workload,
            sketch=sketch,
            seniority=sketch.seniority,
            origins=origins,
            guests=tuple(guests),
        )

    def _workload(self, draft: Draft, tasks: list[Task]) -> Workload:
        sketch, pods, done = draft.sketch, draft.pods, draft.done
        minimum, ended_ones = _minimum(sketch, draft.slots), sum(slot.varying for slot in done)
        if sketch.elastic:
            tasks = _present(tasks, minimum - ended_ones)
        meta = sketch.metadata
        pool, remarks = self._floor.membership.home(
            self._pool_name(draft), meta.namespace, self._namespace_labels(meta)
        )
        return Workload(
            kind=sketch.kind,
            namespace=meta.namespace,
            name=meta.name,
            pool=pool,
            created=sketch.created,
            tasks=tuple(tasks),
            minimum=minimum,
            maximum=sketch.maximum,
            done=ended_ones,
            growth=self._growth(sketch, [*tasks, *done], pods),
            optimistic=sketch.optimistic,
            priority=self._priority(draft),
            own_priority=sketch.own_priority,
            queue_policy=sketch.queue_policy,
            placement=sketch.placement,
            may_borrow=sketch.may_borrow,
            evictable=sketch.evictable,
            makes_room=self._makes_room(draft),
            held=sketch.held or self._held(draft),
            remarks=remarks,
            broken_since=sketch.broken_since,
        )

    def _growth(
        self, sketch: Sketch, taken: list[Task | Slot], pods: Mapping[str, PodRecord]
    ) -> Growth | None:
        """How a workload is resized; new pods get names that nobody has or claims."""
        if sketch.elastic is None:
            return None
        growth = growth_of(sketch.elastic, taken, lambda prefix: self._foreign(sketch, prefix, pods))
        prefix = sketch.elastic.row.prefix
        settled = not any(pod.leaving and pod.name.startswith(prefix) for pod in pods.values())
        advised = sketch.kind == "DIJob" and self._config.elastic_policy != FULFILMENT
        return replace(growth, settled=settled, advised=advised)

    def _foreign(self, sketch: Sketch, prefix: str, pods: Mapping[str, PodRecord]) -> frozenset[int]:
        """Numbers of a row whose names are those of other people's pods, or are claimed by others."""
        row = namespace, _ = sketch.metadata.namespace, prefix
        numbers = {*self.taken[row], *self._claims.rows[row]}
        names = {number: f"{prefix}{number}" for number in numbers}
        return frozenset(
            number
            for number, name in names.items()
            if name not in pods and not self._claims.holds(sketch.key, (namespace, name))
        )

    def _is_ours(self, slot: Slot) -> bool:
        """Whether a pod is ours to place; a template that names no scheduler is left to us."""
        scheduler = slot.blueprint.scheduler
        return not scheduler or self._config.schedules(scheduler)

    def _pods_of(self, sketch: Sketch) -> dict[str, PodRecord]:
        """The pods that exist of a sketch, by name."""
        if sketch.kind in self._world.jobs:
            return {pod.name: pod for pod in self._population.of(sketch.kind, sketch.metadata)}
        keys = ((sketch.metadata.namespace, slot.name) for slot in sketch.slots)
        return {key[1]: pod for key in keys if (pod := self._population.get(key))}

    def _task(self, sketch: Sketch, slot: Slot, pod: PodRecord | None) -> tuple[PodRecord, Task]:
        if pod is None or pod.finished:
            pod = sketch.pod(slot.name, slot.blueprint, slot.number)
        task = Task(
            name=slot.name,
            role=slot.role,
            shape=pod.blueprint.shape,
            identity=pod.blueprint.identity,
            varying=slot.varying,
            leads=slot.leads,
            follows=slot.follows,
            number=slot.number,
            column=self._column(sketch, pod),
            nominated=self._floor.nodes.columns.get(sketch.nominations.get(slot.name, ""), NOWHERE),
        )
        return pod, task

    def _column(self, sketch: Sketch, pod: PodRecord) -> int:
        """Where a pod is, or where its job's allocation wants it; in that case its room is taken already."""
        if pod.leaving:
            return NOWHERE
        if pod.node:
            return self._floor.nodes.columns[pod.node]
        node = sketch.allocations.get(pod.name, "")
        return self._floor.nodes.columns[node] if node in self._population.alive else NOWHERE

    def _pool_name(self, draft: Draft) -> str:
        """The pool that a job names, or its pods, or the batch Job that made them, or its namespace."""
        meta = draft.sketch.metadata
        namespace = self._world.namespaces.get(meta.namespace)
        return (
            meta.annotations.get(POOL_ANNOTATION)
            or next((blueprint.pool for blueprint in draft.blueprints if blueprint.pool), "")
            or next(self._pools_of_batch_jobs(draft), "")
            or (namespace.metadata.annotations.get(POOL_ANNOTATION, "") if namespace else "")
        )

    def _pools_of_batch_jobs(self, draft: Draft) -> Iterator[str]:
        if draft.sketch.kind in self._world.jobs:
            return
        for pod in draft.pods.values():
            if pod.owner and pod.owner.kind == "Job":
                job = self._world.batch_jobs.get((pod.namespace, pod.owner.name))
                if job and POOL_ANNOTATION in job.metadata.annotations:
                    yield job.metadata.annotations[POOL_ANNOTATION]

    def _namespace_labels(self, meta: ObjectMeta) -> dict[str, str]:
        namespace = self._world.namespaces.get(meta.namespace)
        return namespace.metadata.labels if namespace else {}

    def _priority(self, draft: Draft) -> int:
        """The value of the class that a job has; what its pods say of it goes first; else the default."""
        named = _class_of(draft)
        said = (blueprint.priority for blueprint in draft.blueprints if blueprint.priority_class == named)
        value = next((priority for priority in said if priority is not None), None)
        if value is not None:
            return value
        return (self._world.priority_of(named) or 0) if named else self._world.default_priority

    def _makes_room(self, draft: Draft) -> bool:
        """Whether others may have to leave for a job: not if its class, or a pod of its, says Never."""
        if any(blueprint.patient for blueprint in draft.blueprints):
            return False
        return not self._world.is_patient(_class_of(draft))

    def _held(self, draft: Draft) -> Reason | None:
        """Why a workload must not be placed now, whatever room there is."""
        refused = self._claims.refused(draft.sketch.key)
        if refused:
            return Reason("NameTaken", f"the pod {refused[0]}/{refused[1]} belongs to somebody else")
        return next((slot.blueprint.held for slot in draft.wanted if slot.blueprint.held), None)


def _moved(task: Task, columns: Sequence[int]) -> Task:
    column = columns[task.column] if task.column != NOWHERE else NOWHERE
    nominated = columns[task.nominated] if task.nominated != NOWHERE else NOWHERE
    if (column, nominated) == (task.column, task.nominated):
        return task
    return replace(task, column=column, nominated=nominated)


def _occupant(task: Task) -> Occupant:
    return Occupant(task.column, task.shape, task.identity)


def _class_of(draft: Draft) -> str:
    """The PriorityClass that a job names, or the first of its pods that names one."""
    named = (blueprint.priority_class for blueprint in draft.blueprints)
    return draft.sketch.priority_class or next(filter(None, named), "")


def _minimum(sketch: Sketch, slots: list[Slot]) -> int:
    """The minimum, as far as its pods are ours to place."""
    if len(slots) == len(sketch.slots):
        return sketch.minimum
    return min(sketch.minimum, sum(slot.varying for slot in slots))


def _present(tasks: list[Task], least: int) -> list[Task]:
    """Tasks of an elastic workload: those with nodes, those its minimum lacks, or else the promised ones."""
    lacking = max(least - sum(task.varying and task.column != NOWHERE for task in tasks), 0)
    missing = [task for task in tasks if task.varying and task.column == NOWHERE]
    promised = [task for task in missing if task.nominated != NOWHERE]
    wanted = set(missing[:lacking] if lacking else promised)
    return [task for task in tasks if not task.varying or task.column != NOWHERE or task in wanted]
