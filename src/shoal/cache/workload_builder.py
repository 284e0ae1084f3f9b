"""WorkloadBuilder: from a WorkloadSpec and the pods that exist to a Workload of the engine."""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from shoal.api.meta import ObjectMeta
from shoal.api.pool import POOL_ANNOTATION
from shoal.cache.changes import Key
from shoal.cache.node_table import NodeTable
from shoal.cache.pod_index import PodIndex
from shoal.cache.pod_names import NameClaims, NumberIndex
from shoal.cache.workload_entry import WorkloadEntry, needs_planning
from shoal.cache.world import World
from shoal.engine.affinity import Occupant
from shoal.engine.config import FULFILMENT, SchedulerConfig
from shoal.engine.plan import Verdict
from shoal.engine.workload import NO_NODE, Growth, Reason, Task, Workload
from shoal.kinds.base import Outcome, PlannedJob, job_kinds
from shoal.kinds.pod_classes import PodClass
from shoal.kinds.pods import PodRecord
from shoal.kinds.workload_spec import Slot, WorkloadSpec, growth_of


class ResolvedSpec(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A spec with its existing pods.

    `done` are slots that have succeeded, `wanted` slots that need a node. `pod_classes` are those of the
    spec, each once.
    """

    spec: WorkloadSpec
    pod_classes: tuple[PodClass, ...]
    slots: list[Slot]
    pods: dict[str, PodRecord]
    done: list[Slot]
    wanted: list[Slot]

    @property
    def names(self) -> Iterator[Key]:
        """Names of pods that are to be created; none after a slot that is held."""
        if self.spec.held:
            return
        for slot in self.wanted:
            if slot.name not in self.pods:
                yield self.spec.metadata.namespace, slot.name
            if slot.pod_class.held:
                return


class WorkloadBuilder:
    """Builds workloads from specs."""

    def __init__(
        self, world: World, config: SchedulerConfig, pods: PodIndex, nodes: NodeTable, claims: NameClaims
    ) -> None:
        """The arguments are read when a workload is built."""
        self._world, self._config, self._pods = world, config, pods
        self._nodes, self._claims = nodes, claims
        self.taken = NumberIndex()

    def resolve(self, spec: WorkloadSpec) -> ResolvedSpec | None:
        """The slots that Shoal schedules; None if all pods name another scheduler."""
        slots = [slot for slot in spec.slots if self._is_ours(slot)]
        if spec.slots and not slots:
            return None
        pods = self._pods_of(spec)
        ended = {name for name, pod in pods.items() if pod.succeeded}
        ended.update(slot.name for slot in slots if slot.completed)
        return ResolvedSpec(
            spec,
            tuple(dict.fromkeys(spec.pod_classes)),
            slots,
            pods,
            done=[slot for slot in slots if slot.name in ended],
            wanted=[slot for slot in slots if slot.name not in ended],
        )

    def build(self, resolved: ResolvedSpec) -> WorkloadEntry:
        """The workload of a resolved spec."""
        spec, pods = resolved.spec, resolved.pods
        placed = (self._task(spec, slot, pods.get(slot.name)) for slot in resolved.wanted)
        origins = {task: pod for pod, task in placed}
        workload = self._workload(resolved, list(origins))
        names = self._nodes.nodes.names
        nodes = {task: names[task.column] for task in workload.placed}
        guests = {task: node for task, node in nodes.items() if not origins[task].node}
        return WorkloadEntry(
            workload=workload,
            spec=spec,
            seniority=spec.seniority,
            origins=origins,
            guests=tuple((node, _occupant(task)) for task, node in guests.items()),
            unbound=tuple((origins[task], node) for task, node in guests.items() if origins[task].uid),
            retained={task.name: node for task, node in nodes.items() if origins[task].leaving},
            completed=tuple(resolved.done),
            surplus=tuple(self._surplus(resolved)),
            outdated=self._is_outdated(resolved, workload, nodes),
        )

    def _is_outdated(self, resolved: ResolvedSpec, workload: Workload, nodes: Mapping[Task, str]) -> bool:
        """Whether the status of a job that needs no planning is not what it would be after an empty plan."""
        spec = resolved.spec
        if spec.kind not in self._world.jobs or needs_planning(workload):
            return False
        job = self._world.jobs[spec.kind][spec.metadata.namespace, spec.metadata.name]
        planned = PlannedJob(
            job=job,
            workload=workload,
            outcome=Outcome(),
            verdict=Verdict(state="ScheduledSucceed"),
            nodes=nodes,
            completed=tuple(resolved.done),
            now=self._world.now,
        )
        return bool(job_kinds()[spec.kind].status_after(planned) != job.status)

    def _surplus(self, resolved: ResolvedSpec) -> Iterator[PodRecord]:
        """Pods on nodes that an elastic job does not want: the scheduler decides which it has."""
        spec, pods = resolved.spec, resolved.pods
        if spec.elastic is None or spec.held:
            return
        wanted = {slot.name for slot in spec.slots}
        for pod in pods.values():
            if pod.name not in wanted and pod.live and pod.node and self._pods.is_ours(pod):
                yield pod

    def _workload(self, resolved: ResolvedSpec, tasks: list[Task]) -> Workload:
        spec, pods, done = resolved.spec, resolved.pods, resolved.done
        ended_ones = sum(slot.varying for slot in done)
        minimum = _open_minimum(spec, _minimum(spec, resolved.slots), tasks, ended_ones)
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
            may_preempt=self._may_preempt(resolved),
            held=spec.held or self._held(resolved),
            remarks=remarks,
            broken_since=spec.broken_since,
            whole_minimum=spec.whole_minimum,
        )

    def _growth(
        self, spec: WorkloadSpec, taken: list[Task | Slot], pods: Mapping[str, PodRecord]
    ) -> Growth | None:
        """How a workload is resized; new pods get names that are neither used nor claimed."""
        if spec.elastic is None:
            return None
        growth = growth_of(spec.elastic, taken, lambda prefix: self._foreign(spec, prefix, pods))
        prefix = spec.elastic.series.prefix
        settled = not any(pod.leaving and pod.name.startswith(prefix) for pod in pods.values())
        sized_by_policy = spec.elastic.sized_by_policy and self._config.elastic_policy != FULFILMENT
        return replace(growth, settled=settled, sized_by_policy=sized_by_policy)

    def _foreign(self, spec: WorkloadSpec, prefix: str, pods: Mapping[str, PodRecord]) -> frozenset[int]:
        """Numbers of a prefix whose names are used by pods of other owners, or claimed by other workloads."""
        row = namespace, _ = spec.metadata.namespace, prefix
        numbers = {*self.taken[row], *self._claims.rows[row]}
        names = {number: f"{prefix}{number}" for number in numbers}
        return frozenset(
            number
            for number, name in names.items()
            if name not in pods and not self._claims.holds(spec.key, (namespace, name))
        )

    def _is_ours(self, slot: Slot) -> bool:
        """Whether Shoal schedules a pod; a template that names no scheduler counts."""
        scheduler = slot.pod_class.scheduler
        return not scheduler or self._config.schedules(scheduler)

    def _pods_of(self, spec: WorkloadSpec) -> dict[str, PodRecord]:
        """The existing pods of a spec, by name."""
        if spec.kind in self._world.jobs:
            return {pod.name: pod for pod in self._pods.of(spec.kind, spec.metadata)}
        keys = ((spec.metadata.namespace, slot.name) for slot in spec.slots)
        return {key[1]: pod for key in keys if (pod := self._pods.get(key))}

    def _task(self, spec: WorkloadSpec, slot: Slot, pod: PodRecord | None) -> tuple[PodRecord, Task]:
        node = self._node(spec, slot, pod)
        if pod is None or not (pod.live or (node == pod.node and node and not pod.finished)):
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
            column=self._nodes.nodes.columns.get(node, NO_NODE),
            nominated=self._nodes.nodes.columns.get(spec.nominations.get(slot.name, ""), NO_NODE),
        )
        return pod, task

    def _node(self, spec: WorkloadSpec, slot: Slot, pod: PodRecord | None) -> str:
        """The node whose room a slot holds: that of its live pod, else the allocated one; "" if none.

        An allocation is void on a node that the pod could not be bound to now, and in a suspended job.
        """
        if pod and pod.live and pod.node:
            return pod.node
        node = spec.allocations.get(slot.name, "")
        rules = (pod.pod_class if pod and pod.live else slot.pod_class).shape.nodes
        return node if node and not spec.held and self._nodes.admits(node, rules) else ""

    def _pool_name(self, resolved: ResolvedSpec) -> str:
        """The pool named by the job, else by its pods, else by their batch Job, else by the namespace."""
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
        """The priority: as resolved in its pods, else of the PriorityClass, else the global default."""
        named = _class_of(resolved)
        said = (pod_class.priority for pod_class in resolved.pod_classes if pod_class.priority_class == named)
        value = next((priority for priority in said if priority is not None), None)
        if value is not None:
            return value
        return (self._world.priority_of(named) or 0) if named else self._world.default_priority

    def _may_preempt(self, resolved: ResolvedSpec) -> bool:
        """Whether a job may preempt: not if its class or one of its pods has preemptionPolicy Never."""
        if any(pod_class.never_preempts for pod_class in resolved.pod_classes):
            return False
        return not self._world.never_preempts(_class_of(resolved))

    def _held(self, resolved: ResolvedSpec) -> Reason | None:
        """Why a workload must not be placed now, whatever room there is; None if it may."""
        refused = self._claims.refused(resolved.spec.key)
        if refused:
            return Reason("NameTaken", f"the pod {refused[0]}/{refused[1]} has another owner")
        return next((slot.pod_class.held for slot in resolved.wanted if slot.pod_class.held), None)


def _occupant(task: Task) -> Occupant:
    return Occupant(task.column, task.shape, task.identity)


def _class_of(resolved: ResolvedSpec) -> str:
    """The PriorityClass of a job, else of the first of its pods that names one."""
    named = (pod_class.priority_class for pod_class in resolved.pod_classes)
    return resolved.spec.priority_class or next(filter(None, named), "")


def _minimum(spec: WorkloadSpec, slots: list[Slot]) -> int:
    """The minimum, as far as Shoal schedules the pods."""
    if len(slots) == len(spec.slots):
        return spec.minimum
    return min(spec.minimum, sum(slot.varying for slot in slots))


def _open_minimum(spec: WorkloadSpec, minimum: int, tasks: list[Task], ended_ones: int) -> int:
    """The minimum to reach next: a job that lost a part of the last minimum it had gets that back first."""
    placed = [task.varying for task in tasks if task.column != NO_NODE]
    known = minimum if spec.whole_minimum is None else min(spec.whole_minimum, minimum)
    return known if placed and ended_ones + sum(placed) < known else minimum


def _present(tasks: list[Task], least: int) -> list[Task]:
    """Tasks of an elastic workload: placed ones, and those that its minimum lacks, else nominated ones."""
    lacking = max(least - sum(task.varying and task.column != NO_NODE for task in tasks), 0)
    missing = [task for task in tasks if task.varying and task.column == NO_NODE]
    nominated = [task for task in missing if task.nominated != NO_NODE]
    wanted = set(missing[:lacking] if lacking else nominated)
    return [task for task in tasks if not task.varying or task.column != NO_NODE or task in wanted]
