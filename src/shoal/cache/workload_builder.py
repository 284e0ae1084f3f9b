"""Desk: where a Sketch becomes a Workload, once it is known which pods there are and where."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from shoal.api.meta import ObjectMeta
from shoal.api.pool import POOL_ANNOTATION
from shoal.cache.changes import Key
from shoal.cache.node_table import NodeTable
from shoal.cache.pod_index import PodIndex
from shoal.cache.pod_names import NameClaims, NumberIndex
from shoal.cache.world import World
from shoal.engine.affinity import Occupant
from shoal.engine.config import FULFILMENT, SchedulerConfig
from shoal.engine.workload import NO_NODE, Growth, Reason, Task, Workload
from shoal.kinds.pod_classes import PodClass
from shoal.kinds.pods import PodRecord
from shoal.kinds.workload_spec import Seniority, Slot, WorkloadSpec, growth_of


class WorkloadEntry(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """A workload and what it was made of.

    `origins` has the pod behind each task. `guests` have no pods yet, and yet have room on nodes, each with
    the name of its node.
    """

    workload: Workload
    spec: WorkloadSpec
    seniority: Seniority
    origins: dict[Task, PodRecord]
    guests: tuple[tuple[str, Occupant], ...] = ()

    def pod(self, task: Task) -> PodRecord:
        """The pod that a task is or will be, also one that a plan has thought of."""
        if task in self.origins:
            return self.origins[task]
        if self.spec.elastic is None:
            raise KeyError(task.name)
        return self.spec.pod(task.name, self.spec.elastic.series_of(task.role).pod_class, task.number)

    def moved(self, columns: Sequence[int]) -> "WorkloadEntry":
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


class ResolvedSpec(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A sketch beside the pods that there are of it: those that have ended, and what is wanted now.

    `blueprints` are those of the sketch, each of them once.
    """

    spec: WorkloadSpec
    pod_classes: tuple[PodClass, ...]
    slots: list[Slot]
    pods: dict[str, PodRecord]
    done: list[Slot]
    wanted: list[Slot]

    @property
    def names(self) -> Iterator[Key]:
        """Names that pods are to be made by, as long as nothing holds the workload up."""
        if self.spec.held:
            return
        for slot in self.wanted:
            if slot.name not in self.pods:
                yield self.spec.metadata.namespace, slot.name
            if slot.pod_class.held:
                return


class WorkloadBuilder:
    """Makes workloads of sketches."""

    def __init__(
        self, world: World, config: SchedulerConfig, pods: PodIndex, nodes: NodeTable, claims: NameClaims
    ) -> None:
        """Look things up in all of these, as they are when a workload is made."""
        self._world, self._config, self._pods = world, config, pods
        self._nodes, self._claims = nodes, claims
        self.taken = NumberIndex()

    def resolve(self, spec: WorkloadSpec) -> ResolvedSpec | None:
        """What of a sketch is ours to place; None when all its pods are left to another scheduler."""
        slots = [slot for slot in spec.slots if self._is_ours(slot)]
        if spec.slots and not slots:
            return None
        pods = self._pods_of(spec)
        ended = {name for name, pod in pods.items() if pod.phase == "Succeeded"}
        return ResolvedSpec(
            spec,
            tuple(dict.fromkeys(spec.pod_classes)),
            slots,
            pods,
            done=[slot for slot in slots if slot.name in ended],
            wanted=[slot for slot in slots if slot.name not in ended],
        )

    def build(self, resolved: ResolvedSpec) -> WorkloadEntry:
        """The workload of a draft."""
        spec, pods = resolved.spec, resolved.pods
        origins = {}
        guests = []
        tasks = []
        for slot in resolved.wanted:
            pod, task = self._task(spec, slot, pods.get(slot.name))
            origins[task] = pod
            tasks.append(task)
            if task.column != NO_NODE and not pod.node:
                guests.append((spec.allocations[pod.name], _occupant(task)))
        workload = self._workload(resolved, tasks)
        return WorkloadEntry(
            workload=workload,
            spec=spec,
            seniority=spec.seniority,
            origins=origins,
            guests=tuple(guests),
        )

    def _workload(self, resolved: ResolvedSpec, tasks: list[Task]) -> Workload:
        spec, pods, done = resolved.spec, resolved.pods, resolved.done
        minimum, ended_ones = _minimum(spec, resolved.slots), sum(slot.varying for slot in done)
        if spec.elastic:
            tasks = _present(tasks, minimum - ended_ones)
        meta = spec.metadata
        pool, remarks = self._nodes.membership.home(
            self._pool_name(resolved), meta.namespace, self._namespace_labels(meta)
        )
        return Workload(
            kind=spec.kind,
            namespace=meta.namespace,
            name=meta.name,
            pool=pool,
            created=spec.created,
            tasks=tuple(tasks),
            minimum=minimum,
            maximum=spec.maximum,
            done=ended_ones,
            growth=self._growth(spec, [*tasks, *done], pods),
            optimistic=spec.optimistic,
            priority=self._priority(resolved),
            own_priority=spec.own_priority,
            queue_policy=spec.queue_policy,
            placement=spec.placement,
            may_borrow=spec.may_borrow,
            evictable=spec.evictable,
            may_preempt=self._makes_room(resolved),
            held=spec.held or self._held(resolved),
            remarks=remarks,
            broken_since=spec.broken_since,
        )

    def _growth(
        self, spec: WorkloadSpec, taken: list[Task | Slot], pods: Mapping[str, PodRecord]
    ) -> Growth | None:
        """How a workload is resized; new pods get names that nobody has or claims."""
        if spec.elastic is None:
            return None
        growth = growth_of(spec.elastic, taken, lambda prefix: self._foreign(spec, prefix, pods))
        prefix = spec.elastic.series.prefix
        settled = not any(pod.leaving and pod.name.startswith(prefix) for pod in pods.values())
        sized_by_policy = spec.elastic.sized_by_policy and self._config.elastic_policy != FULFILMENT
        return replace(growth, settled=settled, sized_by_policy=sized_by_policy)

    def _foreign(self, spec: WorkloadSpec, prefix: str, pods: Mapping[str, PodRecord]) -> frozenset[int]:
        """Numbers of a row whose names are those of other people's pods, or are claimed by others."""
        row = namespace, _ = spec.metadata.namespace, prefix
        numbers = {*self.taken[row], *self._claims.rows[row]}
        names = {number: f"{prefix}{number}" for number in numbers}
        return frozenset(
            number
            for number, name in names.items()
            if name not in pods and not self._claims.holds(spec.key, (namespace, name))
        )

    def _is_ours(self, slot: Slot) -> bool:
        """Whether a pod is ours to place; a template that names no scheduler is left to us."""
        scheduler = slot.pod_class.scheduler
        return not scheduler or self._config.schedules(scheduler)

    def _pods_of(self, spec: WorkloadSpec) -> dict[str, PodRecord]:
        """The pods that exist of a sketch, by name."""
        if spec.kind in self._world.jobs:
            return {pod.name: pod for pod in self._pods.of(spec.kind, spec.metadata)}
        keys = ((spec.metadata.namespace, slot.name) for slot in spec.slots)
        return {key[1]: pod for key in keys if (pod := self._pods.get(key))}

    def _task(self, spec: WorkloadSpec, slot: Slot, pod: PodRecord | None) -> tuple[PodRecord, Task]:
        if pod is None or pod.finished:
            pod = spec.pod(slot.name, slot.pod_class, slot.number)
        task = Task(
            name=slot.name,
            role=slot.role,
            shape=pod.pod_class.shape,
            identity=pod.pod_class.identity,
            varying=slot.varying,
            leads=slot.leads,
            follows=slot.follows,
            number=slot.number,
            column=self._column(spec, pod),
            nominated=self._nodes.nodes.columns.get(spec.nominations.get(slot.name, ""), NO_NODE),
        )
        return pod, task

    def _column(self, spec: WorkloadSpec, pod: PodRecord) -> int:
        """Where a pod is, or where its job's allocation wants it; in that case its room is taken already."""
        if pod.leaving:
            return NO_NODE
        if pod.node:
            return self._nodes.nodes.columns[pod.node]
        node = spec.allocations.get(pod.name, "")
        return self._nodes.nodes.columns[node] if node in self._pods.alive else NO_NODE

    def _pool_name(self, resolved: ResolvedSpec) -> str:
        """The pool that a job names, or its pods, or the batch Job that made them, or its namespace."""
        meta = resolved.spec.metadata
        namespace = self._world.namespaces.get(meta.namespace)
        return (
            meta.annotations.get(POOL_ANNOTATION)
            or next((pod_class.pool for pod_class in resolved.pod_classes if pod_class.pool), "")
            or next(self._pools_of_batch_jobs(resolved), "")
            or (namespace.metadata.annotations.get(POOL_ANNOTATION, "") if namespace else "")
        )

    def _pools_of_batch_jobs(self, resolved: ResolvedSpec) -> Iterator[str]:
        if resolved.spec.kind in self._world.jobs:
            return
        for pod in resolved.pods.values():
            if pod.owner and pod.owner.kind == "Job":
                job = self._world.batch_jobs.get((pod.namespace, pod.owner.name))
                if job and POOL_ANNOTATION in job.metadata.annotations:
                    yield job.metadata.annotations[POOL_ANNOTATION]

    def _namespace_labels(self, meta: ObjectMeta) -> dict[str, str]:
        namespace = self._world.namespaces.get(meta.namespace)
        return namespace.metadata.labels if namespace else {}

    def _priority(self, resolved: ResolvedSpec) -> int:
        """The value of the class that a job has; what its pods say of it goes first; else the default."""
        named = _class_of(resolved)
        said = (pod_class.priority for pod_class in resolved.pod_classes if pod_class.priority_class == named)
        value = next((priority for priority in said if priority is not None), None)
        if value is not None:
            return value
        return (self._world.priority_of(named) or 0) if named else self._world.default_priority

    def _makes_room(self, resolved: ResolvedSpec) -> bool:
        """Whether others may have to leave for a job: not if its class, or a pod of its, says Never."""
        if any(pod_class.patient for pod_class in resolved.pod_classes):
            return False
        return not self._world.is_patient(_class_of(resolved))

    def _held(self, resolved: ResolvedSpec) -> Reason | None:
        """Why a workload must not be placed now, whatever room there is."""
        refused = self._claims.refused(resolved.spec.key)
        if refused:
            return Reason("NameTaken", f"the pod {refused[0]}/{refused[1]} belongs to somebody else")
        return next((slot.pod_class.held for slot in resolved.wanted if slot.pod_class.held), None)


def _moved(task: Task, columns: Sequence[int]) -> Task:
    column = columns[task.column] if task.column != NO_NODE else NO_NODE
    nominated = columns[task.nominated] if task.nominated != NO_NODE else NO_NODE
    if (column, nominated) == (task.column, task.nominated):
        return task
    return replace(task, column=column, nominated=nominated)


def _occupant(task: Task) -> Occupant:
    return Occupant(task.column, task.shape, task.identity)


def _class_of(resolved: ResolvedSpec) -> str:
    """The PriorityClass that a job names, or the first of its pods that names one."""
    named = (pod_class.priority_class for pod_class in resolved.pod_classes)
    return resolved.spec.priority_class or next(filter(None, named), "")


def _minimum(spec: WorkloadSpec, slots: list[Slot]) -> int:
    """The minimum, as far as its pods are ours to place."""
    if len(slots) == len(spec.slots):
        return spec.minimum
    return min(spec.minimum, sum(slot.varying for slot in slots))


def _present(tasks: list[Task], least: int) -> list[Task]:
    """Tasks of an elastic workload: those with nodes, those its minimum lacks, or else the promised ones."""
    lacking = max(least - sum(task.varying and task.column != NO_NODE for task in tasks), 0)
    missing = [task for task in tasks if task.varying and task.column == NO_NODE]
    promised = [task for task in missing if task.nominated != NO_NODE]
    wanted = set(missing[:lacking] if lacking else promised)
    return [task for task in tasks if not task.varying or task.column != NO_NODE or task in wanted]
